//! Tests on the real kernel of this machine: real cgroups, real processes, the real agent binary.
//!
//! They run single threaded in a process of their own, since they share the kernel. What the machine lacks is
//! announced as `SKIPPED: reason`.

mod audit;
mod be_limits;
mod births;
mod cgroup_values;
mod churn;
mod collect;
mod cpu_burst;
mod cpuset_allocator;
mod crash;
mod doctor;
mod ebpf_events;
mod ebpf_usage;
mod enforce;
mod executor_foreign;
mod executor_ledger;
mod executor_rig;
mod executor_writes;
mod explain_chain;
mod fallback;
mod group_use;
mod hook_rules;
mod inspect_node;
mod kit_works;
mod mainline_equivalents;
mod metrics_page;
mod network_qos;
mod node_usage;
mod optional_collectors;
mod perf_counters;
mod pod_resctrl;
mod runc;
mod running;
mod suppress_cpuset;
mod task_attributes;
