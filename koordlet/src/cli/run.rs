//! `koordlet run`: log, runtime, the agent until a signal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::SigSet;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::log;
use crate::agent;
use crate::config::{Config, Output};
use crate::sys::one_heap;

/// How long threads with work in hand may take to finish it when the agent stops.
const LAST_THREADS: Duration = Duration::from_secs(2);

/// Runs the agent until SIGTERM or SIGINT.
pub fn run(config: Config, output: Output) -> anyhow::Result<ExitCode> {
    one_heap();
    log::init(config.log_level, output)?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = config.node_name,
        mode = %config.mode,
        gates = %config.gates,
        dry_run = config.dry_run,
        "koordlet starts"
    );
    for notice in &config.notices {
        warn!("{notice}");
    }
    // Whoever started the agent may have left signals blocked; then nothing but SIGKILL would stop it.
    SigSet::empty().thread_set_mask().context("the signal mask cannot be cleared")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be awaited")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be awaited")?;
        let stop = async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            info!(signal = name, "stopping");
        };
        agent::run(config, stop).await?;
        anyhow::Ok(())
    });
    // A thread that reads what never comes must not keep the agent from ending.
    runtime.shutdown_timeout(LAST_THREADS);
    ended?;
    info!("stopped");
    Ok(ExitCode::SUCCESS)
}
