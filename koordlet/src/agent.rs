//! The agent: builds every room, runs the loop that carries what the sources say down to the executor, and
//! stops in order.
//!
//! Start order: layout, executor (which takes the lock), the sockets that answer, the cgroup driver's name as
//! soon as it is known, sensors, sources, then the loop. Nothing waits for an object of the API: each decider
//! starts with what it has. Stop order: the loop, the sockets, then the executor, which restores only if asked.

mod decider;
mod driver;
mod notices;
mod once;
mod pace;
mod run_loop;
mod world;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use self::run_loop::RunLoop;
use self::world::World;
use crate::cgroup::layout::{Layout, LayoutError};
use crate::cgroup::path::CgroupDirError;
use crate::config::Config;
use crate::ebpf::events::WatchedDirs;
use crate::ebpf::sensors::{self, SensorConfig, SensorError};
use crate::executor::{self, ExecutorConfig, ExecutorError};
use crate::manifests::directory::ManifestDirectory;
use crate::state::hub::hub;

/// Why the agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The cgroup hierarchies.
    #[error("cannot find the cgroup hierarchies")]
    Layout(#[from] LayoutError),
    /// The executor.
    #[error("cannot start the executor")]
    Executor(#[from] ExecutorError),
    /// The sensors.
    #[error("cannot start the sensors")]
    Sensors(#[from] SensorError),
    /// `--kubelet-cgroup-root`
    #[error("--kubelet-cgroup-root cannot be used")]
    CgroupRoot(#[from] CgroupDirError),
    /// The manifests' thread.
    #[error("cannot follow {path}")]
    Manifests {
        /// `--manifests-dir`
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Runs until `stop` is done, inside a tokio runtime.
///
/// # Errors
/// What cannot be had at start. Later failures are reported and survived.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<(), AgentError> {
    let layout = Arc::new(Layout::detect(&config.roots)?);
    let executor = executor::spawn(ExecutorConfig {
        layout: Arc::clone(&layout),
        run_dir: config.run_dir.clone(),
        proc: config.roots.proc.clone(),
        dry_run: config.dry_run,
        host_root: None,
    })?;
    let executor = Arc::new(executor);
    let (writers, readers) = hub();
    tokio::pin!(stop);

    let naming = tokio::select! {
        naming = driver::wait(&config, &layout) => naming?,
        () = &mut stop => return Ok(()),
    };
    let watched = WatchedDirs::new([naming.kubepods().clone()]);
    let sensors = sensors::start(&SensorConfig {
        mode: config.ebpf,
        usage_source: config.cpu_usage_source,
        ..SensorConfig::new(config.roots.clone(), Arc::clone(&layout), watched.clone())
    })?;
    let manifests = match &config.manifests_dir {
        Some(path) => Some(
            ManifestDirectory::follow(path.clone(), config.node_name.clone())
                .map_err(|source| AgentError::Manifests { path: path.clone(), source })?,
        ),
        None => None,
    };
    let world = World::new(writers, Arc::clone(&layout), config.roots.clone(), naming, watched);
    notices::forward(&executor);

    let mut run_loop = RunLoop::new(&config, layout, world, readers, sensors, Arc::clone(&executor));
    tokio::select! {
        () = run_loop.run(manifests.as_ref().map(ManifestDirectory::updates)) => {}
        () = &mut stop => {}
    }
    drop((run_loop, manifests));
    if let Some(executor) = Arc::into_inner(executor) {
        executor.stop(config.restore_on_exit).await;
    }
    Ok(())
}
