//! A kernel with core scheduling, as far as the executor sees one: processes in directories, cookies that children
//! inherit and that are counted up, OOM scores with a floor below which they may not go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::backend::TaskBackend;
use super::cookies::CookieKernel;
use super::scores::{Origin, ScoreKernel};
use crate::cgroup::path::CgroupDir;

#[derive(Clone, Debug)]
pub(super) struct Process {
    dir: String,
    pub(super) cookie: u64,
    pub(super) score: i32,
    parent: i32,
    started: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) dirs: BTreeSet<String>,
    pub(super) processes: BTreeMap<i32, Process>,
    cookies: u64,
    ticks: u64,
    /// Lowest score that may be set.
    pub(super) floor: i32,
    /// What calls that change a cookie answer.
    pub(super) refuse: Option<Errno>,
    /// So many readings of cookies fail.
    pub(super) unreadable: u32,
    /// Calls of any kind.
    pub(super) calls: u64,
}

/// Shared, so that a test can look while a keeper has it.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeTasks(Arc<Mutex<State>>);

impl FakeTasks {
    /// With nothing in it; cookies begin at 101.
    pub(super) fn new() -> Self {
        let fake = Self::default();
        (fake.state().floor, fake.state().cookies) = (-1000, 100);
        fake
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A process from outside of all containers in `dir`, which is made.
    pub(super) fn start(&self, dir: &str, pid: i32) {
        let mut state = self.state();
        state.ticks += 1;
        state.dirs.insert(dir.to_owned());
        let process = Process { dir: dir.to_owned(), cookie: 0, score: 0, parent: 1, started: state.ticks };
        state.processes.insert(pid, process);
    }

    /// A child in the same directory, which has what its parent has.
    pub(super) fn fork(&self, parent: i32, pid: i32) {
        let mut state = self.state();
        state.ticks += 1;
        let started = state.ticks;
        let child = Process { parent, started, ..state.processes[&parent].clone() };
        state.processes.insert(pid, child);
    }

    pub(super) fn end(&self, pid: i32) {
        self.state().processes.remove(&pid);
    }

    pub(super) fn change<T>(&self, pid: i32, change: impl FnOnce(&mut Process) -> T) -> T {
        change(self.state().processes.get_mut(&pid).unwrap())
    }

    pub(super) fn cookie_of(&self, pid: i32) -> u64 {
        self.state().processes[&pid].cookie
    }

    pub(super) fn score_of(&self, pid: i32) -> i32 {
        self.state().processes[&pid].score
    }

    fn with<T>(&self, pid: Pid, call: impl FnOnce(&mut Process, &mut u64) -> io::Result<T>) -> io::Result<T> {
        let State { processes, cookies, calls, .. } = &mut *self.state();
        *calls += 1;
        call(processes.get_mut(&pid.as_raw()).ok_or(Errno::ESRCH)?, cookies)
    }

    fn refusal(&self) -> io::Result<()> {
        self.state().refuse.map_or(Ok(()), |errno| Err(errno.into()))
    }
}

impl CookieKernel for FakeTasks {
    fn cookie(&self, pid: Pid) -> io::Result<u64> {
        {
            let mut state = self.state();
            if state.unreadable > 0 {
                state.unreadable -= 1;
                return Err(Errno::EPERM.into());
            }
        }
        self.with(pid, |process, _| Ok(process.cookie))
    }

    fn create_cookie(&self, pid: Pid) -> io::Result<()> {
        self.refusal()?;
        self.with(pid, |process, cookies| {
            *cookies += 1;
            process.cookie = *cookies;
            Ok(())
        })
    }

    fn share_cookie(&self, from: Option<Pid>, to: &[Pid]) -> io::Result<Vec<io::Result<()>>> {
        self.refusal()?;
        let cookie = from.map_or(Ok(0), |from| self.with(from, |process, _| Ok(process.cookie)))?;
        let share = |pid: &Pid| {
            self.with(*pid, |process, _| {
                process.cookie = cookie;
                Ok(())
            })
        };
        Ok(to.iter().map(share).collect())
    }
}

impl ScoreKernel for FakeTasks {
    fn score(&self, pid: Pid) -> io::Result<i32> {
        self.with(pid, |process, _| Ok(process.score))
    }

    fn set_score(&self, pid: Pid, score: i32) -> io::Result<()> {
        let floor = self.state().floor;
        self.with(pid, |process, _| {
            if score < floor {
                return Err(Errno::EACCES.into());
            }
            process.score = score;
            Ok(())
        })
    }

    fn origin(&self, pid: Pid) -> io::Result<Origin> {
        self.with(pid, |process, _| {
            Ok(Origin { parent: Pid::from_raw(process.parent), started: process.started })
        })
    }
}

impl TaskBackend for FakeTasks {
    fn pids(&self, dir: &CgroupDir) -> io::Result<Vec<Pid>> {
        let mut state = self.state();
        state.calls += 1;
        if !state.dirs.contains(dir.as_str()) {
            return Err(Errno::ENOENT.into());
        }
        let here = state.processes.iter().filter(|(_, process)| process.dir == dir.as_str());
        Ok(here.map(|(pid, _)| Pid::from_raw(*pid)).collect())
    }
}
