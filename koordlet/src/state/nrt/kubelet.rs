//! What is published of the kubelet's configuration: its CPU manager policy with the CPUs that it keeps
//! (collection.md 10.3), and the topology policy (10.4).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::api::keys;
use crate::api::kubelet_config::KubeletConfig;
use crate::api::quantity::Quantity;
use crate::cpuset::CpuSet;
use crate::state::cpu_sources::TopologyNotice;
use crate::state::reserve::reserve_cpus;
use crate::state::topology::CpuInfo;

/// The policy under which the kubelet pins CPUs.
const STATIC: &str = "static";

/// `cpu-manager-policy`.
#[derive(Default, Serialize)]
pub(super) struct CpuManager<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a BTreeMap<String, String>>,
    #[serde(rename = "reservedCPUs", skip_serializing_if = "CpuSet::is_empty")]
    reserved_cpus: CpuSet,
}

impl<'a> CpuManager<'a> {
    /// Of the kubelet's configuration; empty where it is not asked.
    pub(super) fn of(
        config: Option<&'a KubeletConfig>,
        cpus: &[CpuInfo],
        notices: &mut Vec<TopologyNotice>,
    ) -> Self {
        let Some(config) = config else { return Self::default() };
        let mut say = |problem| {
            notices.push(TopologyNotice { object: "kubelet".to_owned(), key: "/configz", problem });
        };
        config.skipped.iter().cloned().for_each(&mut say);
        let reserved = if is_static(config) { reserved_cpus(config, cpus) } else { Ok(CpuSet::new()) };
        Self {
            policy: &config.cpu_manager_policy,
            options: Some(&config.cpu_manager_policy_options).filter(|options| !options.is_empty()),
            reserved_cpus: reserved.unwrap_or_else(|problem| {
                say(problem);
                CpuSet::new()
            }),
        }
    }
}

/// Whether the kubelet pins CPUs.
pub(super) fn is_static(config: &KubeletConfig) -> bool {
    config.cpu_manager_policy == STATIC
}

/// CPUs that the kubelet keeps under the static policy: its list, else its amounts rounded up to whole CPUs.
fn reserved_cpus(config: &KubeletConfig, cpus: &[CpuInfo]) -> Result<CpuSet, String> {
    let list = &config.reserved_system_cpus;
    if list.is_empty() {
        let system = cpu_amount("systemReserved", &config.system_reserved)?;
        let total = system.plus(cpu_amount("kubeReserved", &config.kube_reserved)?);
        let count = usize::try_from(total.value()).unwrap_or(0);
        return reserve_cpus(count, cpus).map_err(|error| error.to_string());
    }
    let reserved: CpuSet = list.parse().map_err(|error| format!("reservedSystemCPUs: {error}"))?;
    let all = cpus.iter().map(|info| info.cpu).collect();
    if !reserved.is_subset(&all) {
        return Err(format!("reservedSystemCPUs: {list:.80} is not among this node's CPUs, {all}"));
    }
    Ok(reserved)
}

fn cpu_amount(field: &str, amounts: &BTreeMap<String, String>) -> Result<Quantity, String> {
    let Some(text) = amounts.get(keys::CPU) else { return Ok(Quantity::default()) };
    let amount: Quantity = text.parse().map_err(|error| format!("{field}.cpu: {error}"))?;
    if amount < Quantity::default() {
        return Err(format!("{field}.cpu: {text:.80} is negative"));
    }
    Ok(amount)
}

/// The topology policy, collection.md 10.4.
pub(super) fn topology_policy(config: Option<&KubeletConfig>) -> &'static str {
    let Some(config) = config else { return "None" };
    match (config.topology_manager_policy.as_str(), config.topology_manager_scope.as_str()) {
        ("single-numa-node", "container") => "SingleNUMANodeContainerLevel",
        ("single-numa-node", "pod") => "SingleNUMANodePodLevel",
        ("restricted", "container") => "RestrictedContainerLevel",
        ("restricted", "pod") => "RestrictedPodLevel",
        ("best-effort", "container") => "BestEffortContainerLevel",
        ("best-effort", "pod") => "BestEffortPodLevel",
        _ => "None",
    }
}
