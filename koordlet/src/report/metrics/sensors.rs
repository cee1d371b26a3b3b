//! The sensors' series: births and deaths, eBPF or files and why, losses, and how full the usage map is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::exposition::Exposition;
use super::families::Family;
use crate::ebpf::events::CgroupEvent;
use crate::ebpf::sensors::{SensorHandle, SensorMode};
use crate::ebpf::usage_stats::{Count, UsageStats};

/// Figures of the CPU accounts that stand for themselves.
const FIGURES: [(Family, Count); 6] = [
    (Family::EbpfUsageSlotsUsed, Count::SlotsUsed),
    (Family::EbpfUsageSlotsCapacity, Count::SlotCapacity),
    (Family::EbpfUsageDirectoriesOnFiles, Count::DirsOnFiles),
    (Family::EbpfUsageRescans, Count::Rescans),
    (Family::EbpfUsageBuried, Count::Buried),
    (Family::EbpfUsageDrifts, Count::Drifts),
];

/// What the agent was told of cgroups.
#[derive(Debug, Default)]
pub(super) struct CgroupEventCounts {
    born: AtomicU64,
    died: AtomicU64,
    lost: AtomicU64,
}

impl CgroupEventCounts {
    pub(super) fn note(&self, event: &CgroupEvent) {
        match event {
            CgroupEvent::Born { .. } => self.born.fetch_add(1, Ordering::Relaxed),
            CgroupEvent::Died { .. } => self.died.fetch_add(1, Ordering::Relaxed),
            CgroupEvent::Lost { count } => self.lost.fetch_add(*count, Ordering::Relaxed),
        };
    }

    pub(super) fn show(&self, page: &mut Exposition<'_>) {
        let Self { born, died, lost } = self;
        page.family(Family::CgroupEvents, |series| {
            for (event, count) in [("born", born), ("died", died), ("lost", lost)] {
                series.count(&[event], count.load(Ordering::Relaxed));
            }
        });
    }
}

/// Where births and CPU time come from; fixed once the sensors run.
pub(super) struct SensorSeries {
    modes: [(&'static str, Active); 2],
    handle: Arc<SensorHandle>,
}

/// From eBPF or not, and why not.
#[derive(Clone, Copy, Debug)]
struct Active {
    is_ebpf: bool,
    reason: &'static str,
}

impl SensorSeries {
    pub(super) fn new(events: &SensorMode, usage: &SensorMode, handle: &Arc<SensorHandle>) -> Self {
        let modes = [("events", Active::of(events)), ("usage", Active::of(usage))];
        Self { modes, handle: Arc::clone(handle) }
    }

    pub(super) fn show(&self, page: &mut Exposition<'_>) {
        page.family(Family::EbpfActive, |series| {
            for (part, Active { is_ebpf, reason }) in self.modes {
                series.count(&[part, reason], u64::from(is_ebpf));
            }
        });
        page.family(Family::EbpfLost, |series| {
            for (reason, count) in self.handle.losses() {
                series.count(&[reason.name()], count);
            }
            series.count(&["agent_too_slow"], self.handle.dropped());
        });
        if let Some(stats) = self.handle.usage() {
            show_usage(page, stats);
        }
    }
}

impl Active {
    fn of(mode: &SensorMode) -> Self {
        match mode {
            SensorMode::Ebpf => Self { is_ebpf: true, reason: "" },
            SensorMode::Files { reason } => Self { is_ebpf: false, reason: reason.label() },
        }
    }
}

fn show_usage(page: &mut Exposition<'_>, stats: &UsageStats) {
    for (family, of) in FIGURES {
        page.family(family, |series| series.count(&[], stats.get(of)));
    }
    page.family(Family::EbpfUsageDriftSeconds, |series| {
        for (direction, of) in [("missing", Count::DriftMissing), ("excess", Count::DriftExcess)] {
            series.value(&[direction], stats.get(of) as f64 / 1e9);
        }
    });
}
