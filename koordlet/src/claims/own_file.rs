//! Files of our own making that other programs read: the whole content is ours, and nobody's value is behind it.

use std::fmt;
use std::sync::Arc;

use super::combine::Rank;
use super::target::Target;

/// A file of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnFile {
    /// Terway's bandwidth of the node, hooks.md 11.4.
    TerwayNode,
    /// Terway's pods, hooks.md 11.4.
    TerwayPods,
}

impl OwnFile {
    /// All files.
    pub const ALL: [Self; 2] = [Self::TerwayNode, Self::TerwayPods];

    /// Its name in the folder that is agreed with its reader.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TerwayNode => "global_bps_config",
            Self::TerwayPods => "pod.json",
        }
    }

    /// The file of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|file| file.name() == name)
    }
}

impl fmt::Display for OwnFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "terway/qos/{}", self.name())
    }
}

/// What such a file is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnContent {
    /// There, with exactly this text.
    Text(Arc<str>),
    /// Not there.
    Absent,
}

impl fmt::Display for OwnContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Absent => f.write_str("no file"),
        }
    }
}

impl Target for OwnFile {
    type Value = OwnContent;

    fn precedence(&self) -> &'static [Rank] {
        &[]
    }
}
