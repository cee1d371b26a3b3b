//! Publishes what CPUs and NUMA nodes the machine has (collection.md 2.1, 2.2): the values that the reference keeps
//! as `node_cpu_info` and `node_numa_info`. The agent's loop reads CPUs more often, for who may use which.

use std::sync::Arc;

use crate::host::numa::NodeNumaInfo;
use crate::host::roots::Roots;
use crate::host::topology::NodeCpuInfo;
use crate::node::round_log::RoundResult;
use crate::node::rounds::Collect;
use crate::report::metrics::{Metrics, NodeFacts};
use crate::state::facts::{Facts, Published};
use crate::units::Nanos;

/// Reads sysfs at the pace of `--collect-node-cpu-info-interval`.
pub(super) struct NodeInfo {
    roots: Roots,
    cpus: Published<NodeCpuInfo>,
    numa: Published<NodeNumaInfo>,
    metrics: Arc<Metrics>,
}

impl NodeInfo {
    /// For the machine below `roots`.
    pub(super) fn new(roots: Roots, facts: &Facts, metrics: Arc<Metrics>) -> Self {
        Self { roots, cpus: facts.cpus.clone(), numa: facts.numa.clone(), metrics }
    }
}

impl Collect for NodeInfo {
    fn name(&self) -> &'static str {
        "node-info"
    }

    /// CPUs and NUMA nodes do not wait for each other: what can be read is published, what cannot stays.
    fn round(&mut self, _now: Nanos) -> RoundResult {
        let cpus = NodeCpuInfo::read(&self.roots);
        self.metrics.node_facts_read(NodeFacts::Cpu, &cpus);
        let numa = NodeNumaInfo::read(&self.roots);
        self.metrics.node_facts_read(NodeFacts::Numa, &numa);
        let cpus = cpus.map(|cpus| self.cpus.update(cpus));
        let numa = numa.map(|numa| self.numa.update(numa));
        cpus?;
        numa?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::host::machines::Machine;
    use crate::report::metrics::{Format, Gated, Scope};
    use crate::state::hub::hub;

    struct Rig {
        info: NodeInfo,
        facts: Facts,
        metrics: Arc<Metrics>,
    }

    fn rig(sys: &Path) -> Rig {
        let roots = Roots { sys: sys.to_owned(), ..Machine::named("two-sockets-smt").roots() };
        let facts = Facts::default();
        let metrics = Arc::new(Metrics::new("n", &hub().1, &facts, Gated::default()));
        Rig { info: NodeInfo::new(roots, &facts, Arc::clone(&metrics)), facts, metrics }
    }

    fn counted(rig: &Rig, what: &str, status: &str) -> bool {
        let text = rig.metrics.page(Format::Classic, Scope::Internal);
        let start = format!("koordlet_collect_node_{what}_info_status");
        text.lines().any(|line| {
            line.starts_with(&start) && line.contains(&format!("status=\"{status}\"")) && line.ends_with(" 1")
        })
    }

    #[test]
    fn one_round_publishes_and_counts_both() {
        let mut rig = rig(&Machine::named("two-sockets-smt").roots().sys);
        rig.info.round(Nanos(0)).unwrap();
        assert_eq!(rig.facts.cpus.get().unwrap().total_info.number_cpus, 8);
        let numa = rig.facts.numa.get().unwrap();
        assert_eq!(numa.numa_infos.len(), 2);
        assert!(counted(&rig, "cpu", "succeeded") && counted(&rig, "numa", "succeeded"));
        rig.info.round(Nanos(1)).unwrap();
        assert!(Arc::ptr_eq(&numa, &rig.facts.numa.get().unwrap()), "nothing has changed");
    }

    #[test]
    fn numa_nodes_that_cannot_be_told_apart_do_not_hide_the_cpus() {
        let root = tempfile::tempdir().unwrap();
        let cpus = Machine::named("two-sockets-smt").roots().sys.join("devices");
        std::os::unix::fs::symlink(cpus, root.path().join("devices")).unwrap();
        let node = root.path().join("bus/node/devices/node1");
        fs::create_dir_all(&node).unwrap();
        std::os::unix::fs::symlink("/proc/meminfo", node.join("meminfo")).unwrap();
        let mut rig = rig(root.path());
        let error = rig.info.round(Nanos(0)).unwrap_err();
        assert!(error.to_string().contains("without gaps"), "{error}");
        assert!(rig.facts.cpus.get().is_some() && rig.facts.numa.get().is_none());
        assert!(counted(&rig, "cpu", "succeeded") && counted(&rig, "numa", "failed"));
    }
}
