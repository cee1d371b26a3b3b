//! What a look at a directory came to, for both attributes alike, and who is told of it.

use std::collections::BTreeSet;
use std::io;

use nix::unistd::Pid;

use super::Tasks;
use super::cookies::CookieLook;
use super::scores::ScoreLook;
use crate::claims::claim::Owner;
use crate::claims::target::TaskTarget;
use crate::executor::keeper::Books;
use crate::executor::observer::{WriteRecord, WriteSubject};
use crate::executor::report::NoticeKind;
use crate::executor::stats::count_many;
use crate::units::Nanos;

/// Time between two lines about foreign writes to one target.
const QUIET: Nanos = Nanos(60_000_000_000);

/// What a look came to.
pub(super) struct Looked {
    /// Text of the value.
    pub(super) text: String,
    /// How many tasks have it.
    pub(super) holders: usize,
    /// Processes that were changed, and what they had.
    pub(super) changed: Vec<(Pid, String)>,
    /// Values that others put over ours.
    pub(super) foreign: usize,
    /// The first answer of the kernel that was no.
    pub(super) error: Option<io::Error>,
    /// Whether another look is due at all.
    pub(super) again: bool,
}

impl Looked {
    pub(super) fn of_score(text: String, look: ScoreLook) -> Self {
        let ScoreLook { holders, changed, given: _, foreign, unknown: _, error } = look;
        let changed = changed.into_iter().map(|(pid, was)| (pid, was.to_string())).collect();
        Self { text, holders, changed, foreign, error, again: true }
    }

    pub(super) fn of_cookie(look: CookieLook, again: bool) -> Self {
        let CookieLook { cookie, holders, changed, error } = look;
        let changed = changed.into_iter().map(|(pid, was)| (pid, was.to_string())).collect();
        Self { text: cookie.to_string(), holders, changed, foreign: 0, error, again }
    }
}

impl Tasks {
    /// Tells of what the kernel took.
    pub(super) fn tell(
        &self,
        target: &TaskTarget,
        looked: &Looked,
        owner: Option<Owner>,
        why: &str,
        books: &Books<'_>,
    ) {
        if looked.changed.is_empty() {
            return;
        }
        count_many(&books.stats.written, looked.changed.len());
        let was: BTreeSet<&str> = looked.changed.iter().map(|(_, was)| was.as_str()).collect();
        books.tell(WriteRecord {
            subject: WriteSubject::Directory(target.dir.clone()),
            path: self.path(target),
            value: looked.text.clone(),
            was: was.into_iter().collect::<Vec<_>>().join(", "),
            owner,
            why: why.to_owned(),
        });
    }

    /// Tells of values that somebody put over ours, and that are put right, now and then.
    pub(super) fn tell_foreign(&mut self, target: &TaskTarget, looked: &Looked, books: &mut Books<'_>) {
        if looked.foreign == 0 {
            return;
        }
        count_many(&books.stats.foreign, looked.foreign);
        let track = self.tracks.entry(target.clone()).or_default();
        if track.told.is_none_or(|told| told + QUIET <= books.now) {
            track.told = Some(books.now);
            let said = format!("somebody changed {} tasks from {}; put right", looked.foreign, looked.text);
            books.notify(NoticeKind::ForeignWrite, self.path(target), said);
        }
    }
}
