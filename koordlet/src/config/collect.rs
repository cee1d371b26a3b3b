//! Flags of the collectors and the metric cache, and what they resolve to (collection.md 6.1, 14).

use std::time::Duration;

use clap::Args;

use super::gates::{Gate, Gates};
use super::mistakes::Mistakes;
use crate::api::duration::parse_duration;

/// Least time between two rounds of any collector.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Gates of the reference whose hardware this agent does not read.
pub const DEVICES: [Gate; 2] = [Gate::Accelerators, Gate::RdmaDevices];

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct CollectFlags {
    /// Time between two samples of use
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub collect_res_used_interval: String,
    /// Time between two readings of CPUs and NUMA nodes
    #[arg(long, value_name = "DURATION", default_value = "1m0s")]
    pub collect_node_cpu_info_interval: String,
    /// Age from which figures no longer count for the use of the system
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub collect_sys_metric_outdated_interval: String,
    /// Time between two readings of the disks (gate BlkIOReconcile)
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub collect_node_storage_info_interval: String,
    /// Time between two rounds of CPI (gate CPICollector)
    #[arg(long, value_name = "DURATION", default_value = "1m0s")]
    pub cpi_collector_interval: String,
    /// How long a round of CPI counts
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub collect_cpi_timewindow: String,
    /// Time between two readings of pressure (gate PSICollector)
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub psi_collector_interval: String,
    /// Time between two readings of cold memory (gate ColdPageCollector)
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub coldpage_collector_interval: String,
    /// Time between two readings of resctrl (gate ResctrlCollector and --enable-resctrl-collector)
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub resctrl_collector_interval: String,
    /// Collect memory use with page cache
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub enable_pagecache_collector: String,
    /// Collect cache and memory bandwidth by class
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub enable_resctrl_collector: String,
    /// How long samples are kept at most
    #[arg(long, value_name = "DURATION", default_value = "12h0m0s")]
    pub tsdb_retention_duration: String,
    /// Bytes of samples that are kept at most
    #[arg(long, value_name = "BYTES", default_value = "104857600")]
    pub tsdb_max_bytes: String,
}

/// What is collected, and how often. `None`: that collector is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectSettings {
    /// Time between two samples of use (node, pods, containers, host applications).
    pub usage: Duration,
    /// Time between two readings of CPUs and NUMA nodes.
    pub node_info: Duration,
    /// Age from which figures no longer count for the use of the system, collection.md 6.6.
    pub outdated: Duration,
    /// Time between two readings of the disks.
    pub disks: Option<Duration>,
    /// CPI.
    pub cpi: Option<CpiSettings>,
    /// Time between two readings of pressure.
    pub pressure: Option<Duration>,
    /// Time between two readings of cold memory.
    pub cold_memory: Option<Duration>,
    /// Time between two readings of resctrl.
    pub resctrl: Option<Duration>,
    /// Whether memory use with page cache is collected though no policy asks for it.
    pub page_cache: bool,
    /// Whether hugepages are told apart from other memory (gate HugePageReport).
    pub hugepages: bool,
    /// How long samples are kept at most.
    pub retention: Duration,
    /// Bytes of samples that are kept at most.
    pub max_bytes: usize,
}

/// When cycles and instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpiSettings {
    /// Time between two rounds.
    pub interval: Duration,
    /// How long a round counts.
    pub window: Duration,
}

/// Resolves the collectors' flags and gates.
pub(super) fn resolve(
    flags: &CollectFlags,
    gates: &Gates,
    mistakes: &mut Mistakes,
    notices: &mut Vec<String>,
) -> Option<CollectSettings> {
    // Each is parsed before any is required, so that every mistake is reported.
    let usage = interval("collect-res-used-interval", &flags.collect_res_used_interval, mistakes);
    let node_info =
        interval("collect-node-cpu-info-interval", &flags.collect_node_cpu_info_interval, mistakes);
    let outdated = interval(
        "collect-sys-metric-outdated-interval",
        &flags.collect_sys_metric_outdated_interval,
        mistakes,
    );
    let disks =
        interval("collect-node-storage-info-interval", &flags.collect_node_storage_info_interval, mistakes);
    let cpi = interval("cpi-collector-interval", &flags.cpi_collector_interval, mistakes);
    let window = interval("collect-cpi-timewindow", &flags.collect_cpi_timewindow, mistakes);
    let pressure = interval("psi-collector-interval", &flags.psi_collector_interval, mistakes);
    let cold = interval("coldpage-collector-interval", &flags.coldpage_collector_interval, mistakes);
    let resctrl = interval("resctrl-collector-interval", &flags.resctrl_collector_interval, mistakes);
    let retention = interval("tsdb-retention-duration", &flags.tsdb_retention_duration, mistakes);
    let page_cache = mistakes.boolean("enable-pagecache-collector", &flags.enable_pagecache_collector);
    let resctrl_flag = mistakes.boolean("enable-resctrl-collector", &flags.enable_resctrl_collector);
    let max_bytes = mistakes.whole_number("tsdb-max-bytes", &flags.tsdb_max_bytes);
    if let Some(line) = unsupported(gates) {
        notices.push(line);
    }
    if gates.is_on(Gate::Libpfm4) {
        let same =
            "the gate Libpfm4 changes nothing: cycles and instructions are one group of perf events anyway";
        notices.push(same.to_owned());
    }
    let when = |gate, interval: Option<Duration>| interval.filter(|_| gates.is_on(gate));
    Some(CollectSettings {
        usage: usage?,
        node_info: node_info?,
        outdated: outdated?,
        disks: when(Gate::BlkIoReconcile, Some(disks?)),
        cpi: gates
            .is_on(Gate::CpiCollector)
            .then_some(CpiSettings { interval: cpi?, window: window?.min(cpi?) }),
        pressure: when(Gate::PsiCollector, Some(pressure?)),
        cold_memory: when(Gate::ColdPageCollector, Some(cold?)),
        resctrl: when(Gate::ResctrlCollector, Some(resctrl?)).filter(|_| resctrl_flag == Some(true)),
        page_cache: page_cache?,
        hugepages: gates.is_on(Gate::HugePageReport),
        retention: retention?,
        max_bytes: usize::try_from(max_bytes?).unwrap_or(0),
    })
}

fn interval(flag: &str, text: &str, mistakes: &mut Mistakes) -> Option<Duration> {
    let interval = mistakes.take(flag, parse_duration(text))?;
    if interval < MIN_INTERVAL {
        mistakes.add(flag, format_args!("{text:?} is below the least interval of 100ms"));
        return None;
    }
    Some(interval)
}

/// One line for the device gates that are on.
fn unsupported(gates: &Gates) -> Option<String> {
    let on: Vec<_> = DEVICES.into_iter().filter(|gate| gates.is_on(*gate)).map(Gate::name).collect();
    (!on.is_empty()).then(|| format!("not supported by this agent, no devices are read: {}", on.join(", ")))
}
