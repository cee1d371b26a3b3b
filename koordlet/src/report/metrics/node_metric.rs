//! Series of the last NodeMetric report: what was reported of the node, and what was predicted for it (collection.md
//! 9.3, 11.3).

use super::exposition::{Exposition, Series};
use super::families::Family;
use crate::api::keys::{CPU, MEMORY};
use crate::api::node_metric::{NodeMetricInfo, ResourceMap};
use crate::api::qos::PriorityClass;
use crate::state::cpu_memory::CpuMemory;
use crate::state::node_metric::build::Report;
use crate::state::predict::prod::{PredictError, Predicted, ProdPrediction};

/// Series of `report`; those of use only if `usage` (gate `NodeMetricPromMetrics`).
pub(super) fn show(page: &mut Exposition<'_>, report: &Report, usage: bool) {
    if let Some(node) = report.status.node_metric.as_ref().filter(|_| usage) {
        used(page, node);
    }
    predicted(page, &report.prediction);
    let priority = PriorityClass::Prod.label();
    let reclaimable = &report.prediction.reported.reclaimable;
    page.family(Family::NodePriorityResourceReclaimable, |series| {
        amount(series, &[priority], reclaimable.clone().unwrap_or_default());
    });
    page.family(Family::NodeResourcePriorityReclaimableStatus, |series| {
        series.count(&[priority], u64::from(reclaimable.is_err()));
    });
}

fn used(page: &mut Exposition<'_>, node: &NodeMetricInfo) {
    page.family(Family::NodeMetricNodeUsage, |series| map(series, &[], &node.node_usage));
    page.family(Family::NodeMetricSystemUsage, |series| map(series, &[], &node.system_usage));
    page.family(Family::NodeMetricNumaNodeUsage, |series| {
        for numa in &node.numa_usages {
            map(series, &[&numa.numa_node_id.to_string()], &numa.node_usage);
        }
    });
    page.family(Family::NodeMetricNumaSystemUsage, |series| {
        for numa in &node.numa_usages {
            map(series, &[&numa.numa_node_id.to_string()], &numa.system_usage);
        }
    });
}

fn predicted(page: &mut Exposition<'_>, prediction: &ProdPrediction) {
    let ProdPrediction { by_pod, by_priority, reported, notice: _ } = prediction;
    let predictors = [
        ("podReclaimablePredictor", by_pod),
        ("priorityReclaimablePredictor", by_priority),
        ("minPredictor", reported),
    ];
    let mut family = |family, of: fn(&Predicted) -> &Result<CpuMemory, PredictError>| {
        page.family(family, |series| {
            for (name, predicted) in predictors {
                if let Ok(figure) = of(predicted) {
                    amount(series, &[name], *figure);
                }
            }
        });
    };
    family(Family::NodePredictedResourceReclaimable, |predicted| &predicted.reclaimable);
    family(Family::NodePredictedResourcePeak, |predicted| &predicted.peak);
}

/// As it was reported; nothing if nothing was.
fn map(series: &mut Series<'_, '_>, labels: &[&str], map: &ResourceMap) {
    if !map.resources.is_empty() {
        amount(series, labels, CpuMemory::of_list(&map.resources));
    }
}

/// CPU in cores and memory in bytes.
fn amount(series: &mut Series<'_, '_>, labels: &[&str], amount: CpuMemory) {
    let label = |resource, unit| [labels, &[resource, unit]].concat();
    series.value(&label(CPU, "core"), amount.cpu.0 as f64 / 1000.0);
    series.count(&label(MEMORY, "byte"), amount.memory.0);
}

#[cfg(test)]
mod tests {
    use super::super::exposition::{Format, Scope};
    use super::*;
    use crate::api::node_metric::{NodeMetricStatus, NumaUsageInfo};
    use crate::units::{Bytes, MilliCpu};

    fn resources(milli: i64, bytes: u64) -> CpuMemory {
        CpuMemory { cpu: MilliCpu(milli), memory: Bytes(bytes) }
    }

    fn report(reclaimable: Result<CpuMemory, PredictError>) -> Report {
        let of = |milli| ResourceMap {
            resources: resources(milli, 8_912_896_000).to_list(),
            ..ResourceMap::default()
        };
        let numa = NumaUsageInfo { numa_node_id: 1, node_usage: of(1), ..NumaUsageInfo::default() };
        let node =
            NodeMetricInfo { node_usage: of(3357), numa_usages: vec![numa], ..NodeMetricInfo::default() };
        let predicted = Predicted { reclaimable, peak: Ok(resources(1758, 7)) };
        let missing = Predicted { peak: Err(PredictError::NoAllocatable), ..predicted.clone() };
        Report {
            status: NodeMetricStatus { node_metric: Some(node), ..NodeMetricStatus::default() },
            prediction: ProdPrediction {
                by_pod: predicted.clone(),
                by_priority: missing,
                reported: predicted,
                notice: None,
            },
        }
    }

    fn lines(report: &Report, usage: bool) -> Vec<String> {
        let mut page = Exposition::new(Format::Classic, Scope::All, "n", 0);
        show(&mut page, report, usage);
        page.finish().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn the_last_report_is_shown_in_cores_and_bytes() {
        let lines = lines(&report(Ok(resources(655, 9))), true);
        for line in [
            // Row 52 of collection.md 17.
            r#"koordlet_node_metric_node_usage{node="n",resource="cpu",unit="core"} 3.357"#,
            r#"koordlet_node_metric_node_usage{node="n",resource="memory",unit="byte"} 8912896000"#,
            r#"koordlet_node_metric_numa_node_usage{node="n",numa_node_id="1",resource="cpu",unit="core"} 0.001"#,
            r#"koordlet_node_predicted_resource_peak{node="n",predictor="minPredictor",resource="cpu",unit="core"} 1.758"#,
            r#"koordlet_node_priority_resource_reclaimable{node="n",priority="koord-prod",resource="cpu",unit="core"} 0.655"#,
            r#"koordlet_node_resource_priority_reclaimable_status{node="n",priority="koord-prod"} 0"#,
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line}\n{lines:#?}");
        }
        let shows = |what: &str| lines.iter().any(|line| line.contains(what));
        assert!(!shows("system_usage"), "nothing reported, nothing shown");
        assert!(!lines.iter().any(|line| line.contains("_peak") && line.contains("priorityReclaimable")));
    }

    #[test]
    fn what_could_not_be_predicted_is_zero_with_a_status() {
        let lines = lines(&report(Err(PredictError::NoAllocatable)), false);
        let of = |name: &str| lines.iter().filter(|line| line.contains(name)).cloned().collect::<Vec<_>>();
        assert!(of("priority_resource_reclaimable{").iter().all(|line| line.ends_with(" 0")));
        assert_eq!(of("reclaimable_status").len(), 1);
        assert!(of("reclaimable_status")[0].ends_with(" 1"));
        assert!(of("node_metric_").is_empty() && of("node_predicted_resource_reclaimable").is_empty());
    }
}
