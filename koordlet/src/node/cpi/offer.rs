//! Whether this node can count cycles and instructions of a cgroup: tried on the root of the hierarchy, never
//! guessed from a version.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use nix::errno::Errno;

use super::CPI_EVENTS;
use crate::cgroup::layout::Layout;
use crate::cgroup::resource::Controller;
use crate::error_chain::chain;
use crate::host::offers::Offer;
use crate::host::online::online_cpus;
use crate::host::roots::Roots;
use crate::node::perf_group::{PerfEvent, PerfGroup};

/// Its line in `doctor`.
pub const OFFER: &str = "collector-cpi";

/// Why it cannot.
#[derive(Debug, thiserror::Error)]
pub enum WhyNot {
    /// No hierarchy.
    #[error("no mounted cgroup hierarchy has perf_event")]
    NoHierarchy,
    /// The events, or a group's counting at all, are not there.
    #[error("no counters of the CPU for cycles and instructions (a virtual machine, mostly)")]
    NoCounters(#[source] io::Error),
    /// Not allowed.
    #[error("not permitted: CAP_PERFMON, or a seccomp profile that lets perf_event_open pass, is lacking")]
    NotPermitted(#[source] io::Error),
    /// No such system call, or none that takes a cgroup.
    #[error("the kernel has no perf events of cgroups (CONFIG_PERF_EVENTS, CONFIG_CGROUP_PERF)")]
    NoSuchCall(#[source] io::Error),
    /// Anything else.
    #[error("cannot open a counter")]
    Other(#[source] io::Error),
}

/// What this node offers, for `doctor`.
pub fn offer(layout: &Layout, roots: &Roots) -> Offer {
    match try_counting(layout, roots, CPI_EVENTS) {
        Ok(()) => Offer::ok(OFFER, "on: cycles and instructions of cgroups are counted"),
        Err(why @ WhyNot::Other(_)) => Offer::failed(OFFER, chain(&why)),
        Err(why) => Offer::missing(OFFER, chain(&why)),
    }
}

/// Opens a group on one CPU and closes it again.
pub(super) fn try_counting(layout: &Layout, roots: &Roots, events: [PerfEvent; 2]) -> Result<(), WhyNot> {
    let root = layout.hierarchy_root(Controller::PerfEvent).ok_or(WhyNot::NoHierarchy)?;
    let cpu = online_cpus(roots).map_err(WhyNot::Other)?.iter().next().unwrap_or(0);
    let directory = File::open(root).map_err(WhyNot::Other)?;
    PerfGroup::open(events, directory.as_fd(), cpu).map(drop).map_err(WhyNot::of)
}

impl WhyNot {
    fn of(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP) => Self::NoCounters(error),
            Some(Errno::EACCES | Errno::EPERM) => Self::NotPermitted(error),
            Some(Errno::ENOSYS | Errno::EINVAL) => Self::NoSuchCall(error),
            // What a folder that is no hierarchy gives.
            Some(Errno::EBADF) => Self::NoHierarchy,
            _ => Self::Other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_reason() {
        let text = |errno: Errno| chain(&WhyNot::of(errno.into()));
        assert!(text(Errno::ENOENT).starts_with("no counters of the CPU"));
        assert!(text(Errno::EACCES).contains("CAP_PERFMON"));
        assert!(text(Errno::EPERM).contains("seccomp"));
        assert!(text(Errno::ENOSYS).contains("CONFIG_CGROUP_PERF"));
        assert!(text(Errno::EMFILE).starts_with("cannot open a counter: "));
    }

    #[test]
    fn a_folder_is_no_hierarchy() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("cpu")).unwrap();
        let layout = Layout::of_folder(root.path()).unwrap();
        let answer = offer(&layout, &Roots::host());
        assert_eq!(answer, Offer::missing(OFFER, "no mounted cgroup hierarchy has perf_event"));
        std::fs::create_dir_all(root.path().join("perf_event")).unwrap();
        let layout = Layout::of_folder(root.path()).unwrap();
        assert!(offer(&layout, &Roots::host()).state != crate::host::offers::State::Ok);
    }
}
