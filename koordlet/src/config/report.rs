//! Flags of what is reported to the API server, and what they resolve to (collection.md 9.2, 10.2, 14).

use std::time::Duration;

use clap::Args;

use super::gates::{Gate, Gates};
use super::mistakes::Mistakes;
use crate::api::duration::parse_duration;

/// Least time between two looks at the topology.
const LEAST: Duration = Duration::from_secs(1);

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct ReportFlags {
    /// Report use in this node's NodeMetric
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true")]
    pub enable_node_metric_report: String,
    /// Time between two looks whether the NodeResourceTopology is up to date; 0 or less: it is not published
    #[arg(long, value_name = "DURATION", default_value = "3s", allow_hyphen_values = true)]
    pub node_topology_sync_interval: String,
}

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportSettings {
    /// Whether use is reported, once there is a NodeMetric.
    pub node_metric: bool,
    /// Time between two looks at the topology; `None`: it is not published.
    pub topology: Option<Duration>,
}

/// Resolves the flags, and the gate NodeTopologyReport.
pub(super) fn resolve(
    flags: &ReportFlags,
    gates: &Gates,
    mistakes: &mut Mistakes,
    notices: &mut Vec<String>,
) -> Option<ReportSettings> {
    const TOPOLOGY: &str = "node-topology-sync-interval";
    let node_metric = mistakes.boolean("enable-node-metric-report", &flags.enable_node_metric_report);
    let text = &flags.node_topology_sync_interval;
    let below = text.strip_prefix('-');
    let interval = mistakes.take(TOPOLOGY, parse_duration(below.unwrap_or(text)))?;
    let topology = Some(interval).filter(|interval| below.is_none() && !interval.is_zero());
    if topology.is_some_and(|interval| interval < LEAST) {
        notices.push(format!("--{TOPOLOGY}={text} is below the least value: {LEAST:?} is used"));
    }
    let topology = topology.filter(|_| gates.is_on(Gate::NodeTopologyReport));
    Some(ReportSettings { node_metric: node_metric?, topology: topology.map(|interval| interval.max(LEAST)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve::{Environment, resolve};

    fn resolved(args: &[&str]) -> Option<(ReportSettings, usize)> {
        let environment = Environment { node_name: Some("n1".into()), ..Environment::default() };
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let config = resolve(&args, &environment).ok()?.config;
        Some((config.report, config.notices.len()))
    }

    #[test]
    fn intervals_gates_and_mistakes() {
        let (default, notices) = resolved(&[]).unwrap();
        let three = Some(Duration::from_secs(3));
        assert_eq!(default, ReportSettings { node_metric: true, topology: three });
        let (none, _) =
            resolved(&["-enable-node-metric-report=false", "-node-topology-sync-interval=0"]).unwrap();
        assert_eq!(none, ReportSettings { node_metric: false, topology: None });
        for off in ["-node-topology-sync-interval=-3s", "-feature-gates=NodeTopologyReport=false"] {
            assert_eq!(resolved(&[off]).unwrap().0.topology, None, "{off}");
        }
        let (small, more) = resolved(&["-node-topology-sync-interval=10ms"]).unwrap();
        assert_eq!((small.topology, more), (Some(LEAST), notices + 1));
        assert!(resolved(&["-node-topology-sync-interval=x"]).is_none());
        assert!(resolved(&["-enable-node-metric-report=perhaps"]).is_none());
    }
}
