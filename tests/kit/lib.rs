//! Test kit: a kubepods tree of the test's own in the real cgroup hierarchies, real processes in it, the real
//! agent binary beside it, and the manifests that the agent reads.
//!
//! It is an oracle: it finds hierarchies, names directories and reads values by its own few lines, not through
//! the library under test. Everything it makes on the host lies beneath `koordtest-<pid>-<n>` directories and is
//! removed on drop, also after a panic; what a killed test left behind is swept at the next start.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use kit::{Agent, Class, Controller, Manifests, NodeManifest, PodManifest, Tree};
//! let tree = Tree::new()?;
//! let pod = PodManifest::new("web", Class::Burstable).qos("LS").container("app", "0a1b", |c| c.cpu_limit("2"));
//! let dir = tree.make_pod(&pod)?.container("app");
//! let manifests = Manifests::new()?;
//! manifests.write("node", &NodeManifest::this_host("node-1"))?;
//! manifests.write("web", &pod)?;
//! let agent = Agent::of(&tree, &manifests)?;
//! let running = agent.start()?;
//! let quota = tree.read(Controller::Cpu, &dir, "cpu.cfs_quota_us")?;
//! # Ok(()) }
//! ```

pub mod agent;
pub mod api_server;
pub mod binary;
mod certificates;
pub mod entry;
pub mod hierarchy;
pub mod hook_worlds;
pub mod http;
pub mod kubelet;
pub mod latency;
mod leftovers;
pub mod load;
pub mod manifest;
pub mod names;
mod object_store;
pub mod offers;
pub mod skip;
pub mod tree;
pub mod wait;

pub use agent::{Agent, RunningAgent};
pub use api_server::StandInApiServer;
pub use entry::{one_pod, pod_entry, pod_table};
pub use hierarchy::{Controller, Hierarchies};
pub use kubelet::StandInKubelet;
pub use load::{Load, Work};
pub use manifest::{ContainerSpec, Manifests, NodeManifest, NodeSloManifest, PodManifest};
pub use names::{Class, Driver, Runtime};
pub use offers::guest_scale;
pub use tree::{PodDirs, Tree};
pub use wait::{patience, until, until_value};
