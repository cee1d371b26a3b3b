//! A cgroup v1 kernel in memory, with the real one's refusals, for tests: what it says no to and why was tried
//! on a live 6.18 kernel (cases C006, C007, C009, C011, C012, C026, C027, C039, C041, C042). On request a unified one
//! (v2), which refuses less.

mod unified;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};

use nix::errno::Errno;

use super::super::backend::Backend;
use super::super::watch::{FileEvent, Place, Watch};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::{Controller, Resource};
use crate::cpuset::CpuSet;

const PAGE: i64 = 4096;
const UNLIMITED: i64 = 9_223_372_036_854_771_712;

/// A group in all three hierarchies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) id: u64,
    /// Hierarchies in which it is there; a runtime makes them one after another.
    pub(crate) made_in: BTreeSet<Controller>,
    pub(crate) quota: i64,
    pub(crate) period: i64,
    pub(crate) burst: i64,
    pub(crate) shares: u64,
    pub(crate) idle: i64,
    /// Of vendors' kernels.
    pub(crate) bvt: i64,
    pub(crate) cpus: CpuSet,
    pub(crate) mems: CpuSet,
    pub(crate) memory: i64,
    pub(crate) memsw: i64,
    pub(crate) memory_used: i64,
    pub(crate) tasks: bool,
}

#[derive(Default)]
struct State {
    /// Files and rules of v2.
    unified: bool,
    groups: BTreeMap<CgroupDir, Group>,
    next_id: u64,
    writes: Vec<String>,
    refusals: Vec<String>,
    reads: usize,
    events: Vec<FileEvent>,
    watched: BTreeSet<Place>,
    faults: BTreeMap<(CgroupDir, Resource), Errno>,
    watch_limit: Option<usize>,
}

/// The kernel.
#[derive(Clone)]
pub(crate) struct Kernel {
    state: Arc<Mutex<State>>,
    layout: Arc<Layout>,
    _folder: Arc<tempfile::TempDir>,
}

pub(crate) fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).unwrap()
}

impl Kernel {
    /// A v2 kernel, with a vendor's files if asked for.
    pub(crate) fn unified() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut controllers = std::fs::File::create_new(folder.path().join("cgroup.controllers")).unwrap();
        controllers.write_all(b"cpu cpuset memory io\n").unwrap();
        let layout = Arc::new(Layout::of_folder(folder.path()).unwrap());
        let state = State { unified: true, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), layout, _folder: Arc::new(folder) }
    }

    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for controller in ["cpu", "cpuset", "memory"] {
            std::fs::create_dir(folder.path().join(controller)).unwrap();
        }
        let layout = Arc::new(Layout::of_folder(folder.path()).unwrap());
        Self { state: Arc::default(), layout, _folder: Arc::new(folder) }
    }

    pub(crate) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    pub(crate) fn watch(&self) -> KernelWatch {
        KernelWatch(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes a group in all hierarchies, with its parent's CPUs as a runtime would give it.
    pub(crate) fn mkdir(&self, path: &str) -> u64 {
        self.mkdir_in(path, &[Controller::Cpu, Controller::Cpuset, Controller::Memory])
    }

    /// Makes a group in some hierarchies; again for further ones.
    pub(crate) fn mkdir_in(&self, path: &str, controllers: &[Controller]) -> u64 {
        if let Some(parent) = dir(path).parent().filter(|parent| !self.groups().contains_key(parent)) {
            self.mkdir(parent.as_str());
        }
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        let above = dir(path).parent().and_then(|parent| state.groups.get(&parent).cloned());
        let group = state.groups.entry(dir(path)).or_insert_with(|| Group {
            id,
            made_in: BTreeSet::new(),
            quota: -1,
            period: 100_000,
            burst: 0,
            shares: 1024,
            idle: 0,
            bvt: 0,
            cpus: above.as_ref().map_or_else(|| "0-7".parse().unwrap(), |g| g.cpus.clone()),
            mems: above.as_ref().map_or_else(|| "0".parse().unwrap(), |g| g.mems.clone()),
            memory: UNLIMITED,
            memsw: UNLIMITED,
            memory_used: 0,
            tasks: false,
        });
        group.made_in.extend(controllers);
        group.id
    }

    /// Removes a group from all hierarchies; watches end.
    pub(crate) fn rmdir(&self, path: &str) {
        let mut state = self.state();
        state.groups.remove(&dir(path));
        let gone: Vec<Place> = state.watched.iter().filter(|p| p.dir == dir(path)).cloned().collect();
        for place in gone {
            state.watched.remove(&place);
            state.events.push(FileEvent::Removed { place });
        }
    }

    pub(crate) fn group(&self, path: &str) -> Group {
        self.state().groups[&dir(path)].clone()
    }

    pub(crate) fn set(&self, path: &str, change: impl FnOnce(&mut Group)) {
        change(self.state().groups.get_mut(&dir(path)).unwrap());
    }

    /// Everything that can be set, to compare states.
    pub(crate) fn groups(&self) -> BTreeMap<CgroupDir, Group> {
        self.state().groups.clone()
    }

    /// Somebody else's write. True if the kernel took it.
    pub(crate) fn foreign(&self, path: &str, resource: Resource, text: &str) -> bool {
        let taken = self.state().set(&dir(path), resource, text).is_ok();
        if taken {
            self.raise(&dir(path), resource);
        }
        taken
    }

    /// From now on this write fails.
    pub(crate) fn fail(&self, path: &str, resource: Resource, errno: Option<Errno>) {
        let mut state = self.state();
        match errno {
            Some(errno) => state.faults.insert((dir(path), resource), errno),
            None => state.faults.remove(&(dir(path), resource)),
        };
    }

    pub(crate) fn limit_watches(&self, limit: usize) {
        self.state().watch_limit = Some(limit);
    }

    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().writes)
    }

    pub(crate) fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.state().refusals)
    }

    pub(crate) fn take_reads(&self) -> usize {
        std::mem::take(&mut self.state().reads)
    }

    pub(crate) fn take_events(&self) -> Vec<FileEvent> {
        std::mem::take(&mut self.state().events)
    }

    pub(crate) fn hierarchy(&self, resource: Resource) -> usize {
        let controller = resource.controller();
        self.layout.hierarchies().iter().position(|h| h.controllers().contains(&controller)).unwrap()
    }

    fn raise(&self, at: &CgroupDir, resource: Resource) {
        let place = Place { hierarchy: self.hierarchy(resource), dir: at.clone() };
        let mut state = self.state();
        if state.watched.contains(&place) {
            let loc = self.layout.file(at, resource).unwrap();
            let name = loc.relative.file_name().unwrap().to_str().unwrap().to_owned();
            state.events.push(FileEvent::Modified { place, name });
        }
    }
}

impl State {
    fn get(&self, at: &CgroupDir, resource: Resource) -> Result<&Group, Errno> {
        let group = self.groups.get(at).ok_or(Errno::ENOENT)?;
        if group.made_in.contains(&resource.controller()) { Ok(group) } else { Err(Errno::ENOENT) }
    }

    fn text(&self, at: &CgroupDir, resource: Resource) -> Result<String, Errno> {
        let group = self.get(at, resource)?;
        if let Some(text) = self.unified.then(|| unified::text(group, resource)).flatten() {
            return Ok(text);
        }
        Ok(match resource {
            Resource::CfsQuota => group.quota.to_string(),
            Resource::CfsPeriod => group.period.to_string(),
            Resource::CfsBurst => group.burst.to_string(),
            Resource::CpuShares => group.shares.to_string(),
            Resource::CpuIdle => group.idle.to_string(),
            Resource::BvtWarpNs => group.bvt.to_string(),
            Resource::Cpus => group.cpus.to_string(),
            Resource::Mems => group.mems.to_string(),
            Resource::MemoryLimit => group.memory.to_string(),
            Resource::MemswLimit => group.memsw.to_string(),
            _ => return Err(Errno::ENOENT),
        })
    }

    /// Changes a group if the kernel would.
    fn set(&mut self, at: &CgroupDir, resource: Resource, text: &str) -> Result<(), Errno> {
        if let Some(errno) = self.faults.get(&(at.clone(), resource)) {
            return Err(*errno);
        }
        let mut group = self.get(at, resource)?.clone();
        let text = &*if self.unified { unified::plain(resource, text) } else { text.to_owned() };
        let number = || text.trim().parse::<i64>().map_err(|_| Errno::EINVAL);
        match resource {
            Resource::CfsQuota => group.quota = number()?.max(-1),
            Resource::CfsPeriod => group.period = number()?,
            Resource::CfsBurst => group.burst = number()?,
            Resource::CpuShares if group.idle == 1 => return Err(Errno::EINVAL),
            Resource::CpuShares => {
                let (least, most) = if self.unified { (1, 10_000) } else { (2, 262_144) };
                group.shares = u64::try_from(number()?).unwrap().clamp(least, most);
            }
            Resource::BvtWarpNs => group.bvt = number()?,
            Resource::CpuIdle => {
                let idle = number()?;
                if idle != group.idle {
                    group.shares = if idle == 1 { 3 } else { 1024 };
                }
                group.idle = idle;
            }
            Resource::Cpus => {
                group.cpus = self.list(at, text, |g| &g.cpus)?;
                if group.cpus.is_empty() && group.tasks && !self.unified {
                    return Err(Errno::ENOSPC);
                }
            }
            Resource::Mems => group.mems = self.list(at, text, |g| &g.mems)?,
            Resource::MemoryLimit | Resource::MemswLimit => {
                let bytes = match number()? {
                    -1 => UNLIMITED,
                    bytes if bytes < 0 => return Err(Errno::EINVAL),
                    bytes => (bytes / PAGE * PAGE).min(UNLIMITED),
                };
                if bytes < group.memory_used {
                    return Err(Errno::EBUSY);
                }
                if resource == Resource::MemoryLimit {
                    group.memory = bytes;
                } else {
                    group.memsw = bytes;
                }
                if group.memory > group.memsw && !self.unified {
                    return Err(Errno::EINVAL);
                }
            }
            _ => return Err(Errno::ENOENT),
        }
        let bandwidth = matches!(resource, Resource::CfsQuota | Resource::CfsPeriod | Resource::CfsBurst);
        let before = self.groups.insert(at.clone(), group).unwrap();
        if bandwidth && !self.bandwidth_holds() {
            self.groups.insert(at.clone(), before);
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// A list within the parent's, and not without any of a child's.
    fn list(&self, at: &CgroupDir, text: &str, of: impl Fn(&Group) -> &CpuSet) -> Result<CpuSet, Errno> {
        let list: CpuSet = text.trim_end().parse().map_err(|_| Errno::EINVAL)?;
        if self.unified {
            return Ok(list);
        }
        if at.parent().is_some_and(|parent| !list.is_subset(of(&self.groups[&parent]))) {
            return Err(Errno::EACCES);
        }
        let children = self.groups.iter().filter(|(d, _)| d.parent().as_ref() == Some(at));
        if children.into_iter().any(|(_, child)| !of(child).is_subset(&list)) {
            return Err(Errno::EBUSY);
        }
        Ok(list)
    }

    /// Every finite quota is at least 1 ms and its burst, and its share of the period at most that of the next
    /// finite one above.
    fn bandwidth_holds(&self) -> bool {
        self.groups.iter().filter(|(_, g)| g.quota >= 0).all(|(at, group)| {
            let mut above = at.parent().filter(|_| !self.unified);
            while let Some(parent) = above {
                let g = &self.groups[&parent];
                if g.quota >= 0 && group.quota * g.period > g.quota * group.period {
                    return false;
                }
                if g.quota >= 0 {
                    break;
                }
                above = parent.parent();
            }
            group.quota >= 1000 && group.burst <= group.quota
        })
    }
}

impl Backend for Kernel {
    fn id(&self, at: &CgroupDir, resource: Resource) -> io::Result<u64> {
        Ok(self.state().get(at, resource)?.id)
    }

    fn read(&self, at: &CgroupDir, resource: Resource) -> io::Result<String> {
        self.state().reads += 1;
        Ok(self.state().text(at, resource)?)
    }

    fn write(&self, at: &CgroupDir, resource: Resource, id: u64, text: &str) -> io::Result<()> {
        if self.id(at, resource)? != id {
            return Err(Errno::ENOENT.into());
        }
        let line = format!("{at} {} {text}", resource.v1_name());
        let result = self.state().set(at, resource, text);
        match result {
            Ok(()) => {
                self.state().writes.push(line);
                self.raise(at, resource);
                Ok(())
            }
            Err(errno) => {
                self.state().refusals.push(format!("{line}: {errno:?}"));
                Err(errno.into())
            }
        }
    }

    fn children(&self, at: &CgroupDir, _resource: Resource) -> io::Result<Vec<CgroupDir>> {
        let state = self.state();
        Ok(state.groups.keys().filter(|d| d.parent().as_ref() == Some(at)).cloned().collect())
    }
}

/// Watches of the emulated kernel.
pub(crate) struct KernelWatch(Kernel);

impl Watch for KernelWatch {
    fn add(&mut self, place: &Place) -> io::Result<()> {
        let mut state = self.0.state();
        if !state.groups.contains_key(&place.dir) {
            return Err(Errno::ENOENT.into());
        }
        if state.watch_limit.is_some_and(|limit| state.watched.len() >= limit) {
            return Err(Errno::ENOSPC.into());
        }
        state.watched.insert(place.clone());
        Ok(())
    }

    fn remove(&mut self, place: &Place) {
        self.0.state().watched.remove(place);
    }

    fn watches(&self, place: &Place) -> bool {
        self.0.state().watched.contains(place)
    }

    fn places(&self) -> Vec<Place> {
        self.0.state().watched.iter().cloned().collect()
    }

    fn drain(&mut self) -> io::Result<Vec<FileEvent>> {
        Ok(self.0.take_events())
    }

    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}
