//! What is kept of each target between events.

use super::super::foreign::ForeignAccount;
use super::super::refusal::Refusal;
use crate::cgroup::value::Value;
use crate::units::Nanos;

/// How a target stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not looked at yet.
    #[default]
    Unseen,
    /// The file means the wished value.
    Held,
    /// Not yet, for this reason.
    Waiting(String),
    /// Refused; the answer is in `Track::refusal`.
    Refused,
    /// Nothing is held here, for this reason if any.
    Left(Option<&'static str>),
    /// It would be written.
    DryRun,
}

/// A target's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// Id of the directory that the rest is about.
    pub(super) id: Option<u64>,
    /// Text of the file when it was last read.
    pub(super) text: Option<String>,
    pub(super) standing: Standing,
    /// The value aimed at when it was last examined: the plan's, or what other settings leave of it.
    pub(super) aim: Option<Value>,
    /// The wish was refused, since its parent lacks a part of it: that part is left out.
    pub(super) cut: bool,
    /// What other settings leave of the wish, in words.
    pub(super) note: Option<String>,
    /// When the directory was made, if that was seen.
    pub(super) born: Option<Nanos>,
    /// The runtime has set this file since the directory was made.
    pub(super) runtime_wrote: bool,
    /// The present value is another writer's, and ours is to be put back.
    pub(super) overwritten: bool,
    /// Until when repairs wait, since others keep writing.
    pub(super) contended_until: Option<Nanos>,
    pub(super) refusal: Option<Refusal>,
    pub(super) foreign: ForeignAccount,
}

impl Track {
    /// Forgets what was known of another directory under the same path.
    pub(super) fn start_anew(&mut self, id: u64, born: Option<Nanos>) {
        *self = Self { id: Some(id), born, ..Self::default() };
    }
}
