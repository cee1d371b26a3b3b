//! Two performance events of one cgroup on one CPU, counted as a group: both run for the very same time. Which
//! two, and for which cgroups and CPUs, is the caller's affair (collection.md 6.8).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use crate::sys::{PerfEventType, open_perf_counter, start_perf_counters};

/// Descriptors that one group holds.
pub const DESCRIPTORS: usize = 2;

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// Cycles of the CPU while it was not halted.
    CpuCycles,
    /// Instructions retired.
    Instructions,
    /// Nanoseconds that tasks ran; the kernel's own, needs no counter of the CPU.
    TaskClock,
    /// Switches from one task to another; the kernel's own.
    ContextSwitches,
}

impl PerfEvent {
    /// Numbers of `linux/perf_event.h`.
    const fn number(self) -> PerfEventType {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        match self {
            Self::CpuCycles => PerfEventType { kind: HARDWARE, config: 0 },
            Self::Instructions => PerfEventType { kind: HARDWARE, config: 1 },
            Self::TaskClock => PerfEventType { kind: SOFTWARE, config: 1 },
            Self::ContextSwitches => PerfEventType { kind: SOFTWARE, config: 3 },
        }
    }
}

/// An open group. Closed on drop.
#[derive(Debug)]
pub struct PerfGroup {
    leader: File,
    _member: OwnedFd,
}

impl PerfGroup {
    /// Opens both events for the tasks of `cgroup` on `cpu`; they stand still until `start`.
    ///
    /// # Errors
    /// What the kernel answered; nothing stays open.
    pub fn open(events: [PerfEvent; 2], cgroup: BorrowedFd<'_>, cpu: u32) -> io::Result<Self> {
        let [first, second] = events.map(PerfEvent::number);
        let leader = open_perf_counter(first, cgroup, cpu, None)?;
        let member = open_perf_counter(second, cgroup, cpu, Some(leader.as_fd()))?;
        Ok(Self { leader: leader.into(), _member: member })
    }

    /// Begins to count.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn start(&self) -> io::Result<()> {
        start_perf_counters(self.leader.as_fd())
    }

    /// What was counted since the start.
    ///
    /// # Errors
    /// What the kernel answered, or an answer of another form.
    pub fn read(&self) -> io::Result<GroupCount> {
        let mut bytes = [0; 5 * 8];
        (&self.leader).read_exact(&mut bytes)?;
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        match words {
            [2, enabled, running, first, second] => {
                Ok(GroupCount { enabled, running, values: [first, second] })
            }
            _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }
}

/// One reading of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCount {
    /// Nanoseconds in which there was something to count: tasks of the cgroup were on the CPU.
    pub enabled: u64,
    /// Nanoseconds of these in which the group had the CPU's counters to itself.
    pub running: u64,
    /// Figures as counted.
    pub values: [u64; 2],
}

impl GroupCount {
    /// The figures scaled up to all of the enabled time, collection.md 6.8: `value / (running / enabled)`. `None`
    /// if the counters were others' all the time, so that nothing is known (C094).
    pub fn scaled(&self) -> Option<[f64; 2]> {
        let Self { enabled, running, values } = *self;
        match (enabled, running) {
            (0, _) => Some(values.map(|value| value as f64)),
            (_, 0) => None,
            _ => Some(values.map(|value| value as f64 / (running as f64 / enabled as f64))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c094_figures_are_scaled_by_the_share_of_time_and_unknown_without_any() {
        let scaled = |enabled, running, values| GroupCount { enabled, running, values }.scaled();
        assert_eq!(scaled(10, 10, [7, 9]), Some([7.0, 9.0]));
        assert_eq!(scaled(10, 5, [7, 9]), Some([14.0, 18.0]));
        assert_eq!(scaled(10, 0, [0, 0]), None, "c094");
        assert_eq!(scaled(0, 0, [0, 0]), Some([0.0, 0.0]), "no task of the cgroup ran there");
        let most = scaled(u64::MAX, 1, [u64::MAX, 0]).unwrap();
        assert!(most.iter().all(|value| value.is_finite()));
    }
}
