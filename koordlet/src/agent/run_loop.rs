//! The one loop between sources and executor. Each turn takes one thing that happened, updates the snapshots,
//! and hands the executor a plan if there is a new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::decider::Decider;
use super::joined::Joined;
use super::pace::{GATHER, Pace};
use super::rule_settings::rule_settings;
use super::sources::{News, SourceReader};
use super::strategies::Strategies;
use super::upkeep::{self, Refusals};
use super::world::World;
use crate::api::qos::KubeQos;
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::config::Config;
use crate::config::gates::Gate;
use crate::cpuset::CpuSet;
use crate::ebpf::events::CgroupEvent;
use crate::executor::Executor;
use crate::host::clock::monotonic;
use crate::node::collect::Collector;
use crate::node::follower::Follower;
use crate::node::history::History;
use crate::report::metrics::{Metrics, Part, Update};
use crate::state::groups::HostAppDir;
use crate::state::hub::Readers;
use crate::state::series::shared::SharedSeries;
use crate::state::topology::KubeletCpuPolicy;
use crate::state::usage::CpuTime;
use crate::strategies::cpu_suppress::SuppressSettings;
use crate::strategies::cpu_suppress::state::SuppressState;
use crate::units::{CfsQuota, Nanos};

/// Births and deaths that one turn takes.
const BURST: usize = 1024;

/// What the loop is told by the kernel.
pub(super) struct Senses {
    /// Births and deaths of cgroups.
    pub(super) events: mpsc::Receiver<CgroupEvent>,
    /// Takes samples of use.
    pub(super) collector: Collector,
    /// CPU time of each cgroup.
    pub(super) cpu_time: Box<dyn CpuTime>,
    /// Whether a sample is cheap enough for looks between full steps.
    pub(super) can_look: bool,
}

/// Where the loop's results go.
pub(super) struct Effects {
    /// Makes plans true.
    pub(super) executor: Arc<Executor>,
    /// Counts.
    pub(super) metrics: Arc<Metrics>,
    /// All series, to drop those of what is gone.
    pub(super) series: SharedSeries,
    /// Writes each sample into them.
    pub(super) history: History,
    /// Reads files after each sample; `None` if the system gave it no thread.
    pub(super) follower: Option<Follower>,
}

/// The loop's state.
pub(super) struct RunLoop {
    world: World,
    sources: SourceReader,
    joined: Joined,
    /// Whether nothing in `joined` changes by the passing of time.
    is_final: bool,
    readers: Readers,
    decider: Decider,
    senses: Senses,
    effects: Effects,
    host_apps: Vec<HostAppDir>,
    pace: Pace,
    suppress_on: bool,
    refusals: Refusals,
    /// When the plan is made anew because directories came or went.
    replan_at: Option<Instant>,
}

impl RunLoop {
    /// Everything in place; nothing happens before `run`.
    pub(super) fn new(
        config: &Config,
        layout: &Arc<Layout>,
        world: World,
        sources: SourceReader,
        readers: Readers,
        senses: Senses,
        effects: Effects,
    ) -> Self {
        let be_dir = world.naming().qos_dir(KubeQos::BestEffort).clone();
        let rules = rule_settings(config);
        let step = config.cpu_suppress_interval.unwrap_or_default();
        let settings = SuppressSettings {
            enabled: config.gates.is_on(Gate::BeCpuSuppress),
            be_cpu_manager: config.gates.is_on(Gate::BeCpuManager),
            interval: nanos(step),
            collect_interval: nanos(config.collect.usage),
        };
        let suppress = present_limits(&world);
        Self {
            decider: Decider::new(
                &rules,
                Strategies::new(config, || present_quotas(&world)),
                settings,
                suppress,
                be_dir,
                layout.semantics(),
            ),
            world,
            joined: Joined::new(sources.present(), monotonic()),
            is_final: false,
            sources,
            readers,
            senses,
            effects,
            host_apps: Vec::new(),
            pace: Pace::new(config.collect.usage, step, config.reconcile_interval.unwrap_or_default()),
            suppress_on: settings.enabled && !step.is_zero(),
            refusals: Refusals::default(),
            replan_at: None,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(&mut self) {
        self.world.publish_tree();
        loop {
            let looking = self.suppress_on && self.decider.is_suppressing() && self.senses.can_look;
            tokio::select! {
                // In this order, so that a step sees the sample of the same moment, and no burst of births holds
                // up a timer.
                biased;
                _ = self.pace.look.tick(), if looking => self.look(),
                _ = self.pace.sample.tick() => self.sample(),
                _ = self.pace.step.tick(), if self.suppress_on => self.step(),
                _ = self.pace.strategies.tick(), if self.decider.has_strategies() => self.strategies(),
                _ = self.pace.host.tick() => self.host(),
                news = self.sources.next() => self.take(news),
                () = at(self.replan_at) => self.replan(),
                // A closed channel leaves the other branches.
                Some(event) = self.senses.events.recv() => self.cgroup_events(event),
            }
        }
    }

    /// Takes what a source says. Of what was joined into one update the newest counts.
    fn take(&mut self, news: News) {
        match news {
            News::Manifests(update) => {
                self.joined.take_manifests(update.objects.clone());
                self.effects.metrics.updated(Update::AllPods);
                self.take_objects();
            }
            News::Server(update) => {
                if self.joined.take_server(update) {
                    self.sources.node_is(self.joined.server_node());
                    self.take_objects();
                }
            }
            News::Pods(list) => {
                self.effects.metrics.updated(Update::AllPods);
                // One without news may still be the first.
                if list.is_changed || !self.readers.pods.borrow().synced {
                    self.joined.take_pods(Arc::clone(&list.pods));
                    self.take_objects();
                } else {
                    self.replan();
                }
            }
            News::KubeletPolicy(policy) => {
                self.world.set_kubelet_policy(policy);
                self.replan();
            }
        }
    }

    /// Takes new objects. A changed policy is followed at once; a switched-off suppression only has to see that
    /// it is, so that what it left behind is given back.
    fn take_objects(&mut self) {
        let policy = Arc::clone(&self.readers.slo.borrow());
        let now = monotonic();
        self.world.set_objects(&self.joined, now);
        self.is_final = self.joined.is_final(now);
        self.sources.tell(&self.world.writers().troubles);
        self.host_apps = self.world.host_apps();
        if self.decider.awaits_strategies() {
            // What they hold goes on from what the kernel has, so it must not be taken away by a plan before.
            self.tick();
        }
        if !self.suppress_on || !Arc::ptr_eq(&policy, &self.readers.slo.borrow()) {
            self.step();
        } else {
            self.replan();
        }
    }

    /// What nobody tells, looked at now and then. Time alone can make what sources said final.
    fn host(&mut self) {
        self.world.refresh_host();
        self.sources.tell(&self.world.writers().troubles);
        self.world.remind(monotonic());
        self.tidy_series();
        if self.is_final {
            self.replan();
        } else {
            self.take_objects();
        }
    }

    /// Hands all events that wait to the executor, whose plan knows the directories of known pods already, and
    /// makes a new plan soon.
    fn cgroup_events(&mut self, first: CgroupEvent) {
        let mut changed = false;
        let mut event = Some(first);
        for _ in 0..BURST {
            let Some(happened) = event.take().or_else(|| try_next(&mut self.senses.events)) else { break };
            self.effects.metrics.cgroup_event(&happened);
            changed |= self.world.cgroup_event(&happened);
            self.sources.cgroup_event(&happened);
            self.effects.executor.cgroup_event(happened);
        }
        if changed {
            self.replan_at.get_or_insert_with(|| Instant::now() + GATHER);
        }
    }

    fn sample(&mut self) {
        let begin = Instant::now();
        let pods = self.readers.pods.borrow().clone();
        let Senses { collector, cpu_time, .. } = &mut self.senses;
        let usage = collector.tick(&mut **cpu_time, &pods, &self.host_apps, monotonic());
        let trouble = collector.trouble().map(str::to_owned);
        self.world.writers().troubles.set("usage", trouble);
        let usage = Arc::new(usage);
        self.effects.history.usage(&usage);
        if let Some(follower) = &self.effects.follower {
            follower.offer(&usage);
        }
        self.world.writers().usage.set(usage);
        self.effects.metrics.ran(Part::Sample, begin.elapsed());
    }

    fn tidy_series(&mut self) {
        let (series, now) = (&self.effects.series, monotonic());
        let host_apps = self.host_apps.iter().map(|app| &*app.name);
        upkeep::tidy(series, &self.readers.pods.borrow(), host_apps, now);
        self.refusals.tell(series, now);
    }

    fn step(&mut self) {
        let begin = Instant::now();
        self.decider.suppress(&self.readers.snapshot(), monotonic());
        self.effects.metrics.ran(Part::Step, begin.elapsed());
        self.replan();
    }

    fn strategies(&mut self) {
        self.tick();
        self.replan();
    }

    fn tick(&mut self) {
        let begin = Instant::now();
        self.decider.tick(&self.readers.snapshot(), &self.effects.series, monotonic());
        if let Some(scaled) = self.decider.scaled() {
            self.effects.metrics.scaled(scaled);
        }
        self.effects.metrics.ran(Part::Strategies, begin.elapsed());
    }

    fn look(&mut self) {
        let begin = Instant::now();
        let snapshot = self.readers.snapshot();
        let now = monotonic();
        let Senses { collector, cpu_time, .. } = &mut self.senses;
        let recent = collector.recent_cpu(&mut **cpu_time, &snapshot.pods, &self.host_apps, now);
        let lowers = self.decider.look(&snapshot, &recent, now);
        self.effects.metrics.ran(Part::Look, begin.elapsed());
        if lowers {
            self.replan();
        }
    }

    fn replan(&mut self) {
        let begin = Instant::now();
        self.replan_at = None;
        self.world.publish_tree();
        if let Some(figures) = self.decider.take_figures() {
            let policy = figures.policy.unwrap_or("none");
            self.effects.metrics.suppressed(policy, figures.limit, figures.ls_used);
        }
        if let Some(plan) = self.decider.plan(&self.readers.snapshot()) {
            self.effects.executor.apply(plan);
        }
        self.effects.metrics.ran(Part::Plan, begin.elapsed());
    }
}

/// What the kernel limits best-effort pods to at start: the step goes on from there.
fn present_limits(world: &World) -> SuppressState {
    let be_dir = world.naming().qos_dir(KubeQos::BestEffort);
    let quota = match world.kernel_value(be_dir, Resource::CfsQuota) {
        Some(Value::Quota(quota)) => Some(quota),
        _ => None,
    };
    let cpus = |dir: &CgroupDir| match world.kernel_value(dir, Resource::Cpus) {
        Some(Value::Cpus(cpus)) if !cpus.is_empty() => Some(cpus),
        _ => None,
    };
    // Under the kubelet's static policy only the containers are limited.
    let topology = world.writers().topology.get();
    let containers = topology.is_some_and(|topology| topology.kubelet_policy == KubeletCpuPolicy::Static);
    let smallest = containers.then(|| world.containers(be_dir).filter_map(cpus).min_by_key(CpuSet::len));
    let cpus = smallest.unwrap_or_else(|| cpus(be_dir));
    SuppressState::new(quota, cpus)
}

/// Finite quotas of containers that the kernel holds at start.
fn present_quotas(world: &World) -> BTreeMap<CgroupDir, i64> {
    let pods = world.naming().qos_dir(KubeQos::Guaranteed);
    let quota = |dir: &CgroupDir| match world.kernel_value(dir, Resource::CfsQuota) {
        Some(Value::Quota(CfsQuota::Micros(quota))) => Some((dir.clone(), quota)),
        _ => None,
    };
    world.containers(pods).filter_map(quota).collect()
}

fn try_next(events: &mut mpsc::Receiver<CgroupEvent>) -> Option<CgroupEvent> {
    events.try_recv().ok()
}

/// Done at `when`; never without one.
async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
