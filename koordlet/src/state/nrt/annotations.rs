//! The JSON values of the annotations, collection.md 10.3: field names, order and what is left out when empty.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::host::cpuinfo::BasicInfo;
use crate::state::pods::PodTable;
use crate::state::topology::CpuInfo;

/// `cpu-basic-info`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CpuBasicInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    cpu_model: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    hyper_thread_enabled: bool,
    #[serde(skip_serializing_if = "is_false")]
    turbo_enabled: bool,
    #[serde(rename = "catL3CbmMask", skip_serializing_if = "str::is_empty")]
    cat_l3_cbm_mask: &'a str,
    #[serde(rename = "vendorID", skip_serializing_if = "str::is_empty")]
    vendor_id: &'a str,
}

impl<'a> From<&'a BasicInfo> for CpuBasicInfo<'a> {
    fn from(info: &'a BasicInfo) -> Self {
        let BasicInfo { cpu_model, vendor_id, hyper_thread_enabled, turbo_enabled, cat_l3_cbm_mask } = info;
        Self {
            cpu_model,
            hyper_thread_enabled: *hyper_thread_enabled,
            turbo_enabled: *turbo_enabled,
            cat_l3_cbm_mask,
            vendor_id,
        }
    }
}

/// `cpu-topology`.
#[derive(Serialize)]
pub(super) struct CpuTopology {
    detail: Vec<Cpu>,
}

#[derive(Serialize)]
struct Cpu {
    id: u32,
    core: u32,
    socket: u32,
    node: u32,
}

impl CpuTopology {
    /// By CPU number.
    pub(super) fn of(cpus: &[CpuInfo]) -> Self {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        let cpu = |info: CpuInfo| Cpu { id: info.cpu, core: info.core, socket: info.socket, node: info.node };
        Self { detail: cpus.into_iter().map(cpu).collect() }
    }
}

/// An entry of `pod-cpu-allocs`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodCpuAlloc<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    uid: &'a str,
    cpuset: &'a CpuSet,
    managed_by_kubelet: bool,
}

/// `pod-cpu-allocs`, by UID; `null` without any. A pod that is not known is without a name.
pub(super) fn pod_cpu_allocs<'a>(
    pinned: &'a BTreeMap<Arc<str>, CpuSet>,
    pods: &'a PodTable,
) -> Option<Vec<PodCpuAlloc<'a>>> {
    let alloc = |(uid, cpuset): (&'a Arc<str>, &'a CpuSet)| {
        let meta = pods.pods.get(uid).map(|pod| &pod.pod.metadata);
        PodCpuAlloc {
            namespace: meta.map_or("", |meta| &meta.namespace),
            name: meta.map_or("", |meta| &meta.name),
            uid,
            cpuset,
            managed_by_kubelet: true,
        }
    };
    (!pinned.is_empty()).then(|| pinned.iter().map(alloc).collect())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
