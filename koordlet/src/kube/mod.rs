//! The API server and the kubelet as sources of objects, and the only place that writes to the API server.
//!
//! Nothing here decides anything, and nothing waits for it: while a server is away, what was seen last stays.
//!
//! `sources` starts the API server's part. `credentials`, `connection` and `transport` make requests possible and keep
//! them within bounds (`attempt`, `budget`, `backoff`); `watch` follows one object, `update` hands on what it saw; `publish` and
//! `events` write. `kind`, `reason`, `stats` and `trouble` are what is counted and told.
//!
//! The kubelet's pods are asked for on a timer, and at once when a pod's or container's cgroup comes or goes
//! (collection.md 7.5, 8): `pod_sync` is the loop, `sync_pace` says when it asks, `pod_trigger` is how the agent's loop
//! tells it of cgroups, `kubelet` with `kubelet_link` is the connection,
//! `pod_list` and `list_splitter` read the answer as a stream.

pub mod attempt;
pub mod backoff;
pub mod budget;
pub mod connection;
pub mod credentials;
pub mod event_series;
pub mod events;
pub mod kind;
pub mod kubelet;
pub mod kubelet_config;
pub mod kubelet_endpoint;
pub mod kubelet_error;
mod kubelet_link;
pub mod kubelet_stats;
pub mod list_splitter;
mod lookup;
pub mod merge_patch;
pub mod pod_list;
pub mod pod_sync;
pub mod pod_trigger;
pub mod publish;
pub mod reason;
pub mod sources;
pub mod stats;
mod sync_pace;
#[cfg(test)]
pub(crate) mod testing;
pub mod transport;
mod trouble;
pub mod update;
mod watch;

pub use sources::{KubeSources, Wanted};
pub use update::{KubeUpdate, KubeUpdates};
