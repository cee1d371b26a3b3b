//! A running executor on this machine's cgroups, for the tests of `executor_*`: plans go in, kernel files are
//! read back by the kit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use kit::Tree;
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::Value;
use koordlet::claims::claim::{Owner, Reason};
use koordlet::claims::plan::{Decision, Desired, Plan, Subtree};
use koordlet::claims::target::CgroupTarget;
use koordlet::executor::{self, Executor, ExecutorConfig, ExecutorStats, TargetReport, TargetState};
use koordlet::host::roots::Roots;
use koordlet::units::{CfsQuota, CpuShares, MemoryLimit};
use tokio::runtime::Runtime;

pub(crate) fn quota(raw: i64) -> Value {
    Value::Quota(CfsQuota::from_raw(raw))
}

pub(crate) fn cpus(list: &str) -> Result<Value> {
    Ok(Value::Cpus(list.parse()?))
}

pub(crate) fn shares(shares: u64) -> Value {
    Value::Shares(CpuShares(shares))
}

pub(crate) fn bytes(bytes: u64) -> Value {
    Value::Memory(MemoryLimit::Bytes(bytes))
}

pub(crate) fn target(dir: &str, resource: Resource) -> Result<CgroupTarget> {
    Ok(CgroupTarget::new(&CgroupDir::new(dir)?, resource))
}

/// What the executor needs to know of this machine.
pub(crate) fn config(run_dir: &Path) -> Result<ExecutorConfig> {
    let roots = Roots::host();
    Ok(ExecutorConfig {
        layout: Arc::new(Layout::detect(&roots)?),
        run_dir: run_dir.to_owned(),
        roots,
        dry_run: false,
        host_root: None,
        observer: None,
    })
}

/// A plan in the making; the inputs of all owners have been seen. Directories named `pod*` are pods, what is
/// above them spans pods.
#[derive(Clone, Default)]
pub(crate) struct Plans(Plan);

impl Plans {
    pub(crate) fn new() -> Self {
        let synced = [Owner::BatchResource, Owner::CpuNormalization, Owner::CpuSuppress];
        Self(Plan { synced: synced.into_iter().collect(), ..Plan::default() })
    }

    pub(crate) fn decide(mut self, dir: &str, resource: Resource, decision: Decision) -> Result<Self> {
        let subtree = match dir.split('/').find(|part| part.starts_with("pod")) {
            Some(pod) => Subtree::Pod(pod.into()),
            None => Subtree::Class,
        };
        let reason = Arc::new(Reason { text: "a test wants it".to_owned(), inputs: BTreeMap::new() });
        let desired = Desired { decision, owner: Owner::CpuSuppress, reason, claims: Vec::new(), subtree };
        self.0.entries.insert(target(dir, resource)?, Arc::new(desired));
        Ok(self)
    }

    pub(crate) fn plan(self) -> Arc<Plan> {
        Arc::new(self.0)
    }

    pub(crate) fn hold(self, dir: &str, resource: Resource, value: Value) -> Result<Self> {
        self.decide(dir, resource, Decision::Hold(value))
    }
}

/// An executor with a run directory of its own.
pub(crate) struct Rig {
    executor: Option<Executor>,
    runtime: Runtime,
    pub(crate) run_dir: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn start() -> Result<Self> {
        Self::start_in(tempfile::tempdir()?)
    }

    pub(crate) fn start_in(run_dir: tempfile::TempDir) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let executor = Some(executor::spawn(config(run_dir.path())?)?);
        Ok(Self { executor, runtime, run_dir })
    }

    pub(crate) fn executor(&self) -> Result<&Executor> {
        self.executor.as_ref().context("stopped")
    }

    /// Hands in a plan and waits until it has been carried out as far as it can be at once.
    pub(crate) fn apply(&self, plan: &Plans) -> Result<()> {
        self.executor()?.apply(Arc::new(plan.0.clone()));
        self.settle()
    }

    pub(crate) fn settle(&self) -> Result<()> {
        Ok(self.runtime.block_on(self.executor()?.settled())?)
    }

    pub(crate) fn explain(&self) -> Result<Vec<TargetReport>> {
        Ok(self.runtime.block_on(self.executor()?.explain())?)
    }

    /// The one report whose path ends in `path`.
    pub(crate) fn report(&self, path: &str) -> Result<TargetReport> {
        let mut reports = self.explain()?.into_iter();
        reports.find(|report| report.path.ends_with(path)).with_context(|| format!("no report of {path}"))
    }

    /// States of all targets that are not held, with what keeps them.
    pub(crate) fn not_held(&self) -> Result<Vec<String>> {
        let open = self.explain()?.into_iter().filter(|report| report.state != TargetState::Held);
        Ok(open.map(|report| format!("{} {:?} {:?}", report.path, report.state, report.detail)).collect())
    }

    pub(crate) fn stats(&self) -> Result<Arc<ExecutorStats>> {
        Ok(self.executor()?.stats())
    }

    pub(crate) fn refusals(&self) -> Result<u64> {
        Ok(self.stats()?.refused.load(Ordering::Relaxed))
    }

    pub(crate) fn restore_all(&self) -> Result<executor::RestoreReport> {
        Ok(self.runtime.block_on(self.executor()?.restore_all())?)
    }

    /// Stops it and gives the run directory back.
    pub(crate) fn stop(mut self, restore: bool) -> Result<tempfile::TempDir> {
        let executor = self.executor.take().context("stopped")?;
        self.runtime.block_on(executor.stop(restore));
        Ok(self.run_dir)
    }
}

/// A class directory with a pod and a container in it.
pub(crate) struct Dirs {
    pub(crate) tree: Tree,
    pub(crate) class: String,
    pub(crate) pod: String,
    pub(crate) container: String,
}

impl Dirs {
    pub(crate) fn new() -> Result<Self> {
        let tree = Tree::bare(kit::Driver::Cgroupfs)?;
        let class = format!("{}/class", tree.root());
        let pod = format!("{class}/pod1");
        let container = format!("{pod}/c");
        tree.make(&container)?;
        Ok(Self { tree, class, pod, container })
    }
}
