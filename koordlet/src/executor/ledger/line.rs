//! The text of a ledger line, both ways.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Entry, Original};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::claims::claim::Owner;
use crate::claims::target::Target;

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
}

/// A target as text: its directory and its resource's name.
#[derive(Serialize, Deserialize)]
struct Name {
    dir: String,
    resource: String,
}

impl Name {
    fn of(target: &Target) -> Self {
        let Target::Cgroup { dir, resource } = target;
        Self { dir: dir.to_string(), resource: resource.v1_name().to_owned() }
    }

    fn target(&self) -> Result<Target, String> {
        let dir = CgroupDir::new(&self.dir).map_err(|error| error.to_string())?;
        let resource = Resource::from_v1_name(&self.resource)
            .ok_or_else(|| format!("{:?} is no resource", self.resource))?;
        Ok(Target::Cgroup { dir, resource })
    }
}

/// What a ledger file says.
#[derive(Default)]
pub(super) struct Read {
    pub(super) entries: BTreeMap<Target, Entry>,
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

pub(super) fn forget(target: &Target) -> String {
    encode(&Line::Forget { target: Name::of(target) })
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
            Ok(Change::Record(entry)) => {
                read.lines += 1;
                read.entries.insert(entry.target.clone(), *entry);
            }
            Ok(Change::Forget(target)) => {
                read.lines += 1;
                read.entries.remove(&target);
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
    Forget(Target),
}

fn decode(line: &[u8]) -> Result<Change, String> {
    if line.last() != Some(&b'\n') {
        return Err("the line has no end".to_owned());
    }
    match serde_json::from_slice(line).map_err(|error| error.to_string())? {
        Line::Forget { target } => Ok(Change::Forget(target.target()?)),
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
