//! Which core scheduling cookie each group has, and which processes hold it, hooks.md 10.1: the book that makes the
//! containers of a group share one cookie. The kernel hands out cookies and tells those of living processes, but never
//! who else has one; the book remembers that. Time and kernel are arguments.
//!
//! Against the reference: cookies of known processes are read each time, so that one that others changed, or a process
//! that got the number of a dead one, is put right.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use nix::unistd::Pid;

use crate::cgroup::path::CgroupDir;
use crate::units::Nanos;

/// A group that nobody asked about for so long is forgotten.
const EXPIRY: Nanos = Nanos(300_000_000_000);

/// The kernel's side of core scheduling. A cookie of 0 is none.
pub trait CookieKernel {
    /// The cookie of a process's first thread.
    ///
    /// # Errors
    /// ESRCH where it is gone.
    fn cookie(&self, pid: Pid) -> io::Result<u64>;

    /// Gives all threads of a process a cookie that nobody else has.
    ///
    /// # Errors
    /// What the kernel answered.
    fn create_cookie(&self, pid: Pid) -> io::Result<()>;

    /// Gives all threads of the processes `to` the cookie of `from`, none without it. One answer each.
    ///
    /// # Errors
    /// The cookie of `from` could not be had, or there was no thread to do it on.
    fn share_cookie(&self, from: Option<Pid>, to: &[Pid]) -> io::Result<Vec<io::Result<()>>>;
}

/// A group's cookie and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieGroup {
    /// The cookie.
    pub cookie: u64,
    /// Processes that were given it.
    pub pids: BTreeSet<Pid>,
    refreshed: Nanos,
}

/// What one look at a container came to.
#[derive(Debug, Default)]
pub struct CookieLook {
    /// The cookie that its processes are to have; 0 is none.
    pub cookie: u64,
    /// How many have it.
    pub holders: usize,
    /// Processes whose cookie was changed, and what it was.
    pub changed: Vec<(Pid, u64)>,
    /// The first answer of the kernel that was no, of a process that is still there.
    pub error: Option<io::Error>,
}

impl CookieLook {
    fn note(&mut self, error: io::Error) {
        if !is_gone(&error) {
            self.error.get_or_insert(error);
        }
    }
}

/// Groups by name, and the group of each container.
#[derive(Debug, Default)]
pub struct CookieBook {
    groups: BTreeMap<Arc<str>, CookieGroup>,
    containers: BTreeMap<CgroupDir, Arc<str>>,
}

impl CookieBook {
    /// Groups by name.
    pub fn groups(&self) -> &BTreeMap<Arc<str>, CookieGroup> {
        &self.groups
    }

    /// The group of each container that has one.
    pub fn containers(&self) -> &BTreeMap<CgroupDir, Arc<str>> {
        &self.containers
    }

    /// Takes over the cookie that a container was found with, one of an agent before this. A second cookie of a group
    /// is left for `hold` to replace. False if no process could be read, so that it has to be tried again.
    pub fn load(
        &mut self,
        kernel: &(impl CookieKernel + ?Sized),
        container: &CgroupDir,
        group: &Arc<str>,
        pids: &[Pid],
        now: Nanos,
    ) -> bool {
        let read: Vec<(Pid, u64)> =
            pids.iter().filter_map(|pid| Some((*pid, kernel.cookie(*pid).ok()?))).collect();
        let Some((_, cookie)) = read.iter().find(|(_, cookie)| *cookie != 0).copied() else {
            return !read.is_empty();
        };
        let new = || CookieGroup { cookie, pids: BTreeSet::new(), refreshed: now };
        let entry = self.groups.entry(Arc::clone(group)).or_insert_with(new);
        if entry.cookie == cookie {
            entry.pids.extend(read.iter().filter(|(_, each)| *each == cookie).map(|(pid, _)| *pid));
            entry.refreshed = now;
            self.containers.insert(container.clone(), Arc::clone(group));
        }
        true
    }

    /// Makes the processes `pids` of a container hold the cookie of `group`.
    pub fn hold(
        &mut self,
        kernel: &(impl CookieKernel + ?Sized),
        container: &CgroupDir,
        group: &Arc<str>,
        pids: &[Pid],
        now: Nanos,
    ) -> CookieLook {
        let mut look = CookieLook::default();
        if pids.is_empty() {
            return look;
        }
        let entry = self.groups.get_mut(group).filter(|entry| now < entry.refreshed + EXPIRY);
        let Some(entry) = entry else {
            self.add(kernel, container, group, pids, now, &mut look);
            return look;
        };
        look.cookie = entry.cookie;
        let (mut holders, mut others) = (Vec::new(), Vec::new());
        for pid in pids {
            match kernel.cookie(*pid) {
                Ok(cookie) if cookie == entry.cookie => holders.push(*pid),
                Ok(cookie) => others.push((*pid, cookie)),
                Err(error) => look.note(error),
            }
        }
        look.holders = holders.len();
        let all_known = pids.iter().all(|pid| entry.pids.contains(pid));
        if holders.is_empty() && others.is_empty() && !all_known {
            return look;
        }
        let sibling = if others.is_empty() { None } else { entry.sibling(kernel) };
        if others.is_empty() || sibling.is_some() {
            if let Some(sibling) = sibling {
                let took = share(kernel, Some(sibling), others, &mut look);
                entry.pids.extend(took);
            }
            entry.pids.extend(holders);
            entry.refreshed = now;
            self.containers.insert(container.clone(), Arc::clone(group));
            return look;
        }
        self.groups.remove(group);
        self.containers.remove(container);
        look = CookieLook::default();
        self.add(kernel, container, group, pids, now, &mut look);
        look
    }

    /// A group's first container: its first process gets a new cookie, the others share it.
    fn add(
        &mut self,
        kernel: &(impl CookieKernel + ?Sized),
        container: &CgroupDir,
        group: &Arc<str>,
        pids: &[Pid],
        now: Nanos,
        look: &mut CookieLook,
    ) {
        let Some((first, rest)) = pids.split_first() else { return };
        let made = kernel.cookie(*first).and_then(|was| {
            kernel.create_cookie(*first)?;
            Ok((was, kernel.cookie(*first)?))
        });
        let (was, cookie) = match made {
            Ok(made) => made,
            Err(error) => return look.note(error),
        };
        look.cookie = cookie;
        look.holders = 1;
        look.changed.push((*first, was));
        let rest = rest.iter().map(|pid| (*pid, kernel.cookie(*pid).unwrap_or_default())).collect();
        let mut holders: BTreeSet<Pid> = share(kernel, Some(*first), rest, look).into_iter().collect();
        holders.insert(*first);
        self.groups.insert(Arc::clone(group), CookieGroup { cookie, pids: holders, refreshed: now });
        self.containers.insert(container.clone(), Arc::clone(group));
    }

    /// Takes the cookie from the processes of a container that has one by this book.
    pub fn clear(
        &mut self,
        kernel: &(impl CookieKernel + ?Sized),
        container: &CgroupDir,
        pids: &[Pid],
    ) -> CookieLook {
        let mut look = CookieLook::default();
        let Some(group) = self.containers.get(container).filter(|_| !pids.is_empty()).cloned() else {
            return look;
        };
        let mut readable = Vec::new();
        for pid in pids {
            match kernel.cookie(*pid) {
                Ok(cookie) => readable.push((*pid, cookie)),
                Err(error) => look.note(error),
            }
        }
        let holders = readable.iter().filter(|(_, cookie)| *cookie != 0).copied().collect();
        // What did not let go is tried again.
        let mut left = CookieLook::default();
        share(kernel, None, holders, &mut left);
        look.changed = left.changed;
        if let Some(error) = left.error {
            look.error = Some(error);
            return look;
        }
        look.holders = readable.len();
        self.containers.remove(container);
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.pids.retain(|pid| readable.iter().all(|(readable, _)| readable != pid));
            if entry.pids.is_empty() {
                self.groups.remove(&group);
            }
        }
        look
    }

    /// Forgets a container that is gone. Its processes are found stale when they are asked for the cookie.
    pub fn forget(&mut self, container: &CgroupDir) {
        self.containers.remove(container);
    }

    /// Drops groups that nobody asked about for 300 s, with their containers.
    pub fn sweep(&mut self, now: Nanos) {
        self.groups.retain(|_, entry| now < entry.refreshed + EXPIRY);
        let groups = &self.groups;
        self.containers.retain(|_, group| groups.contains_key(group));
    }
}

impl CookieGroup {
    /// The first process that still holds the cookie; those before it that don't are dropped.
    fn sibling(&mut self, kernel: &(impl CookieKernel + ?Sized)) -> Option<Pid> {
        while let Some(first) = self.pids.first().copied() {
            if kernel.cookie(first).is_ok_and(|cookie| cookie == self.cookie) {
                return Some(first);
            }
            self.pids.remove(&first);
        }
        None
    }
}

/// Has `to` share the cookie of `from`; those that took it.
fn share(
    kernel: &(impl CookieKernel + ?Sized),
    from: Option<Pid>,
    to: Vec<(Pid, u64)>,
    look: &mut CookieLook,
) -> Vec<Pid> {
    if to.is_empty() {
        return Vec::new();
    }
    let pids: Vec<Pid> = to.iter().map(|(pid, _)| *pid).collect();
    let answers = match kernel.share_cookie(from, &pids) {
        Ok(answers) => answers,
        Err(error) => {
            look.note(error);
            return Vec::new();
        }
    };
    let mut took = Vec::new();
    for ((pid, was), answer) in to.into_iter().zip(answers) {
        match answer {
            Ok(()) => {
                look.changed.push((pid, was));
                look.holders += 1;
                took.push(pid);
            }
            Err(error) => look.note(error),
        }
    }
    took
}

/// Whether an error means that the process has ended.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || super::super::backend::is_gone(error)
}
