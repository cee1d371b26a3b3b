//! What reporters are made of, for their tests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::api::pod::Pod;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::config::resolve::{Environment, resolve};
use crate::host::clock::monotonic;
use crate::host::machines::Machine;
use crate::host::numa::NodeNumaInfo;
use crate::host::topology::NodeCpuInfo;
use crate::report::metrics::{Gated, Metrics};
use crate::state::facts::Facts;
use crate::state::hub::{Writers, hub};
use crate::state::pods::PodTable;
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::settings::SeriesSettings;
use crate::state::series::shared::SharedSeries;
use crate::state::usage::{NanoCpu, Usage};
use crate::units::Nanos;

/// A machine of two sockets, and the ends of what its agent knows.
pub(super) struct Rig {
    pub(super) config: Config,
    pub(super) around: Surroundings,
    pub(super) writers: Writers,
    pub(super) stats: Arc<ReportStats>,
    _root: TempDir,
}

impl Rig {
    pub(super) fn new(args: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("cpu")).unwrap();
        let environment = Environment { node_name: Some("n1".into()), ..Environment::default() };
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut config = resolve(&args, &environment).unwrap().config;
        config.roots = Machine::named("two-sockets-smt").roots();
        config.roots.var_lib_kubelet = root.path().to_owned();
        let (writers, readers) = hub();
        let facts = Facts::default();
        let around = Surroundings {
            layout: Arc::new(Layout::of_folder(root.path()).unwrap()),
            naming: Naming::new(CgroupDriver::Cgroupfs, "").unwrap(),
            roots: config.roots.clone(),
            metrics: Arc::new(Metrics::new("n1", &readers, &facts, Gated::default())),
            readers,
            facts,
            series: SharedSeries::new(SeriesSettings::default()),
        };
        Self { config, around, writers, stats: Arc::default(), _root: root }
    }

    /// What collectors and sources would have brought: CPUs, NUMA nodes, the Node, one pod, use.
    pub(super) fn fill(&self) {
        let Surroundings { facts, roots, naming, series, .. } = &self.around;
        facts.cpus.set(NodeCpuInfo::read(roots).unwrap());
        facts.numa.set(NodeNumaInfo::read(roots).unwrap());
        self.node(&json!({}));
        let pod = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u1"},
                         "spec": {"containers": [{"name": "c"}]}, "status": {"qosClass": "Burstable"}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.writers.pods.set(Arc::new(PodTable::build([pod], naming, &PodTable::default()).0));
        self.writers.usage.set(Arc::new(Usage { node_cpu: Some(NanoCpu(1)), ..Usage::default() }));
        let (uid, now): (Arc<str>, _) = ("u1".into(), monotonic());
        for second in (0..20_u64).rev() {
            let at = now - Nanos(u64::try_from(Duration::from_secs(second).as_nanos()).unwrap());
            let samples = [
                (SeriesKey::node(Metric::NodeCpuUsage), 2.0),
                (SeriesKey::node(Metric::NodeMemoryUsage), 1e9),
                (SeriesKey::pod(Metric::PodCpuUsage, &uid), 0.5),
                (SeriesKey::pod(Metric::PodMemoryUsage, &uid), 1e8),
            ];
            assert_eq!(series.append(at, samples), 0);
        }
    }

    /// The Node with these annotations.
    pub(super) fn node(&self, annotations: &Value) {
        let node = json!({"metadata": {"name": "n1", "uid": "u-node", "annotations": annotations},
                          "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}});
        self.writers.node.set(Some(Arc::new(serde_json::from_value(node).unwrap())));
    }

    /// Whether the page of metrics has this line.
    pub(super) fn shows(&self, line: &str) -> bool {
        use crate::report::metrics::{Format, Scope};
        self.around.metrics.page(Format::Classic, Scope::All).lines().any(|shown| shown == line)
    }
}
