//! The agent: builds every room, runs the loop that carries what the sources say down to the executor, and
//! stops in order.
//!
//! Start order: layout, audit log, executor (which takes the lock), the sockets that answer, the cgroup driver's
//! name as soon as it is known, sensors, sources (manifests, API server, kubelet), collectors, reports, then the loop.
//! Nothing waits for an object of the API: each decider starts with what it has. Stop order: the loop, reports,
//! collectors, sources, the sockets, then the executor, which restores only if asked, then the audit log, which has
//! heard of all of that.

mod audit;
pub mod collectors;
mod decider;
mod driver;
mod inputs;
mod joined;
mod node_info;
mod notices;
mod once;
mod pace;
mod policy;
mod policy_events;
mod reports;
mod resctrl_events;
mod rule_settings;
mod run_loop;
mod sources;
mod strategies;
mod upkeep;
mod world;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use self::collectors::Surroundings;
use self::policy::PolicyIntake;
use self::policy_events::PolicyEvents;
use self::resctrl_events::ResctrlEvents;
use self::run_loop::{Effects, RunLoop, Senses};
use self::sources::Sources;
use self::world::World;
use crate::cgroup::layout::{Layout, LayoutError};
use crate::cgroup::path::CgroupDirError;
use crate::config::gates::Gate;
use crate::config::{Config, Mode};
use crate::ebpf::events::WatchedDirs;
use crate::ebpf::sensors::{self, SensorConfig, SensorError};
use crate::executor::{self, Executor, ExecutorConfig, ExecutorError};
use crate::host::roots::Roots;
use crate::kube::connection::ConnectError;
use crate::node::history::History;
use crate::report::admin::AdminAsk;
use crate::report::metrics::ages::Ages;
use crate::report::metrics::{Gated, Metrics};
use crate::report::server::{ReportError, Servers};
use crate::state::facts::Facts;
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
    /// The executor's thread is gone: another agent took the run directory, or it failed.
    #[error("the executor ended by itself: nothing is enforced any more")]
    ExecutorEnded,
    /// The audit log's thread.
    #[error("cannot start the audit log's thread")]
    Audit(#[source] io::Error),
    /// The sensors.
    #[error("cannot start the sensors")]
    Sensors(#[from] SensorError),
    /// A socket.
    #[error("cannot answer questions")]
    Report(#[from] ReportError),
    /// `--kubelet-cgroup-root`
    #[error("--kubelet-cgroup-root cannot be used")]
    CgroupRoot(#[from] CgroupDirError),
    /// The API server's client.
    #[error("cannot use the API server")]
    Kube(#[from] ConnectError),
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
    let (writers, readers) = hub();
    let audit = audit::start(&config.audit, &readers)?;
    let executor = executor::spawn(ExecutorConfig {
        layout: Arc::clone(&layout),
        run_dir: config.run_dir.clone(),
        roots: config.roots.clone(),
        dry_run: config.dry_run,
        host_root: host_root(&config),
        observer: audit.observer(),
    })?;
    let executor = Arc::new(executor);
    let facts = Facts::default();
    let series = upkeep::new_series(&config.collect);
    let gated = Gated {
        per_cpu: config.gates.is_on(Gate::PerCpuMetric),
        node_metric: config.gates.is_on(Gate::NodeMetricPromMetrics),
    };
    let metrics = Metrics::new(&config.node_name, &readers, &facts, gated).with_ages(Ages::of(&config));
    let metrics = Arc::new(metrics);
    metrics.add_series(&series);
    metrics.add_executor(&executor.stats());
    audit.show(&metrics);
    let (servers, asks) =
        Servers::start(&config, Arc::clone(&metrics), readers.clone(), audit.page(&config.audit)).await?;
    let answering = tokio::spawn(answer(asks, Arc::clone(&executor)));
    tokio::pin!(stop);

    let naming = tokio::select! {
        naming = driver::wait(&config, &layout, &readers.troubles) => naming?,
        () = executor.ended() => return Err(AgentError::ExecutorEnded),
        () = &mut stop => return Ok(()),
    };
    let watched = WatchedDirs::new([naming.kubepods().clone()]);
    let sensors = sensors::start(&SensorConfig {
        mode: config.ebpf,
        usage_source: config.cpu_usage_source,
        ..SensorConfig::new(config.roots.clone(), Arc::clone(&layout), watched.clone())
    })?;
    let handle = Arc::new(sensors.handle);
    metrics.add_sensors(&sensors.mode, &sensors.usage_mode, &handle);
    let sources = Sources::start(&config, &naming, &metrics).await?;
    let surroundings = Surroundings {
        layout: Arc::clone(&layout),
        naming: naming.clone(),
        roots: config.roots.clone(),
        readers: readers.clone(),
        facts: facts.clone(),
        series: series.clone(),
        metrics: Arc::clone(&metrics),
    };
    let policy = PolicyIntake::new(PolicyEvents::new(sources.recorder(&config)));
    let (roots, counters) = (config.roots.clone(), Arc::clone(&metrics));
    let world = World::new(writers, Arc::clone(&layout), roots, naming, watched, counters, policy);
    let events = ResctrlEvents::new(sources.recorder(&config), readers.pods.clone());
    notices::forward(&executor, events);
    let rounds = collectors::start(&config, &surroundings);
    let follower = collectors::follow(&config, &surroundings);
    metrics.add_rounds(&rounds);
    if let Some(follower) = &follower {
        metrics.add_follower(follower.stats());
    }

    let mut reports = reports::start(&config, &sources, &surroundings);
    reports.spawn(upkeep::after_the_start());

    let senses = Senses {
        events: sensors.events,
        collector: collectors::usage(&surroundings),
        cpu_time: sensors.cpu_time,
        can_look: sensors.usage_mode.is_ebpf(),
    };
    let history = History::new(series.clone(), &facts, config.collect.page_cache);
    let effects = Effects { executor: Arc::clone(&executor), metrics, series, history, follower };
    let mut run_loop = RunLoop::new(&config, &layout, world, sources.reader(), readers, senses, effects);
    tokio::select! {
        () = run_loop.run() => {}
        () = executor.ended() => return Err(AgentError::ExecutorEnded),
        () = &mut stop => {}
    }
    drop((run_loop, reports, rounds, sources, servers, handle));
    answering.abort();
    drop(answering.await);
    if let Some(executor) = Arc::into_inner(executor) {
        executor.stop(config.restore_on_exit).await;
    }
    drop(audit);
    Ok(())
}

/// In a DaemonSet's pod the host's cgroups are mounted elsewhere; what is shown are the host's paths.
pub fn host_root(config: &Config) -> Option<(PathBuf, PathBuf)> {
    let host = Roots::host().cgroup;
    (config.mode == Mode::DaemonSet).then(|| (config.roots.cgroup.clone(), host))
}

/// Has the executor answer what the admin socket asks, whatever the loop is waiting for.
async fn answer(mut asks: mpsc::Receiver<AdminAsk>, executor: Arc<Executor>) {
    while let Some(ask) = asks.recv().await {
        ask.answer(&executor).await;
    }
}
