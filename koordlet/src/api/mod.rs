//! Foreign shapes: what Kubernetes and Koordinator objects look like, typed and slim. No behaviour beyond
//! parsing; no I/O.

pub mod annotations;
pub mod crds;
pub mod device_allocation;
pub mod duration;
pub mod keys;
pub mod kubelet_config;
pub mod node;
pub mod node_metric;
pub mod node_slo;
pub mod pod;
pub mod pod_resctrl;
pub mod qos;
pub mod quantity;
pub mod resources;
pub mod rfc3339;
pub mod topology;

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default, as Go's decoder does.
pub fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
