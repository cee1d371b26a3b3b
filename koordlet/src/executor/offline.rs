//! Restoring without a running agent, from the ledger alone.

use std::sync::Arc;

use super::backend::cgroup_file::CgroupFiles;
use super::diff::Files;
use super::engine::{Engine, EngineParts, SlowWrites};
use super::keeper::{KeeperParts, keepers};
use super::report::RestoreReport;
use super::stats::ExecutorStats;
use super::watch::NoWatch;
use super::worker::{boot_id, now};
use super::{ExecutorConfig, ExecutorError, run_dir};

/// Puts back everything that the ledger of `config.run_dir` tells of. Fails if an agent is running, which has
/// to be asked instead.
pub fn restore_offline(config: ExecutorConfig) -> Result<RestoreReport, ExecutorError> {
    let (_lock, ledger, damage) = run_dir::open(&config)?;
    let mut keepers = keepers(KeeperParts::of(&config));
    let mut engine = Engine::new(EngineParts {
        files: Files::new(Arc::clone(&config.layout), config.host_root),
        backend: Arc::new(CgroupFiles::new(config.layout)),
        watch: Box::new(NoWatch),
        ledger,
        boot: boot_id(&config.roots.proc),
        dry_run: config.dry_run,
        slow_writes: SlowWrites::Inline,
        stats: Arc::new(ExecutorStats::default()),
    });
    let mut report = engine.restore_all(now());
    for keeper in &mut keepers {
        keeper.restore(&mut engine.books(now()), &mut report);
    }
    if let Some(damage) = damage {
        let path = damage.kept_as.unwrap_or(config.run_dir);
        let why = format!("{} damaged lines of the ledger: {}", damage.lines, damage.what);
        report.failed.push((path.display().to_string(), why));
    }
    Ok(report)
}
