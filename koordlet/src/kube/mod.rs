//! The API server and the kubelet as sources of objects, and the only place that writes to the API server.
//!
//! Nothing here decides anything, and nothing waits for it: while a server is away, what was seen last stays.
//!
//! The kubelet's pods are asked for on a timer, and at once when a pod's or container's cgroup comes or goes
//! (collection.md 7.5, 8): `pod_sync` is the loop, `sync_pace` says when it asks, `pod_trigger` is how the agent's loop
//! tells it of cgroups, `kubelet` is the connection, `pod_list` and `list_splitter` read the answer as a stream.

pub mod kubelet;
pub mod kubelet_config;
pub mod kubelet_endpoint;
pub mod kubelet_error;
pub mod kubelet_stats;
pub mod list_splitter;
pub mod pod_list;
pub mod pod_sync;
pub mod pod_trigger;
mod sync_pace;
pub mod update;
