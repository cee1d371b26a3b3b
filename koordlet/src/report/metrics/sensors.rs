//! The sensors' series: eBPF or files and why, losses, and how full the usage map is.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::live::{Live, LiveKind, Sample};
use crate::ebpf::sensors::{SensorHandle, SensorMode};
use crate::ebpf::usage_stats::Count;

/// Gauges of the CPU accounts.
const GAUGES: [(&str, &str, Count); 3] = [
    ("ebpf_usage_slots_used", "Slots of the usage map in use", Count::SlotsUsed),
    ("ebpf_usage_slots_capacity", "Slots of the usage map", Count::SlotCapacity),
    (
        "ebpf_usage_directories_on_files",
        "Directories read from files since the usage map is full",
        Count::DirsOnFiles,
    ),
];

/// Counters of the CPU accounts, by their label.
const COUNTERS: [(&str, Count); 5] = [
    ("rescans", Count::Rescans),
    ("buried", Count::Buried),
    ("drifts", Count::Drifts),
    ("drift_missing_nanoseconds", Count::DriftMissing),
    ("drift_excess_nanoseconds", Count::DriftExcess),
];

pub(super) fn register(
    registry: &mut Registry,
    events: &SensorMode,
    usage: &SensorMode,
    handle: &Arc<SensorHandle>,
) {
    let modes = vec![mode_sample("events", events), mode_sample("usage", usage)];
    let help = "Whether births and CPU time come from eBPF (1) or files (0), with the reason";
    let mut add = |live: Live| registry.register_collector(Box::new(live));
    add(Live::new("ebpf_active", help, LiveKind::Gauge, move || modes.clone()));

    let read = Arc::clone(handle);
    let help = "What the eBPF programs lost, and events that the agent was too slow for";
    add(Live::counters("ebpf_lost", help, "reason", move || {
        let lost = read.losses().map(|(reason, count)| (reason.name(), count));
        lost.chain([("agent_too_slow", read.dropped())]).collect()
    }));
    for (name, help, of) in GAUGES {
        let read = Arc::clone(handle);
        add(Live::gauge(name, help, move || read.usage().map(|stats| stats.get(of) as f64)));
    }
    let read = Arc::clone(handle);
    let help = "What the CPU accounts did and met";
    add(Live::counters("ebpf_usage", help, "what", move || {
        let stats = read.usage();
        stats.map(|stats| COUNTERS.map(|(name, of)| (name, stats.get(of))).to_vec()).unwrap_or_default()
    }));
}

fn mode_sample(part: &str, mode: &SensorMode) -> Sample {
    let (reason, active) = match mode {
        SensorMode::Ebpf => (String::new(), 1.0),
        SensorMode::Files { reason } => (reason.chain(), 0.0),
    };
    Sample { labels: vec![("part", part.to_owned()), ("reason", reason)], value: active }
}
