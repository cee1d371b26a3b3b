//! What the metrics page shows of tasks, hooks.md 16.3. Written by the executor at each look, read when a page is asked
//! for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cgroup::path::CgroupDir;
use crate::units::Nanos;

/// Counts of a group that nothing was added to for so long are dropped (hooks.md 16.3).
const EXPIRY: Nanos = Nanos(300_000_000_000);

/// What the tasks of a directory have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// Group and cookie.
    pub cookie: Option<(Arc<str>, u64)>,
    /// OOM score adjustment.
    pub score: Option<i32>,
}

/// How often cookies of a group were set, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieCount {
    /// Group.
    pub group: Arc<str>,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Times.
    pub count: u64,
}

/// How often, and when the last time was.
type Times = (u64, Nanos);

/// Figures of all directories.
#[derive(Debug, Default)]
pub struct TaskStats {
    figures: Mutex<BTreeMap<CgroupDir, TaskFigures>>,
    /// By group and success: times, and when the last was.
    set: Mutex<BTreeMap<(Arc<str>, bool), Times>>,
}

impl TaskStats {
    /// The tasks of `dir` have this OOM score adjustment.
    pub fn score(&self, dir: &CgroupDir, score: Option<i32>) {
        self.change(dir, |figures| figures.score = score);
    }

    /// The tasks of `dir` have this cookie.
    pub fn cookie(&self, dir: &CgroupDir, cookie: Option<(&Arc<str>, u64)>) {
        self.change(dir, |figures| {
            figures.cookie = cookie.map(|(group, cookie)| (Arc::clone(group), cookie));
        });
    }

    /// Cookies of a group were set, or could not be.
    pub fn cookies_set(&self, group: &Arc<str>, succeeded: bool, now: Nanos) {
        let mut set = lock(&self.set);
        set.retain(|_, (_, at)| now < *at + EXPIRY);
        let (count, at) = set.entry((Arc::clone(group), succeeded)).or_insert((0, now));
        (*count, *at) = (count.saturating_add(1), now);
    }

    /// All directories of which there is something to tell.
    pub fn figures(&self) -> BTreeMap<CgroupDir, TaskFigures> {
        lock(&self.figures).clone()
    }

    /// The counts of groups that are not too old.
    pub fn cookie_counts(&self, now: Nanos) -> Vec<CookieCount> {
        let set = lock(&self.set);
        let young = set.iter().filter(|(_, (_, at))| now < *at + EXPIRY);
        young
            .map(|((group, succeeded), (count, _))| CookieCount {
                group: Arc::clone(group),
                succeeded: *succeeded,
                count: *count,
            })
            .collect()
    }

    fn change(&self, dir: &CgroupDir, change: impl FnOnce(&mut TaskFigures)) {
        let mut all = lock(&self.figures);
        let mut figures = all.get(dir).cloned().unwrap_or_default();
        change(&mut figures);
        if figures == TaskFigures::default() {
            all.remove(dir);
        } else {
            all.insert(dir.clone(), figures);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
