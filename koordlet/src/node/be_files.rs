//! The settings that limit best effort, read from its cgroup directories: CPU lists and quota (collection.md 6.4).
//!
//! Quota, period and the class directory's own CPU list are read in each round, from held descriptors. The lists
//! of the containers are too many for that, and hardly ever change, so they are read again only
//! - when a directory is new, at once, and as long as its list is empty (on v1 it is until the runtime writes it);
//! - all of them when the class directory's list has become another one: suppression narrows both;
//! - otherwise a fifteenth in turn in each round, and all at once if one of those differs. Who changes the
//!   containers alone (suppression under the kubelet's static policy, CPUs that come and go) changes all of them, so
//!   it is seen in the next round; a foreign write to a single container within fifteen rounds.
//!
//! Descriptors of containers are not held: a fifteenth of them opened anew costs less than a descriptor each.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cgroup::held_file::{HeldFile, ReadBuffer, ReadError};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::place::DirKind;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::{Value, ValueError};
use crate::state::be_resources::{BeQuota, real_limit};
use crate::state::tree::CgroupTree;
use crate::units::{CfsQuota, MilliCpu};

/// Rounds in which the list of every container was read once.
const ROTATION: usize = 15;

/// Why the limit of best effort is not known though its directory exists.
#[derive(Debug, thiserror::Error)]
pub enum BeFileError {
    /// The kernel did not give a file.
    #[error("cannot read the limits of best effort")]
    Read(#[from] ReadError),
    /// The kernel stopped giving a file that was open.
    #[error("cannot read {resource:?} of {dir} any more")]
    Reread {
        /// The directory.
        dir: CgroupDir,
        /// The resource.
        resource: Resource,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A file does not hold a value.
    #[error("cannot use {resource:?} of {dir}")]
    Value {
        /// The directory.
        dir: CgroupDir,
        /// The resource.
        resource: Resource,
        /// What is wrong.
        source: ValueError,
    },
}

/// Reads them again and again.
#[derive(Debug)]
pub struct BeFiles {
    layout: Arc<Layout>,
    buffer: ReadBuffer,
    quota: ClassFile,
    period: ClassFile,
    cpus: ClassFile,
    class_cpus: CpuList,
    /// The tree whose containers these are.
    tree: Arc<CgroupTree>,
    containers: BTreeMap<CgroupDir, CpuList>,
    /// The container that the next round's share begins after.
    turn: Option<CgroupDir>,
}

/// A CPU list as it was read last, and its length.
#[derive(Debug, Default)]
struct CpuList {
    text: String,
    /// Number of CPUs; `None` before the first reading, and while the file is not there.
    len: Option<usize>,
}

/// A file of the class directory, held open while the directory lives.
#[derive(Debug)]
struct ClassFile {
    dir: CgroupDir,
    resource: Resource,
    held: Option<HeldFile>,
}

impl BeFiles {
    /// For the best-effort directory `dir` and what is beneath it.
    pub fn new(layout: Arc<Layout>, dir: &CgroupDir) -> Self {
        let file = |resource| ClassFile { dir: dir.clone(), resource, held: None };
        Self {
            layout,
            buffer: ReadBuffer::default(),
            quota: file(Resource::CfsQuota),
            period: file(Resource::CfsPeriod),
            cpus: file(Resource::Cpus),
            class_cpus: CpuList::default(),
            tree: Arc::default(),
            containers: BTreeMap::new(),
            turn: None,
        }
    }

    /// One round: what CPU lists and quota leave to best effort, collection.md 6.4. `None` where there is no
    /// best-effort directory. A container that goes meanwhile does not count (collection.md 15 row 27).
    ///
    /// # Errors
    /// A file that is there cannot be read or understood.
    pub fn real_limit(&mut self, tree: &Arc<CgroupTree>) -> Result<Option<MilliCpu>, BeFileError> {
        let Some(quota) = self.quota()? else { return Ok(None) };
        let Some(smallest) = self.smallest_cpuset(tree)? else { return Ok(None) };
        Ok(Some(real_limit(smallest, quota)))
    }

    /// CPUs of the smallest list among the class directory's and those of containers and sandboxes.
    fn smallest_cpuset(&mut self, tree: &Arc<CgroupTree>) -> Result<Option<usize>, BeFileError> {
        let Self { cpus, class_cpus, layout, buffer, .. } = &mut *self;
        let Some(taken) = cpus.with_text(layout, buffer, |text| class_cpus.take(layout, text))? else {
            return Ok(None);
        };
        let (dir, resource) = (&cpus.dir, cpus.resource);
        let class_changed =
            taken.map_err(|source| BeFileError::Value { dir: dir.clone(), resource, source })?;
        self.follow(tree);
        let changed = class_changed || self.read_due()?;
        if changed {
            self.read_all()?;
        }
        let containers = self.containers.values().filter_map(|list| list.len);
        Ok(containers.chain(self.class_cpus.len).min())
    }

    /// Takes over which containers exist; those that were known keep what was read.
    fn follow(&mut self, tree: &Arc<CgroupTree>) {
        if Arc::ptr_eq(tree, &self.tree) {
            return;
        }
        self.tree = Arc::clone(tree);
        let class = &self.cpus.dir;
        let mut known = std::mem::take(&mut self.containers);
        let containers =
            tree.dirs.iter().filter(|(dir, kind)| **kind == DirKind::Container && class.contains(dir));
        self.containers =
            containers.map(|(dir, _)| (dir.clone(), known.remove(dir).unwrap_or_default())).collect();
    }

    /// Reads the lists that are not known or empty, and this round's share of the others. Whether one of the
    /// latter is another one than it was.
    fn read_due(&mut self) -> Result<bool, BeFileError> {
        let share = self.containers.len().div_ceil(ROTATION);
        let after = |dir: &CgroupDir| self.turn.as_ref().is_none_or(|turn| dir > turn);
        let place = self.containers.keys().position(after).unwrap_or(0);
        let (mut changed, mut last) = (false, None);
        for (index, (dir, list)) in self.containers.iter_mut().enumerate() {
            let in_turn = (place..place.saturating_add(share)).contains(&index);
            if in_turn {
                last = Some(dir);
            }
            if in_turn || list.len.is_none_or(|len| len == 0) {
                let was_known = list.len.is_some_and(|len| len > 0);
                changed |= list.read(&self.layout, dir, &mut self.buffer)? && was_known;
            }
        }
        self.turn = last.cloned();
        Ok(changed)
    }

    fn read_all(&mut self) -> Result<(), BeFileError> {
        for (dir, list) in &mut self.containers {
            list.read(&self.layout, dir, &mut self.buffer)?;
        }
        Ok(())
    }

    fn quota(&mut self) -> Result<Option<BeQuota>, BeFileError> {
        let Some(Value::Quota(quota)) = self.quota.value(&self.layout, &mut self.buffer)? else {
            return Ok(None);
        };
        if quota == CfsQuota::Unlimited {
            return Ok(Some(BeQuota { quota, period_us: 0 }));
        }
        match self.period.value(&self.layout, &mut self.buffer)? {
            Some(Value::Int(period_us)) => Ok(Some(BeQuota { quota, period_us })),
            _ => Ok(None),
        }
    }
}

impl CpuList {
    /// Reads the file of `dir` anew; whether it says something else than it did. A file that is not there makes
    /// the list unknown.
    fn read(
        &mut self,
        layout: &Layout,
        dir: &CgroupDir,
        buffer: &mut ReadBuffer,
    ) -> Result<bool, BeFileError> {
        let resource = Resource::Cpus;
        let file = layout.open(dir, resource)?;
        let text = file.as_ref().map(|file| file.read(buffer)).transpose();
        let text = text.map_err(|source| BeFileError::Reread { dir: dir.clone(), resource, source })?;
        let Some(text) = text.flatten() else {
            *self = Self::default();
            return Ok(false);
        };
        self.take(layout, text).map_err(|source| BeFileError::Value { dir: dir.clone(), resource, source })
    }

    /// Takes the file's text; whether it is another one than before.
    fn take(&mut self, layout: &Layout, text: &str) -> Result<bool, ValueError> {
        if self.len.is_some() && self.text == text {
            return Ok(false);
        }
        let len = match layout.parse(Resource::Cpus, text)? {
            Value::Cpus(cpus) => Some(cpus.len()),
            _ => None,
        };
        self.len = len;
        text.clone_into(&mut self.text);
        Ok(true)
    }
}

impl ClassFile {
    /// Hands the text to `take`; `None` if the directory or the file is not there.
    fn with_text<R>(
        &mut self,
        layout: &Layout,
        buffer: &mut ReadBuffer,
        take: impl FnOnce(&str) -> R,
    ) -> Result<Option<R>, BeFileError> {
        let Self { dir, resource, held } = self;
        let failed = |source| BeFileError::Reread { dir: dir.clone(), resource: *resource, source };
        // The descriptor may be of a directory that was removed, and made again since.
        for _ in 0..2 {
            if held.is_none() {
                *held = layout.open(dir, *resource)?;
            }
            let Some(file) = held.as_ref() else { break };
            if let Some(text) = file.read(buffer).map_err(failed)? {
                return Ok(Some(take(text)));
            }
            *held = None;
        }
        Ok(None)
    }

    fn value(&mut self, layout: &Layout, buffer: &mut ReadBuffer) -> Result<Option<Value>, BeFileError> {
        let resource = self.resource;
        let value = self.with_text(layout, buffer, |text| layout.parse(resource, text))?;
        value.transpose().map_err(|source| BeFileError::Value { dir: self.dir.clone(), resource, source })
    }
}

#[cfg(test)]
mod tests;
