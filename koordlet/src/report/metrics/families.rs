//! The table of every family that the agent can show: name, type, page, origin, unit, labels, help. The pages are
//! written from it and `deploy/metrics.md` is made from it, so that they cannot disagree.
//!
//! Names of the reference stay as they are, mistakes included (collection.md 12). Own names follow one rule: prefix
//! `koordlet_`, the part of the agent, what is counted, the base unit; counters end in `_total` and nothing else does;
//! each has the label `node`. A label's values come from a fixed list, or from objects that the agent knows at
//! present.

/// What kind of family it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes both ways.
    Gauge,
    /// Only grows.
    Counter,
    /// Counts by upper bound.
    Histogram,
}

impl Kind {
    /// The word of the exposition formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// Which page shows it; `/metrics` shows both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// `/internal-metrics`: health and actions of the agent.
    Internal,
    /// `/external-metrics`: resources.
    External,
}

impl Page {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The reference shows it, too: name, type and labels are its.
    Reference,
    /// This agent's own.
    Own,
}

impl Origin {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Own => "own",
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Full name, as the classic text format shows it.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Page.
    pub page: Page,
    /// Whose name it is.
    pub origin: Origin,
    /// Unit of the values, for people.
    pub unit: &'static str,
    /// Label names in the order in which they are shown; `node`, where there is one, is the first.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

macro_rules! families {
    ($($variant:ident $name:literal $kind:ident $page:ident $origin:ident $unit:literal
        [$($label:literal)*] $help:literal;)*) => {
        /// A family.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Family {
            $(#[doc = $help] $variant,)*
        }

        impl Family {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its line of the table.
            pub fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Self::$variant => &Descriptor {
                        name: concat!("koordlet_", $name),
                        kind: Kind::$kind,
                        page: Page::$page,
                        origin: Origin::$origin,
                        unit: $unit,
                        labels: &[$($label,)*],
                        help: $help,
                    },)*
                }
            }
        }
    };
}

families! {
    StartTime "start_time" Gauge Internal Reference "seconds" ["node"]
        "Start of the agent, unix time";
    CollectNodeCpuInfo "collect_node_cpu_info_status" Counter Internal Reference "rounds" ["node" "status"]
        "Readings of the node's CPUs";
    CollectNodeNumaInfo "collect_node_numa_info_status" Counter Internal Reference "rounds" ["node" "status"]
        "Readings of the node's NUMA nodes";
    CollectNodeLocalStorageInfo "collect_node_local_storage_info_status" Counter Internal Reference "rounds"
        ["node" "status"]
        "Readings of the node's disks";
    NodeUsedCpuCores "node_used_cpu_cores" Gauge Internal Reference "cores" ["node"]
        "CPU use of the node";
    NodeUsedMemoryBytes "node_used_memory_bytes" Gauge Internal Reference "bytes" ["node"]
        "Memory use of the node without page cache";
    BeSuppressCpuCores "be_suppress_cpu_cores" Gauge Internal Reference "cores" ["node" "type"]
        "CPU left to best-effort pods by suppression, by the policy in force";
    BeSuppressLsUsedCpuCores "be_suppress_ls_used_cpu_cores" Gauge Internal Reference "cores" ["node"]
        "CPU use of other pods that suppression saw last";
    BeSuppressBeUsedCpuCores "be_suppress_be_used_cpu_cores" Gauge Internal Reference "cores" ["node"]
        "CPU use of best-effort pods";
    ContainerScaledCfsBurst "container_scaled_cfs_burst_us" Gauge Internal Reference "microseconds"
        ["node" "pod_namespace" "pod_name" "container_id" "container_name"]
        "Budget that the kernel keeps for a container by CPU burst, before it is cut to the quota";
    ContainerScaledCfsQuota "container_scaled_cfs_quota_us" Gauge Internal Reference "microseconds per 100 ms"
        ["node" "pod_namespace" "pod_name" "container_id" "container_name"]
        "CFS quota of a container whose quota CPU burst may raise";
    CpusetSharePoolCpuCores "cpuset_share_pool_cpu_cores" Gauge Internal Reference "cores" ["node"]
        "CPUs that latency-sensitive pods share";
    CpusetSharePoolInfo "cpuset_share_pool_info" Gauge Internal Reference "1" ["node" "cpu"]
        "1 for each CPU that latency-sensitive pods share (gate PerCPUMetric)";
    CpusetBeSharePoolCpuCores "cpuset_be_share_pool_cpu_cores" Gauge Internal Reference "cores" ["node"]
        "CPUs that best-effort pods may use";
    CpusetBeSharePoolInfo "cpuset_be_share_pool_info" Gauge Internal Reference "1" ["node" "cpu"]
        "1 for each CPU that best-effort pods may use (gate PerCPUMetric)";
    NodeMetricNodeUsage "node_metric_node_usage" Gauge Internal Reference "cores, bytes" ["node" "resource" "unit"]
        "Mean use of the node in the last report (gate NodeMetricPromMetrics)";
    NodeMetricSystemUsage "node_metric_system_usage" Gauge Internal Reference "cores, bytes"
        ["node" "resource" "unit"]
        "Mean use of the system in the last report (gate NodeMetricPromMetrics)";
    NodeMetricNumaNodeUsage "node_metric_numa_node_usage" Gauge Internal Reference "cores, bytes"
        ["node" "numa_node_id" "resource" "unit"]
        "Mean use of a NUMA node in the last report (gate NodeMetricPromMetrics)";
    NodeMetricNumaSystemUsage "node_metric_numa_system_usage" Gauge Internal Reference "cores, bytes"
        ["node" "numa_node_id" "resource" "unit"]
        "Mean use of the system on a NUMA node in the last report (gate NodeMetricPromMetrics)";
    NodePredictedResourceReclaimable "node_predicted_resource_reclaimable" Gauge Internal Reference "cores, bytes"
        ["node" "predictor" "resource" "unit"]
        "Requests of prod pods that are predicted to stay unused; minPredictor is what is reported";
    NodePredictedResourcePeak "node_predicted_resource_peak" Gauge Internal Reference "cores, bytes"
        ["node" "predictor" "resource" "unit"]
        "Predicted peak of prod pods, by priorityReclaimablePredictor with the system; minPredictor is what is reported";
    HostApplicationResourceUsage "host_application_resource_usage" Gauge Internal Reference "cores, bytes"
        ["node" "host_application_name" "priority_class" "qos" "resource"]
        "CPU and memory use of host applications, memory without page cache";
    ResourceUpdateDuration "resource_update_duration_milliseconds" Histogram Internal Reference "milliseconds"
        ["status" "type"]
        "Time of a write to the kernel";
    ContainerCoreSchedCookie "container_core_sched_cookie" Gauge Internal Reference "1"
        ["node" "container_id" "container_name" "core_sched_cookie" "core_sched_group" "pod_name" "pod_namespace"
         "pod_uid"]
        "1 for a container or sandbox (without a name) whose tasks share a core scheduling cookie (gate CoreSched)";
    CoreSchedCookieManageStatus "core_sched_cookie_manage_status" Counter Internal Reference "looks"
        ["node" "core_sched_group" "status"]
        "Looks at a container that set cookies, or could not; of groups where that was in the last 5 minutes";
    ContainerOomScoreAdj "container_oom_score_adj" Gauge Internal Reference "points"
        ["node" "container_name" "pod_name" "pod_namespace" "pod_uid"]
        "OOM score adjustment that tasks of a container were given (gate OOMScoreAdj)";
    KubeletRequestDuration "kubelet_request_duration_seconds" Histogram Internal Reference "seconds"
        ["code" "path" "verb"]
        "Time until the kubelet began to answer a request";

    NodeResourceAllocatable "node_resource_allocatable" Gauge External Reference "by label" ["node" "resource" "unit"]
        "Batch and mid resources that the node offers";
    NodePriorityResourceReclaimable "node_priority_resource_reclaimable" Gauge External Reference "cores, bytes"
        ["node" "priority" "resource" "unit"]
        "Reclaimable resources of prod pods in the last report, 0 if they could not be predicted";
    NodeResourcePriorityReclaimableStatus "node_resource_priority_reclaimable_status" Gauge External Reference "0 or 1"
        ["node" "priority"]
        "1 if the reclaimable resources could not be predicted for the last report, else 0";
    ContainerResourceRequests "container_resource_requests" Gauge External Reference "milli-cores, bytes"
        ["node" "container_id" "container_name" "pod_name" "pod_namespace" "pod_uid" "resource" "unit"]
        "Batch and mid resources that a container asks for; the label unit is the reference's, integer for all";
    ContainerResourceLimits "container_resource_limits" Gauge External Reference "milli-cores, bytes"
        ["node" "container_id" "container_name" "pod_name" "pod_namespace" "pod_uid" "resource" "unit"]
        "Batch and mid resources that a container is limited to; the label unit is the reference's, byte for all";
    ContainerCpi "container_cpi" Gauge External Reference "events"
        ["node" "container_id" "container_name" "cpi_field" "pod_name" "pod_namespace" "pod_uid"]
        "Cycles and instructions of a container in the last window (gate CPICollector)";
    ContainerPsi "container_psi" Gauge External Reference "percent"
        ["node" "container_id" "container_name" "cpu_full_supported" "pod_name" "pod_namespace" "pod_uid"
         "psi_degree" "psi_precision" "psi_resource_type"]
        "Time that tasks of a container waited for CPU, memory or disks (gate PSICollector)";
    PodPsi "pod_psi" Gauge External Reference "percent"
        ["node" "cpu_full_supported" "pod_name" "pod_namespace" "pod_uid" "psi_degree" "psi_precision"
         "psi_resource_type"]
        "Time that tasks of a pod waited for CPU, memory or disks (gate PSICollector)";
    ResctrlLlcOccupancy "resctrl_llc_occupancy" Gauge External Reference "bytes" ["node" "cache_id" "qos"]
        "Last-level cache in use by a class (gate ResctrlCollector)";
    ResctrlMemoryBandwidth "resctrl_memory_bandwidth" Gauge External Reference "bytes"
        ["node" "cache_id" "mb_type" "qos"]
        "Memory traffic of a class since its group was made (gate ResctrlCollector)";

    BuildInfo "build_info" Gauge Internal Own "1" ["node" "version" "ebpf"]
        "1, with the version, and whether eBPF programs are built in (yes, no)";
    KnownPods "known_pods" Gauge Internal Own "pods" ["node"]
        "Pods that are known";
    KnownCgroups "known_cgroups" Gauge Internal Own "directories" ["node"]
        "Cgroup directories beneath kubepods";
    ManifestErrors "manifest_errors_total" Counter Internal Own "errors" ["node"]
        "Errors in manifest files since the start";
    ManifestBadFiles "manifest_bad_files" Gauge Internal Own "files" ["node"]
        "Manifest files that are bad at present";
    KubeletSyncs "kubelet_syncs_total" Counter Internal Own "lists" ["node" "result"]
        "Lists of pods that the kubelet was asked for";
    KubeletFailures "kubelet_failures_total" Counter Internal Own "requests" ["node" "reason"]
        "Requests to the kubelet that did not succeed";
    KubeletTriggers "kubelet_triggers_total" Counter Internal Own "events, lists" ["node" "kind"]
        "Cgroup events that asked for a list of pods, and lists that came later (deferred) or again (follow_up) for them";
    KubeletRefusedPods "kubelet_refused_pods_total" Counter Internal Own "pods" ["node"]
        "Pods in the kubelet's lists that could not be read";
    KubeletRenewedCredentials "kubelet_renewed_credentials_total" Counter Internal Own "times" ["node"]
        "Times that the kubelet refused credentials that it had taken, and they were read anew";
    Updates "updates_total" Counter Internal Own "updates" ["node" "kind"]
        "Updates after which decisions were made anew: labels or annotations of the Node (node_metadata), the policy (node_slo), lists of pods (all_pods), who may use which CPUs (node_topology)";
    ApiRequests "api_requests_total" Counter Internal Own "requests" ["node" "resource" "verb"]
        "Requests to the API server";
    ApiErrors "api_errors_total" Counter Internal Own "failures" ["node" "resource" "reason"]
        "Requests to the API server, watches of it and objects from it that failed";
    ApiObjectsSeen "api_objects_seen_total" Counter Internal Own "objects" ["node" "resource"]
        "Times that the API server told an object, or that there is none";
    ApiLastSeen "api_last_seen_age_seconds" Gauge Internal Own "seconds" ["node" "resource"]
        "Time since it did";
    ApiTroubled "api_troubled" Gauge Internal Own "1" ["node" "resource"]
        "1 while a kind of objects cannot be followed or written";
    ApiConnects "api_connects_total" Counter Internal Own "clients" ["node"]
        "Clients of the API server that were made, the first one included: credentials were read each time";
    ApiDroppedEvents "api_dropped_events_total" Counter Internal Own "events" ["node"]
        "Kubernetes events that were given up, for want of room or budget";
    Reports "reports_total" Counter Internal Own "rounds" ["node" "object" "result"]
        "Rounds of reporting to the API server: use (nodemetric) and topology (noderesourcetopology)";
    PredictionModels "prediction_models" Gauge Internal Own "models" ["node"]
        "What prediction has learnt of: pods, classes, node and system";
    PredictionRounds "prediction_rounds_total" Counter Internal Own "rounds" ["node"]
        "Rounds of learning";
    PredictionCheckpoints "prediction_checkpoints_total" Counter Internal Own "files" ["node" "result"]
        "Files with what prediction has learnt that were loaded, saved, removed, found damaged, or could not be";
    NodeSloRefusedFields "nodeslo_refused_fields_total" Counter Internal Own "fields" ["node"]
        "Fields of NodeSLO that were refused";
    PartRuns "part_runs_total" Counter Internal Own "runs" ["node" "part"]
        "Runs of the agent's parts";
    PartSeconds "part_seconds_total" Counter Internal Own "seconds" ["node" "part"]
        "Time that the runs of a part took";
    CollectorRounds "collector_rounds_total" Counter Internal Own "rounds" ["node" "collector" "status"]
        "Rounds of the collectors that have a pace of their own";
    CollectorSeconds "collector_seconds_total" Counter Internal Own "seconds" ["node" "collector"]
        "Time that the rounds of a collector took";
    CollectorMissedSamples "collector_missed_samples_total" Counter Internal Own "samples" ["node"]
        "Samples of use that no reading of group files followed, since the last one was still going on";
    Series "series" Gauge Internal Own "series" ["node"]
        "Time series in the metric cache";
    SeriesSamples "series_samples" Gauge Internal Own "samples" ["node"]
        "Samples in the metric cache";
    SeriesBytes "series_bytes" Gauge Internal Own "bytes" ["node"]
        "Memory that the metric cache takes";
    SeriesRefusedSamples "series_refused_samples_total" Counter Internal Own "samples" ["node"]
        "Samples that the metric cache refused";
    SeriesCutShort "series_cut_short_total" Counter Internal Own "rounds" ["node"]
        "Rounds of samples given up before their window had passed, for want of room";
    AuditEvents "audit_events_total" Counter Internal Own "events" ["node"]
        "Events that the audit log took in";
    AuditDroppedEvents "audit_dropped_events_total" Counter Internal Own "events" ["node"]
        "Events that the audit log lost, since too many waited";
    AuditWrittenEvents "audit_written_events_total" Counter Internal Own "events" ["node"]
        "Events that are in a file of the audit log";
    AuditWrittenBytes "audit_written_bytes_total" Counter Internal Own "bytes" ["node"]
        "Bytes that were written to the audit log";
    AuditFailedWrites "audit_failed_writes_total" Counter Internal Own "attempts" ["node"]
        "Attempts to write, rotate or remove files of the audit log that failed";
    AuditRotations "audit_rotations_total" Counter Internal Own "files" ["node"]
        "Files of the audit log that were rotated";
    AuditDamage "audit_damage_total" Counter Internal Own "files, lines" ["node"]
        "Files that were no audit log and were set aside, and lines that were cut short and ended";
    ExecutorActions "executor_actions_total" Counter Internal Own "actions" ["node" "action"]
        "What the executor did and met";
    CgroupEvents "cgroup_events_total" Counter Internal Own "events" ["node" "event"]
        "Births and deaths of cgroups that the agent was told of, and events that were lost on the way";
    EbpfActive "ebpf_active" Gauge Internal Own "1 or 0" ["node" "part" "reason"]
        "1 where births (events) or CPU time (usage) come from eBPF, 0 where they come from files, with the reason";
    EbpfLost "ebpf_lost_total" Counter Internal Own "events" ["node" "reason"]
        "What the eBPF programs lost, and events that the agent was too slow for";
    EbpfUsageSlotsUsed "ebpf_usage_slots_used" Gauge Internal Own "slots" ["node"]
        "Slots of the usage map in use";
    EbpfUsageSlotsCapacity "ebpf_usage_slots_capacity" Gauge Internal Own "slots" ["node"]
        "Slots of the usage map";
    EbpfUsageDirectoriesOnFiles "ebpf_usage_directories_on_files" Gauge Internal Own "directories" ["node"]
        "Directories read from files since the usage map is full";
    EbpfUsageRescans "ebpf_usage_rescans_total" Counter Internal Own "walks" ["node"]
        "Walks of the whole cgroup tree, the one at the start included";
    EbpfUsageBuried "ebpf_usage_buried_total" Counter Internal Own "groups" ["node"]
        "Dead cgroups whose slot was given back";
    EbpfUsageDrifts "ebpf_usage_drifts_total" Counter Internal Own "directories" ["node"]
        "Directories whose CPU time differed from their file";
    EbpfUsageDriftSeconds "ebpf_usage_drift_seconds_total" Counter Internal Own "seconds" ["node" "direction"]
        "CPU time by which figures were too low (missing) or too high (excess) and were put right";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn own_names_follow_the_rule() {
        for family in Family::ALL.iter().map(|family| family.descriptor()) {
            let Descriptor { name, kind, origin, labels, .. } = *family;
            let plain =
                |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
            assert!(plain(name) && labels.iter().all(|label| plain(label)), "{name}");
            assert!(labels.iter().skip(1).all(|label| *label != "node"), "{name}: node is the first label");
            if origin == Origin::Own {
                assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
                assert_eq!(labels.first(), Some(&"node"), "{name}");
            }
        }
    }

    #[test]
    fn names_are_unique_and_help_needs_no_escape() {
        let names: BTreeSet<_> = Family::ALL.iter().map(|family| family.descriptor().name).collect();
        assert_eq!(names.len(), Family::ALL.len());
        for Descriptor { name, help, unit, .. } in Family::ALL.iter().map(|family| family.descriptor()) {
            assert!(!help.is_empty() && !unit.is_empty(), "{name}");
            assert!(!help.contains(['\\', '"', '\n', '|']) && !unit.contains('|'), "{name}");
        }
    }
}
