//! Tests of Kubernetes as a source, over real connections.

mod kubelet_client;
mod kubelet_real;
mod kubelet_rig;
mod pod_sync;
