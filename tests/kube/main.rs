//! Tests of Kubernetes as a source and of what is reported to it, over real connections.
//!
//! `objects`, `faults` and `definitions` start a kube-apiserver with etcd on loopback. Its folder is named by
//! `KOORDLET_E2E_BIN`, without which they are skipped; `etcd` and `openssl` are Debian's.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test binary: a panic is a failed test")]

mod api_server;
mod definitions;
mod faults;
mod kubelet_client;
mod kubelet_real;
mod kubelet_rig;
mod made_up_host;
mod objects;
mod pod_sync;
mod scene;
mod two_zones;
mod worked_report;
