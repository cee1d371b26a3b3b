//! The agent: builds every room, runs the loop that carries what the sources say down to the executor, and
//! stops in order.
//!
//! Start order: layout, executor (which takes the lock), the sockets that answer, the cgroup driver's name as
//! soon as it is known, sensors, sources, then the loop. Nothing waits for an object of the API: each decider
//! starts with what it has. Stop order: the loop, the sockets, then the executor, which restores only if asked.

mod decider;
mod events;
mod once;
mod pace;
mod world;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use self::decider::Decider;
use self::events::Burst;
use self::pace::Pace;
use self::world::{World, kernel_text};
use crate::cgroup::driver::DriverWatch;
use crate::cgroup::layout::{Layout, LayoutError};
use crate::cgroup::naming::Naming;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::config::{Config, Gate};
use crate::ebpf::events::{CgroupEvent, WatchedDirs};
use crate::ebpf::sensors::{self, SensorConfig, SensorError, Sensors};
use crate::executor::{self, Executor, ExecutorConfig, ExecutorError};
use crate::host::clock::monotonic;
use crate::manifests::{ManifestUpdate, directory};
use crate::node::collect::{Collector, HostAppDir, Scale};
use crate::report::metrics::Metrics;
use crate::report::server::{ReportError, Servers};
use crate::rules::RuleGates;
use crate::state::hub::{Readers, hub};
use crate::strategies::cpu_suppress::SuppressSettings;
use crate::strategies::cpu_suppress::state::SuppressState;
use crate::units::Nanos;

/// Why the agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The cgroup hierarchies.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The executor.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The sensors.
    #[error(transparent)]
    Sensors(#[from] SensorError),
    /// A socket.
    #[error(transparent)]
    Report(#[from] ReportError),
}
