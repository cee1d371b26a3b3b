//! Containers whose CPU limits are scaled up and down, as metrics show them.

use std::sync::Arc;

/// A container whose CPU limit is scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaledContainer {
    /// Namespace of its pod.
    pub namespace: String,
    /// Name of its pod.
    pub pod: String,
    /// Name.
    pub container: String,
    /// Full id.
    pub id: Arc<str>,
    /// Quota in force, in microseconds per 100 ms (`container_scaled_cfs_quota_us`).
    pub quota_us: Option<i64>,
    /// Budget of the kernel, in microseconds (`container_scaled_cfs_burst_us`).
    pub burst_us: Option<i64>,
}
