//! Tests of Kubernetes as a source, over real connections.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test binary: a panic is a failed test")]

mod kubelet_client;
mod kubelet_real;
mod kubelet_rig;
mod pod_sync;
