//! Set `podresources`: effective resources of a pod and its containers (hooks.md 4.3). The recorded pod quota
//! is the plain sum; that a pod with an unlimited container stays unlimited (H1) is its callers' rule.

use std::collections::BTreeMap;

use koordlet::api::pod::Pod;
use koordlet::api::resources::Native;
use koordlet::units::MemoryLimit;
use serde_json::{Value, json};

use crate::set::{self, Row, Verdict};

fn values(native: &Native) -> Value {
    let memory = match native.memory {
        MemoryLimit::Bytes(bytes) => json!(bytes),
        MemoryLimit::Unlimited => json!(-1),
    };
    json!({"shares": native.shares.0, "quota": native.quota.raw(), "memoryLimit": memory})
}

fn effective_pod_resources(row: &Row) -> Verdict {
    let pod: Pod = match serde_json::from_value(row.input["pod"].clone()) {
        Ok(pod) => pod,
        Err(error) => return Verdict::Wrong(format!("the pod cannot be read: {error}")),
    };
    let mut got = values(&pod.native());
    let containers: BTreeMap<&str, Value> = pod
        .spec
        .containers
        .iter()
        .map(|container| (container.name.as_str(), values(&container.native())))
        .collect();
    got["containers"] = json!(containers);
    row.compare(Ok::<_, String>(got))
}

#[test]
fn vector_podresources() {
    set::check("podresources", &[("effective_pod_resources", 45, effective_pod_resources)]);
}
