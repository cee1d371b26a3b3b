//! Whether the CPUs that pods share have room for bursts (qos.md 5.4).

use serde::{Deserialize, Serialize};

use crate::units::{MilliCpu, Percent};

/// Share of the threshold at which quotas are not raised any more, though not lowered yet.
const COOLING: f64 = 0.9;

/// How busy the shared CPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// There is room.
    Idle,
    /// Little: what is raised stays, nothing more is raised.
    Cooling,
    /// None: quotas go down.
    Overload,
    /// The node's use or its CPUs are not known: nothing is raised.
    Unknown,
}

/// What the verdict is made from. Use is the mean over the window of qos.md 5.4, in cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharePool {
    /// Online CPUs; `None` while they are not known.
    pub cpus: Option<usize>,
    /// CPU requests of LSE and LSR pods, whose CPUs are not shared.
    pub requests_apart: MilliCpu,
    /// Use of the node; `None` without a sample.
    pub node_use: Option<f64>,
    /// Use of LSE, LSR and BE pods, as far as it is known.
    pub use_apart: f64,
    /// Share of the pool from which on it is overloaded.
    pub threshold: Percent,
}

impl SharePool {
    /// The verdict of qos.md 5.4.
    pub fn state(&self) -> NodeState {
        let (Some(cpus), Some(node_use)) = (self.cpus, self.node_use) else { return NodeState::Unknown };
        let total = cpus as f64 - self.requests_apart.0 as f64 / 1000.0;
        let ratio = if total > 0.0 { (node_use - self.use_apart) / total } else { 1.0 };
        let threshold = self.threshold.0 as f64 / 100.0;
        if ratio >= threshold {
            NodeState::Overload
        } else if ratio >= COOLING * threshold {
            NodeState::Cooling
        } else {
            NodeState::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(cpus: usize, requests: i64, node_use: f64, apart: f64) -> SharePool {
        SharePool {
            cpus: Some(cpus),
            requests_apart: MilliCpu(requests),
            node_use: Some(node_use),
            use_apart: apart,
            threshold: Percent(50),
        }
    }

    /// W10 and row H6 of the specification.
    #[test]
    fn verdicts_are_those_of_the_worked_examples() {
        let w10 = [14.0, 16.5, 18.0].map(|node_use| pool(32, 8000, node_use, 5.0).state());
        assert_eq!(w10, [NodeState::Idle, NodeState::Cooling, NodeState::Overload]);
        let h6 = [(3.0, 8), (5.0, 8), (3.75, 8), (10.8, 24), (12.0, 24)];
        assert_eq!(
            h6.map(|(node_use, cpus)| pool(cpus, 0, node_use, 0.0).state()),
            [
                NodeState::Idle,
                NodeState::Overload,
                NodeState::Cooling,
                NodeState::Cooling,
                NodeState::Overload
            ]
        );
    }

    #[test]
    fn without_shared_cpus_the_pool_is_full_and_without_figures_unknown() {
        assert_eq!(pool(8, 8000, 0.0, 0.0).state(), NodeState::Overload);
        assert_eq!(SharePool { cpus: None, ..pool(8, 0, 1.0, 0.0) }.state(), NodeState::Unknown);
        assert_eq!(SharePool { node_use: None, ..pool(8, 0, 1.0, 0.0) }.state(), NodeState::Unknown);
    }
}
