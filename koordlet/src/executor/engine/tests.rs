//! The engine on an emulated v1 kernel, step by step, without a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::errno::Errno;

use super::emulated::{Kernel, dir};
use super::*;
use crate::cgroup::resource::{Controller, Resource};
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Owner, Reason, Wish};
use crate::claims::plan::{Desired, Subtree};
use crate::ebpf::events::CgroupEvent;
use crate::executor::report::TargetState;
use crate::units::{CfsQuota, CpuShares, MemoryLimit};

mod births;
mod cpus;
mod foreign;
mod order;
mod periods;
mod plans;
mod release;
mod told;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

pub(super) fn seconds(s: u64) -> Nanos {
    Nanos(s * SECOND)
}

pub(super) fn quota(raw: i64) -> Value {
    Value::Quota(CfsQuota::from_raw(raw))
}

pub(super) fn cpus(list: &str) -> Value {
    Value::Cpus(list.parse().unwrap())
}

pub(super) fn shares(s: u64) -> Value {
    Value::Shares(CpuShares(s))
}

pub(super) fn bytes(b: u64) -> Value {
    Value::Memory(MemoryLimit::Bytes(b))
}

pub(super) const OWNERS: [Owner; 4] =
    [Owner::BatchResource, Owner::CpuNormalization, Owner::CpuSuppress, Owner::KubeletExclusive];

/// A plan in the making.
#[derive(Clone)]
pub(super) struct PlanOf(pub(super) Plan);

impl PlanOf {
    /// With all owners' inputs seen.
    pub(super) fn synced() -> Self {
        let synced = OWNERS.into_iter().collect();
        Self(Plan { synced, ..Plan::default() })
    }

    pub(super) fn unsynced() -> Self {
        Self(Plan::default())
    }

    pub(super) fn decide(mut self, path: &str, resource: Resource, decision: Decision, owner: Owner) -> Self {
        let target = CgroupTarget::new(&dir(path), resource);
        let reason = Arc::new(Reason { text: "a test wants it".into(), inputs: BTreeMap::new() });
        let wish = match &decision {
            Decision::Hold(value) | Decision::Release(value) => Wish::Hold(value.clone()),
            Decision::Leave => Wish::Leave,
        };
        let claims = vec![Claim { target: target.clone(), wish, owner, reason: Arc::clone(&reason) }];
        let subtree = if path.contains("/p") { Subtree::Pod(pod_of(path).into()) } else { Subtree::Class };
        let desired = Desired { decision, owner, reason, claims, subtree };
        self.0.entries.insert(target, Arc::new(desired));
        self
    }

    pub(super) fn hold(self, path: &str, resource: Resource, value: Value) -> Self {
        self.decide(path, resource, Decision::Hold(value), Owner::CpuSuppress)
    }

    pub(super) fn release(self, path: &str, resource: Resource, value: Value, owner: Owner) -> Self {
        self.decide(path, resource, Decision::Release(value), owner)
    }

    pub(super) fn plan(self) -> Arc<Plan> {
        Arc::new(self.0)
    }
}

fn pod_of(path: &str) -> &str {
    path.split('/').find(|part| part.starts_with('p')).unwrap_or(path)
}

/// A kernel with an engine on it.
pub(super) struct Rig {
    pub(super) kernel: Kernel,
    pub(super) engine: Engine,
    pub(super) run_dir: Arc<tempfile::TempDir>,
}

impl Rig {
    pub(super) fn new(paths: &[&str]) -> Self {
        let kernel = Kernel::new();
        for path in paths {
            kernel.mkdir(path);
        }
        Self::on(kernel, Arc::new(tempfile::tempdir().unwrap()), "boot", SlowWrites::Inline)
    }

    pub(super) fn on(
        kernel: Kernel,
        run_dir: Arc<tempfile::TempDir>,
        boot: &str,
        slow_writes: SlowWrites,
    ) -> Self {
        let (ledger, _) = Ledger::open(run_dir.path()).unwrap();
        let engine = Engine::new(EngineParts {
            files: Files::new(kernel.layout(), None),
            backend: Arc::new(kernel.clone()),
            watch: Box::new(kernel.watch()),
            ledger,
            boot: boot.into(),
            dry_run: false,
            slow_writes,
            stats: Arc::default(),
        });
        Self { kernel, engine, run_dir }
    }

    /// The agent is killed and started again.
    pub(super) fn restart(self) -> Self {
        let Self { kernel, engine, run_dir } = self;
        drop(engine);
        for place in Watch::places(&kernel.watch()) {
            kernel.watch().remove(&place);
        }
        kernel.take_events();
        Self::on(kernel, run_dir, "boot", SlowWrites::Inline)
    }

    pub(super) fn apply(&mut self, plan: &PlanOf, now: Nanos) -> Vec<String> {
        self.engine.apply(plan.clone().plan(), now);
        self.pump(now)
    }

    pub(super) fn tick(&mut self, now: Nanos) -> Vec<String> {
        self.engine.tick(now);
        self.pump(now)
    }

    pub(super) fn foreign(&mut self, path: &str, resource: Resource, text: &str, now: Nanos) -> Vec<String> {
        assert!(self.kernel.foreign(path, resource, text), "{path} {resource:?} {text}");
        self.pump(now)
    }

    /// Hands file events to the engine until there are none; returns the engine's writes.
    pub(super) fn pump(&mut self, now: Nanos) -> Vec<String> {
        for _ in 0..100 {
            let events = self.kernel.take_events();
            if events.is_empty() {
                return self.kernel.take_writes();
            }
            for event in events {
                self.engine.file_event(&event, now);
            }
        }
        panic!("the engine answers its own writes for ever: {:?}", self.kernel.take_writes());
    }

    pub(super) fn born(&mut self, path: &str, controller: Controller, now: Nanos) -> Vec<String> {
        let id = self.kernel.mkdir_in(path, &[controller]);
        let event = CgroupEvent::Born { controllers: vec![controller], id, dir: dir(path) };
        self.engine.cgroup_event(&event, now);
        self.pump(now)
    }

    pub(super) fn state(&self, path: &str, resource: Resource) -> (TargetState, String) {
        let shown = self.engine.parts.files.shown_path(&CgroupTarget::new(&dir(path), resource));
        let report = self.engine.explain().into_iter().find(|report| report.path == shown).unwrap();
        (report.state, report.detail.unwrap_or_default())
    }

    pub(super) fn figure(&self, name: &str) -> u64 {
        let figures: BTreeMap<_, _> = self.engine.stats().figures().into_iter().collect();
        figures[name]
    }

    pub(super) fn no_refusal(&self) {
        assert_eq!(self.kernel.take_refusals(), Vec::<String>::new());
    }
}

#[test]
fn a_value_is_written_once_read_back_and_explained() {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000));
    assert_eq!(rig.apply(&plan, seconds(1)), ["be cpu.cfs_quota_us 50000"]);
    assert_eq!(rig.apply(&plan, seconds(2)), Vec::<String>::new());
    let report = rig.engine.explain().remove(0);
    assert_eq!((report.state, report.value.as_deref()), (TargetState::Held, Some("50000")));
    assert_eq!((report.replaced.as_deref(), report.cgroup_id), (Some("-1"), Some(1)));
    assert!(report.path.ends_with("/cpu/be/cpu.cfs_quota_us") && report.path.starts_with('/'));
    assert_eq!((report.claims.len(), report.claims[0].won), (1, true));
    let json = serde_json::to_value(&report).unwrap();
    for key in ["path", "cgroupId", "value", "state", "owner", "reason", "inputs", "replaced", "claims"] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

#[test]
fn an_unchanged_plan_costs_neither_reads_nor_writes() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p1/c"]);
    let plan = PlanOf::synced()
        .hold("be", Resource::CfsQuota, quota(50_000))
        .hold("be/p1", Resource::CpuShares, shares(512))
        .hold("be/p1/c", Resource::Cpus, cpus("0-1"))
        .hold("be/p1/c", Resource::MemoryLimit, bytes(104_857_601));
    rig.apply(&plan, seconds(1));
    rig.kernel.take_reads();
    assert_eq!(rig.apply(&plan, seconds(2)), Vec::<String>::new());
    assert_eq!(rig.kernel.take_reads(), 0);
    rig.no_refusal();
}

#[test]
fn c042_a_rounded_memory_limit_counts_as_held() {
    let mut rig = Rig::new(&["be/p1"]);
    let plan = PlanOf::synced().hold("be/p1", Resource::MemoryLimit, bytes(104_857_601));
    rig.apply(&plan, seconds(1));
    assert_eq!(rig.kernel.group("be/p1").memory, 104_857_600);
    for minute in 1..4 {
        assert_eq!(rig.tick(seconds(60 * minute)), Vec::<String>::new());
    }
    assert_eq!(rig.state("be/p1", Resource::MemoryLimit).0, TargetState::Held);
}

#[test]
fn a_dry_run_decides_and_leaves_no_trace() {
    let kernel = Kernel::new();
    kernel.mkdir("be");
    let mut engine = Engine::new(EngineParts {
        files: Files::new(kernel.layout(), None),
        backend: Arc::new(kernel.clone()),
        watch: Box::new(kernel.watch()),
        ledger: Ledger::in_memory(),
        boot: "b".into(),
        dry_run: true,
        slow_writes: SlowWrites::Inline,
        stats: Arc::default(),
    });
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000)).hold(
        "be",
        Resource::CpuShares,
        shares(1024),
    );
    engine.apply(plan.plan(), seconds(1));
    engine.tick(seconds(100));
    let states: BTreeSet<_> = engine.explain().into_iter().map(|r| format!("{:?}", r.state)).collect();
    assert_eq!(states, BTreeSet::from(["DryRun".to_owned(), "Held".to_owned()]));
    assert!(engine.restore_all(seconds(101)).restored.is_empty());
    assert_eq!((kernel.take_writes().len(), kernel.take_refusals().len()), (0, 0));
    assert!(engine.ledger().is_empty());
}

#[test]
fn a_refusal_is_said_once_retried_with_back_off_and_at_once_when_the_wish_changes() {
    let mut rig = Rig::new(&["be"]);
    rig.kernel.fail("be", Resource::CpuShares, Some(Errno::EPERM));
    let plan = PlanOf::synced().hold("be", Resource::CpuShares, shares(2));
    rig.apply(&plan, seconds(0));
    let (state, detail) = rig.state("be", Resource::CpuShares);
    assert_eq!(state, TargetState::Refused);
    assert!(detail.contains("EPERM"), "{detail}");
    for s in 1..=600 {
        rig.tick(seconds(s));
    }
    let tries = rig.kernel.take_refusals().len();
    assert!((10..=17).contains(&tries), "1 + 6 doublings and one a minute: {tries}");
    assert_eq!(rig.engine.take_notices().len(), 1);
    rig.apply(&PlanOf::synced().hold("be", Resource::CpuShares, shares(5)), seconds(601));
    assert_eq!(rig.kernel.take_refusals().len(), 1, "a new wish is tried at once");
    rig.kernel.fail("be", Resource::CpuShares, None);
    assert_eq!(rig.foreign("be", Resource::CpuShares, "7", seconds(601)), ["be cpu.shares 5"]);
    assert_eq!(rig.state("be", Resource::CpuShares).0, TargetState::Held);
}

#[test]
fn c039_a_memory_limit_below_use_is_retried_and_reported_once() {
    let mut rig = Rig::new(&["be/p1"]);
    rig.kernel.set("be/p1", |group| group.memory_used = 64 << 20);
    let plan = PlanOf::synced().hold("be/p1", Resource::MemoryLimit, bytes(32 << 20));
    rig.apply(&plan, seconds(0));
    assert!(rig.state("be/p1", Resource::MemoryLimit).1.contains("EBUSY"));
    rig.kernel.set("be/p1", |group| group.memory_used = 0);
    let writes: Vec<_> = (1..4).flat_map(|s| rig.tick(seconds(s))).collect();
    assert_eq!(writes, ["be/p1 memory.limit_in_bytes 33554432"]);
    assert_eq!(rig.engine.take_notices().len(), 1);
}

#[test]
fn c031_a_vanished_directory_is_no_failure_and_the_next_pod_is_handled() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p2"]);
    rig.kernel.rmdir("be/p1");
    let plan = PlanOf::synced().hold("be/p1", Resource::CpuShares, shares(2)).hold(
        "be/p2",
        Resource::CpuShares,
        shares(2),
    );
    assert_eq!(rig.apply(&plan, seconds(1)), ["be/p2 cpu.shares 2"]);
    assert_eq!((rig.figure("refused"), rig.figure("gone")), (0, 1));
    assert_eq!(rig.state("be/p1", Resource::CpuShares).0, TargetState::Pending);
    rig.kernel.rmdir("be/p2");
    rig.pump(seconds(2));
    assert!(rig.engine.ledger().is_empty(), "nothing is left to restore");
    assert!(rig.engine.take_notices().is_empty());
}

#[test]
fn slow_memory_writes_hold_up_nobody_and_keep_their_order_in_a_pod() {
    let kernel = Kernel::new();
    for path in ["be", "be/p1", "be/p2"] {
        kernel.mkdir(path);
    }
    let mut rig = Rig::on(kernel, Arc::new(tempfile::tempdir().unwrap()), "b", SlowWrites::Lane);
    let plan = PlanOf::synced()
        .hold("be/p1", Resource::MemoryLimit, bytes(1 << 20))
        .hold("be/p1", Resource::MemswLimit, bytes(1 << 20))
        .hold("be/p2", Resource::MemoryLimit, bytes(1 << 20))
        .hold("be", Resource::CfsQuota, quota(50_000));
    assert_eq!(rig.apply(&plan, seconds(1)), ["be cpu.cfs_quota_us 50000"]);
    let jobs = rig.engine.take_slow_jobs();
    assert_eq!(jobs.iter().map(|j| j.dir.as_str()).collect::<Vec<_>>(), ["be/p1", "be/p2"]);
    assert!(jobs.iter().all(|job| job.resource == Resource::MemoryLimit), "memory before memsw");
    rig.apply(&plan.clone().hold("be", Resource::CfsQuota, quota(60_000)), seconds(2));
    assert_eq!(rig.kernel.group("be").quota, 60_000);
    rig.tick(seconds(7));
    assert_eq!((rig.engine.overdue_jobs(), rig.figure("overdue")), (2, 2));
    for job in jobs {
        let done = Backend::write(&rig.kernel, &job.dir, job.resource, job.id, &job.text);
        rig.engine.slow_done(job.ticket, done, seconds(8));
    }
    let next = rig.engine.take_slow_jobs();
    assert_eq!(next.len(), 1);
    assert_eq!((next[0].dir.as_str(), next[0].resource), ("be/p1", Resource::MemswLimit));
    let done = Backend::write(&rig.kernel, &next[0].dir, next[0].resource, next[0].id, &next[0].text);
    rig.engine.slow_done(next[0].ticket, done, seconds(9));
    rig.pump(seconds(9));
    rig.no_refusal();
    for resource in [Resource::MemoryLimit, Resource::MemswLimit] {
        assert_eq!(rig.state("be/p1", resource).0, TargetState::Held);
    }
    assert!(rig.engine.take_slow_jobs().is_empty());
}
