//! No value flaps: whatever the pods, the policy, the load and the kernel, unchanged inputs write nothing once they have
//! settled, also after a re-check and after a restart, and all is as it was when everything is withdrawn. The deciders
//! and the executor's engine, as the agent runs them, on an emulated kernel.
//!
//! A new plugin is in by being in [`PluginKind::ALL`], a new strategy by a line in [`strategies`].

mod kept;
mod scene;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use scene::Scene;

use super::*;
use crate::agent::strategies::Strategies;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::plan::Decision;
use crate::claims::target::CgroupTarget;
use crate::executor::diff::Files;
use crate::executor::engine::emulated::{Group, Kernel};
use crate::executor::engine::{Engine, EngineParts, SlowWrites};
use crate::executor::ledger::Ledger;
use crate::executor::watch::Watch;
use crate::rules::PluginKind;
use crate::state::series::settings::SeriesSettings;
use crate::strategies::cpu_burst::{BurstSettings, CpuBurst};
use crate::strategies::strategy::Strategy as QosStrategy;

const SECOND: u64 = 1_000_000_000;
/// Steps in which everything has settled: a quota grows by a tenth of the node a step.
const STEPS: u64 = 30;

/// All strategies besides CPU suppression, starting on `kernel`.
fn strategies(kernel: &Kernel) -> Vec<Box<dyn QosStrategy>> {
    let (interval, collect_interval) = (Nanos(SECOND), Nanos(SECOND));
    let present = kernel.groups().into_iter().map(|(dir, group)| (dir, group.quota)).collect();
    vec![Box::new(CpuBurst::new(BurstSettings { interval, collect_interval, seed: 7 }, present))]
}

/// An agent on an emulated kernel.
struct Agent {
    decider: Decider,
    engine: Engine,
    kernel: Kernel,
    now: Nanos,
    /// Nothing was collected: figures that change are no unchanged inputs.
    series: SharedSeries,
    /// The last plan.
    plan: Arc<Plan>,
}

impl Agent {
    fn start(scene: &Scene, kernel: &Kernel, run_dir: &tempfile::TempDir, is_on: bool, now: Nanos) -> Self {
        for place in Watch::places(&kernel.watch()) {
            kernel.watch().remove(&place);
        }
        kernel.take_events();
        let (ledger, _) = Ledger::open(run_dir.path()).unwrap();
        let engine = Engine::new(EngineParts {
            files: Files::new(kernel.layout(), None),
            backend: Arc::new(kernel.clone()),
            watch: Box::new(kernel.watch()),
            ledger,
            boot: "boot".into(),
            dry_run: false,
            slow_writes: SlowWrites::Inline,
            stats: Arc::default(),
        });
        let plugins = if is_on { PluginKind::ALL } else { &[] };
        let rules = RuleSettings {
            plugins: plugins.iter().copied().collect(),
            mainline_equivalents: scene.mainline_equivalents && is_on,
            ..RuleSettings::default()
        };
        let settings = SuppressSettings {
            enabled: is_on,
            be_cpu_manager: false,
            interval: Nanos(SECOND),
            collect_interval: Nanos(SECOND),
        };
        let be = kernel.group(scene::BE_DIR);
        let suppress = SuppressState::new(Some(crate::units::CfsQuota::from_raw(be.quota)), Some(be.cpus));
        let semantics = kernel.layout().semantics();
        let be_dir = CgroupDir::new(scene::BE_DIR).unwrap();
        let strategies = Strategies::of(if is_on { strategies(kernel) } else { Vec::new() });
        let decider = Decider::new(&rules, strategies, settings, suppress, be_dir, semantics);
        Self {
            decider,
            engine,
            kernel: kernel.clone(),
            now,
            series: SharedSeries::new(SeriesSettings::default()),
            plan: Arc::default(),
        }
    }

    /// A second of the agent's life. Returns what was written.
    fn second(&mut self, scene: &Scene) -> Vec<String> {
        self.now = self.now + Nanos(SECOND);
        let snapshot = scene.snapshot(self.now);
        self.decider.tick(&snapshot, &self.series, self.now);
        self.decider.suppress(&snapshot, self.now);
        if let Some(plan) = self.decider.plan(&snapshot) {
            self.plan = Arc::clone(&plan);
            self.engine.apply(plan, self.now);
        }
        self.pump();
        self.engine.tick(self.now);
        self.pump();
        self.kernel.take_writes()
    }

    /// Lets the engine hear of its own writes.
    fn pump(&mut self) {
        for _ in 0..100 {
            let events = self.kernel.take_events();
            if events.is_empty() {
                return;
            }
            for event in events {
                self.engine.file_event(&event, self.now);
            }
        }
        panic!("the engine answers its own writes for ever: {:?}", self.kernel.take_writes());
    }

    fn settle(&mut self, scene: &Scene) -> Vec<String> {
        (0..STEPS).flat_map(|_| self.second(scene)).collect()
    }

    /// Everything that is written in a minute and a bit, in which the re-check sees everything.
    fn minute(&mut self, scene: &Scene) -> Vec<String> {
        (0..70).flat_map(|_| self.second(scene)).collect()
    }
}

/// What differs of two states of the kernel, CPU lists that `plan` gives back to their baseline aside.
fn differences(before: &BTreeMap<CgroupDir, Group>, kernel: &Kernel, plan: &Plan) -> Vec<String> {
    let given_back = |dir: &CgroupDir| {
        let desired = plan.entries.get(&CgroupTarget::new(dir, Resource::Cpus));
        match desired.map(|desired| &desired.decision) {
            Some(Decision::Release(Value::Cpus(cpus))) => Some(cpus.clone()),
            _ => None,
        }
    };
    let differs = |(dir, now): (&CgroupDir, &Group)| {
        let was = &before[dir];
        let mut expected = was.clone();
        if given_back(dir).as_ref() == Some(&now.cpus) {
            expected.cpus.clone_from(&now.cpus);
        }
        (*now != expected).then(|| format!("{dir}: {now:?}, was {was:?}"))
    };
    kernel.groups().iter().filter_map(differs).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn unchanged_inputs_write_nothing_and_what_is_withdrawn_comes_back(scene in scene::some()) {
        let kernel = scene.kernel();
        let before = kernel.groups();
        let run_dir = tempfile::tempdir().unwrap();

        let mut agent = Agent::start(&scene, &kernel, &run_dir, true, Nanos(SECOND));
        agent.settle(&scene);
        prop_assert_eq!(kernel.take_refusals(), Vec::<String>::new());
        prop_assert_eq!(agent.minute(&scene), Vec::<String>::new(), "unchanged inputs");

        let now = agent.now;
        drop(agent);
        let mut agent = Agent::start(&scene, &kernel, &run_dir, true, now);
        prop_assert_eq!(agent.minute(&scene), Vec::<String>::new(), "after a restart");

        let now = agent.now;
        drop(agent);
        let mut agent = Agent::start(&scene, &kernel, &run_dir, false, now);
        let off = scene.without_policy();
        agent.settle(&off);
        prop_assert_eq!(kernel.take_refusals(), Vec::<String>::new(), "while everything is given back");
        prop_assert_eq!(differences(&before, &kernel, &agent.plan), Vec::<String>::new());
        prop_assert_eq!(agent.minute(&off), Vec::<String>::new(), "nothing is held");
    }
}

/// The property above would hold of an agent that does nothing.
#[test]
fn most_scenes_write_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut writing = 0;
    for _ in 0..20 {
        let scene = scene::some().new_tree(&mut runner).unwrap().current();
        let (kernel, run_dir) = (scene.kernel(), tempfile::tempdir().unwrap());
        let mut agent = Agent::start(&scene, &kernel, &run_dir, true, Nanos(SECOND));
        writing += u32::from(!agent.settle(&scene).is_empty());
    }
    assert!(writing >= 10, "{writing} of 20");
}
