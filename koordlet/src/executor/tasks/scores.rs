//! OOM score adjustments of the processes of directories, and what each process had before (hooks.md 10.2). The kernel
//! is an argument.
//!
//! A child has its parent's value from birth, also one that was set here: what it would have had otherwise is what its
//! parent had.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use nix::unistd::Pid;

use super::cookies::is_gone;
use crate::cgroup::path::CgroupDir;

/// Where a process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its parent.
    pub parent: Pid,
    /// When it started, in ticks since boot: tells it from a later one of the same number.
    pub started: u64,
}

/// The kernel's side of OOM scores.
pub trait ScoreKernel {
    /// The adjustment of a process.
    ///
    /// # Errors
    /// ENOENT or ESRCH where it is gone.
    fn score(&self, pid: Pid) -> io::Result<i32>;

    /// Sets it.
    ///
    /// # Errors
    /// EACCES below what the process may have without CAP_SYS_RESOURCE.
    fn set_score(&self, pid: Pid, score: i32) -> io::Result<()>;

    /// Where a process comes from.
    ///
    /// # Errors
    /// ENOENT or ESRCH where it is gone.
    fn origin(&self, pid: Pid) -> io::Result<Origin>;
}

/// What one look at a directory came to.
#[derive(Debug, Default)]
pub struct ScoreLook {
    /// How many processes have the value.
    pub holders: usize,
    /// Processes whose value was changed, and what it was.
    pub changed: Vec<(Pid, i32)>,
    /// Values that they were changed to.
    pub given: BTreeSet<i32>,
    /// Values that somebody put over ours.
    pub foreign: usize,
    /// Processes with our value of which nobody knows what they had before.
    pub unknown: usize,
    /// The first answer of the kernel that was no, of a process that is still there.
    pub error: Option<io::Error>,
}

impl ScoreLook {
    fn note(&mut self, error: io::Error) {
        if !is_gone(&error) {
            self.error.get_or_insert(error);
        }
    }
}

/// What was there before, by directory.
#[derive(Debug, Default)]
pub struct ScoreBook(BTreeMap<CgroupDir, DirScores>);

#[derive(Debug, Default)]
struct DirScores {
    /// The value that the directory's processes were given last.
    held: Option<i32>,
    seen: BTreeMap<Pid, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    started: u64,
    /// What it had before; `None` if it had the value already when it was seen first.
    original: Option<i32>,
}

impl ScoreBook {
    /// Makes the processes of a directory have the adjustment `wished`.
    pub fn hold(
        &mut self,
        kernel: &(impl ScoreKernel + ?Sized),
        dir: &CgroupDir,
        wished: i32,
        pids: &[Pid],
    ) -> ScoreLook {
        let book = self.0.entry(dir.clone()).or_default();
        let living: BTreeSet<Pid> = pids.iter().copied().collect();
        book.seen.retain(|pid, _| living.contains(pid));
        let mut look = ScoreLook::default();
        for pid in pids {
            match book.hold_one(kernel, *pid, wished, &mut look) {
                Ok(()) => look.holders += 1,
                Err(error) => look.note(error),
            }
        }
        book.held = Some(wished);
        look
    }

    /// Gives the processes of a directory what they had before, and forgets them. What others have changed since stays.
    pub fn release(
        &mut self,
        kernel: &(impl ScoreKernel + ?Sized),
        dir: &CgroupDir,
        pids: &[Pid],
    ) -> ScoreLook {
        let mut look = ScoreLook::default();
        let Some(book) = self.0.remove(dir) else { return look };
        for pid in pids {
            match book.release_one(kernel, *pid, &mut look) {
                Ok(()) => {}
                Err(error) => look.note(error),
            }
        }
        look
    }

    /// Forgets a directory that is gone.
    pub fn forget(&mut self, dir: &CgroupDir) {
        self.0.remove(dir);
    }

    /// What the first process of a directory had before, as far as that is known.
    pub fn original(&self, dir: &CgroupDir) -> Option<i32> {
        self.0.get(dir)?.first_original()
    }
}

impl DirScores {
    fn hold_one(
        &mut self,
        kernel: &(impl ScoreKernel + ?Sized),
        pid: Pid,
        wished: i32,
        look: &mut ScoreLook,
    ) -> io::Result<()> {
        let now = kernel.score(pid)?;
        if now == wished && self.seen.contains_key(&pid) {
            return Ok(());
        }
        let origin = kernel.origin(pid)?;
        let known = self.seen.get(&pid).copied().filter(|seen| seen.started == origin.started);
        let original = match known {
            Some(seen) => seen.original,
            None => self.original_of(now, wished, origin.parent),
        };
        if now != wished {
            kernel.set_score(pid, wished)?;
            look.changed.push((pid, now));
            look.given.insert(wished);
            if known.is_some() && self.held == Some(wished) {
                look.foreign += 1;
            }
        }
        self.seen.insert(pid, Seen { started: origin.started, original });
        Ok(())
    }

    /// What a process that is seen for the first time had before: `now`, unless it has that from us.
    fn original_of(&self, now: i32, wished: i32, parent: Pid) -> Option<i32> {
        match self.held {
            Some(held) if now == held => self.inherited(parent),
            _ => (now != wished).then_some(now),
        }
    }

    /// What a child would have without us.
    fn inherited(&self, parent: Pid) -> Option<i32> {
        match self.seen.get(&parent) {
            Some(parent) => parent.original,
            None => self.first_original(),
        }
    }

    fn first_original(&self) -> Option<i32> {
        self.seen.values().find_map(|seen| seen.original)
    }

    fn release_one(
        &self,
        kernel: &(impl ScoreKernel + ?Sized),
        pid: Pid,
        look: &mut ScoreLook,
    ) -> io::Result<()> {
        let now = kernel.score(pid)?;
        if Some(now) != self.held {
            return Ok(());
        }
        let origin = kernel.origin(pid)?;
        let original = match self.seen.get(&pid).filter(|seen| seen.started == origin.started) {
            Some(seen) => seen.original,
            None => self.inherited(origin.parent),
        };
        match original {
            Some(original) if original != now => {
                kernel.set_score(pid, original)?;
                look.changed.push((pid, now));
                look.given.insert(original);
            }
            Some(_) => {}
            None => look.unknown += 1,
        }
        Ok(())
    }
}
