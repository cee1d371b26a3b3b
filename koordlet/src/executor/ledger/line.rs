//! The text of a ledger line, both ways.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Entry, HostEntry, Made, MadeEntry, Original};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::claims::claim::Owner;
use crate::claims::target::{CgroupTarget, HostFile, HostRoot};

#[derive(Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    Record {
        target: Name,
        id: u64,
        boot: String,
        owner: Owner,
        original: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        period: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Name>,
    },
    Forget {
        target: Name,
    },
    RecordFile {
        root: Root,
        file: String,
        boot: String,
        owner: Owner,
        original: String,
    },
    ForgetFile {
        root: Root,
        file: String,
    },
    RecordMade {
        kind: String,
        name: String,
        boot: String,
        owner: Owner,
        was: String,
    },
    ForgetMade {
        kind: String,
        name: String,
    },
}

/// A root as text.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Root {
    Proc,
    Sys,
}

impl Root {
    fn of(file: &HostFile) -> Self {
        match file.root() {
            HostRoot::Proc => Self::Proc,
            HostRoot::Sys => Self::Sys,
        }
    }

    fn file(&self, path: &str) -> Result<HostFile, String> {
        let root = match self {
            Self::Proc => HostRoot::Proc,
            Self::Sys => HostRoot::Sys,
        };
        HostFile::checked(root, path).ok_or_else(|| format!("{path:?} is no path of a setting"))
    }
}

/// A target as text: its directory and its resource's name.
#[derive(Serialize, Deserialize)]
struct Name {
    dir: String,
    resource: String,
}

impl Name {
    fn of(target: &CgroupTarget) -> Self {
        let CgroupTarget { dir, resource } = target;
        Self { dir: dir.to_string(), resource: resource.v1_name().to_owned() }
    }

    fn target(&self) -> Result<CgroupTarget, String> {
        let dir = CgroupDir::new(&self.dir).map_err(|error| error.to_string())?;
        let resource = Resource::from_v1_name(&self.resource)
            .ok_or_else(|| format!("{:?} is no resource", self.resource))?;
        Ok(CgroupTarget { dir, resource })
    }
}

/// What a ledger file says.
#[derive(Default)]
pub(super) struct Read {
    pub(super) entries: BTreeMap<CgroupTarget, Entry>,
    pub(super) host_files: BTreeMap<HostFile, HostEntry>,
    pub(super) made: BTreeMap<Made, MadeEntry>,
    /// Lines that were understood.
    pub(super) lines: usize,
    /// Bytes of those that were not.
    pub(super) damaged: Vec<u8>,
    pub(super) damaged_lines: usize,
    /// What was wrong with the first of them.
    pub(super) what: String,
}

pub(super) fn record(entry: &Entry) -> String {
    encode(&Line::Record {
        target: Name::of(&entry.target),
        id: entry.id,
        boot: entry.boot.clone(),
        owner: entry.owner,
        original: entry.original.value.clone(),
        period: entry.original.period,
        cause: entry.cause.as_ref().map(Name::of),
    })
}

pub(super) fn forget(target: &CgroupTarget) -> String {
    encode(&Line::Forget { target: Name::of(target) })
}

pub(super) fn record_host_file(entry: &HostEntry) -> String {
    let HostEntry { file, boot, owner, original } = entry.clone();
    let (root, file) = (Root::of(&file), file.path().to_owned());
    encode(&Line::RecordFile { root, file, boot, owner, original })
}

pub(super) fn forget_host_file(file: &HostFile) -> String {
    encode(&Line::ForgetFile { root: Root::of(file), file: file.path().to_owned() })
}

pub(super) fn record_made(entry: &MadeEntry) -> String {
    let MadeEntry { made, boot, owner, was } = entry.clone();
    let (kind, name) = owned(made.parts());
    encode(&Line::RecordMade { kind, name, boot, owner, was })
}

pub(super) fn forget_made(made: &Made) -> String {
    let (kind, name) = owned(made.parts());
    encode(&Line::ForgetMade { kind, name })
}

fn owned((kind, name): (&str, &str)) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

fn encode(line: &Line) -> String {
    // Texts and numbers always have a JSON form; an empty line would be skipped when read.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

pub(super) fn read_all(bytes: &[u8]) -> Read {
    let mut read = Read::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line == b"\n" {
            continue;
        }
        match decode(line) {
            Ok(change) => {
                read.lines += 1;
                read.take(change);
            }
            Err(what) => {
                if read.damaged_lines == 0 {
                    read.what = what;
                }
                read.damaged_lines += 1;
                read.damaged.extend_from_slice(line);
            }
        }
    }
    read
}

enum Change {
    Record(Box<Entry>),
    Forget(CgroupTarget),
    RecordFile(HostEntry),
    ForgetFile(HostFile),
    RecordMade(MadeEntry),
    ForgetMade(Made),
}

impl Read {
    fn take(&mut self, change: Change) {
        match change {
            Change::Record(entry) => {
                self.entries.insert(entry.target.clone(), *entry);
            }
            Change::Forget(target) => {
                self.entries.remove(&target);
            }
            Change::RecordFile(entry) => {
                self.host_files.insert(entry.file.clone(), entry);
            }
            Change::ForgetFile(file) => {
                self.host_files.remove(&file);
            }
            Change::RecordMade(entry) => {
                self.made.insert(entry.made.clone(), entry);
            }
            Change::ForgetMade(made) => {
                self.made.remove(&made);
            }
        }
    }
}

fn decode(line: &[u8]) -> Result<Change, String> {
    if line.last() != Some(&b'\n') {
        return Err("the line has no end".to_owned());
    }
    match serde_json::from_slice(line).map_err(|error| error.to_string())? {
        Line::Forget { target } => Ok(Change::Forget(target.target()?)),
        Line::ForgetFile { root, file } => Ok(Change::ForgetFile(root.file(&file)?)),
        Line::RecordFile { root, file, boot, owner, original } => {
            Ok(Change::RecordFile(HostEntry { file: root.file(&file)?, boot, owner, original }))
        }
        Line::ForgetMade { kind, name } => Ok(Change::ForgetMade(Made::of_parts(&kind, name)?)),
        Line::RecordMade { kind, name, boot, owner, was } => {
            let made = Made::of_parts(&kind, name)?;
            Ok(Change::RecordMade(MadeEntry { made, boot, owner, was }))
        }
        Line::Record { target, id, boot, owner, original, period, cause } => {
            Ok(Change::Record(Box::new(Entry {
                target: target.target()?,
                id,
                boot,
                owner,
                original: Original { value: original, period },
                cause: cause.as_ref().map(Name::target).transpose()?,
            })))
        }
    }
}
