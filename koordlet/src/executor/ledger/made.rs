//! Things that we made on the host, of which the ledger says no more than that they are ours to remove.

use std::fmt;

use crate::claims::claim::Owner;
use crate::claims::own_file::OwnFile;
use crate::resctrl::group::ResctrlGroup;

/// A thing that was not there before us.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Made {
    /// The root qdisc of a network device, by the device's name.
    Qdisc(String),
    /// Our table of packet rules.
    PacketTable,
    /// A file of our own making.
    File(OwnFile),
    /// A group of resctrl.
    ResctrlGroup(ResctrlGroup),
}

impl Made {
    /// Kind and name, as a ledger line has them.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Qdisc(device) => ("qdisc", device),
            Self::PacketTable => ("table", ""),
            Self::File(file) => ("file", file.name()),
            Self::ResctrlGroup(group) => ("resctrl", group.name()),
        }
    }

    /// The thing of that kind and name.
    pub(super) fn of_parts(kind: &str, name: String) -> Result<Self, String> {
        match kind {
            "qdisc" if !name.is_empty() => Ok(Self::Qdisc(name)),
            "table" => Ok(Self::PacketTable),
            "file" => OwnFile::from_name(&name).map(Self::File).ok_or(format!("{name:?} is no file of ours")),
            "resctrl" => ResctrlGroup::known(&name)
                .map(Self::ResctrlGroup)
                .ok_or(format!("{name:?} is no group of ours")),
            _ => Err(format!("{kind:?} {name:?} is nothing that we make")),
        }
    }

    /// Whether it is still there after the machine was started anew.
    pub fn outlives_boot(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qdisc(device) => write!(f, "root qdisc of {device}"),
            Self::PacketTable => f.write_str("packet table koordlet"),
            Self::File(file) => file.fmt(f),
            Self::ResctrlGroup(group) => write!(f, "resctrl group {group}"),
        }
    }
}

/// A thing that we made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeEntry {
    /// What.
    pub made: Made,
    /// Boot in which that was.
    pub boot: String,
    /// Whose claim it was made for.
    pub owner: Owner,
    /// What was in its place, in words.
    pub was: String,
}
