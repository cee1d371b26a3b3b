//! Set `prediction`: percentiles of fading histograms, and what is predicted for prod pods (collection.md 11).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use koordlet::api::node::Node;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::state::cpu_memory::CpuMemory;
use koordlet::state::pods::PodEntry;
use koordlet::state::predict::model::{Model, ModelKey};
use koordlet::state::predict::prod::{PredictError, Predicted, predict};
use koordlet::state::predict::settings::{ModelSettings, ProdSettings};
use koordlet::units::{Bytes, MilliCpu, Percent};
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};

#[test]
fn vector_prediction() {
    check("prediction", &[("histogram_percentiles", 24, percentiles), ("prod_prediction", 31, prod)]);
}

const QUANTILES: [(&str, f64); 5] = [("p60", 0.6), ("p90", 0.9), ("p95", 0.95), ("p98", 0.98), ("max", 1.0)];

fn percentiles(row: &Row) -> Verdict {
    let start: Timestamp = row.text("start").parse().unwrap();
    let mut model = Model::new(&ModelSettings::default(), start);
    for sample in row.input["samples"].as_array().unwrap() {
        let at = start + SignedDuration::from_secs(sample[0].as_i64().unwrap());
        let value = sample[1].as_f64().unwrap();
        model.add(value, value, at);
    }
    let figure = |q| match row.text("kind") {
        "cpu" => CpuMemory::of_floats(model.cpu.percentile(q), 0.0).cpu.0.into(),
        _ => Value::from(CpuMemory::of_floats(0.0, model.memory.percentile(q)).memory.0),
    };
    let figures: serde_json::Map<_, _> =
        QUANTILES.map(|(name, q)| (name.to_owned(), figure(q))).into_iter().collect();
    row.compare(Ok::<_, String>(figures.into()))
}

/// Rows of C21 have the answer of the same node without the pods that have ended.
fn prod(row: &Row) -> Verdict {
    let pods = row.input["pods"].as_array().unwrap();
    let got = shown(&predicted(row, pods));
    if row.defect.is_none() {
        return row.compare(Ok::<_, String>(got));
    }
    let lasting = |pod: &&Value| !matches!(pod["phase"].as_str(), Some("Succeeded" | "Failed"));
    let others: Vec<Value> = pods.iter().filter(lasting).cloned().collect();
    assert!(others.len() < pods.len(), "{}: no pod has ended", row.id);
    row.compare_with(&shown(&predicted(row, &others)), &got)
}

fn predicted(row: &Row, pods: &[Value]) -> Predicted {
    let now: Timestamp = "2024-06-01T00:00:00Z".parse().unwrap();
    let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
    let entries: Vec<Arc<PodEntry>> = pods.iter().map(|pod| entry(pod, now, &naming)).collect();
    let settings = ProdSettings {
        cold_start: std::time::Duration::from_hours(row.int("coldStartHours").unwrap().unsigned_abs()),
        margin: Percent(row.int("safetyMarginPercent").unwrap()),
    };
    let peak = |key: &ModelKey| amount(row.input["models"].get(key.to_string())?);
    predict(&entries, Some(&node(row)), &settings, now, peak).reported
}

fn amount(pair: &Value) -> Option<CpuMemory> {
    Some(CpuMemory { cpu: MilliCpu(pair[0].as_i64()?), memory: Bytes(pair[1].as_u64()?) })
}

fn shown(predicted: &Predicted) -> Value {
    let show = |amount: &Result<CpuMemory, PredictError>| match amount {
        Ok(amount) => json!({"cpu_m": amount.cpu, "memory": amount.memory}),
        Err(_) => Value::Null,
    };
    json!({"reclaimable": show(&predicted.reclaimable), "peak": show(&predicted.peak)})
}

fn resources(amounts: &Value) -> Value {
    json!({"cpu": format!("{}m", amounts["cpu_m"]), "memory": amounts["memory"]})
}

fn node(row: &Row) -> Node {
    let allocatable = row.input.get("allocatable").filter(|amounts| !amounts.is_null()).map(resources);
    serde_json::from_value(json!({
        "metadata": {"annotations": {"node.koordinator.sh/raw-allocatable": row.text("rawAllocatable")}},
        "status": {"allocatable": allocatable},
    }))
    .unwrap()
}

fn entry(pod: &Value, now: Timestamp, naming: &Naming) -> Arc<PodEntry> {
    let made = now - SignedDuration::from_hours(pod["ageHours"].as_i64().unwrap());
    let deleted = (pod["deleting"] == true).then(|| now.to_string());
    let pod = json!({
        "metadata": {
            "namespace": "n", "name": pod["uid"], "uid": pod["uid"], "creationTimestamp": made.to_string(),
            "deletionTimestamp": deleted, "labels": {"koordinator.sh/qosClass": pod["qosLabel"]},
        },
        "spec": {
            "priority": pod.get("priority"),
            "containers": [{"name": "c", "resources": {"requests": resources(&pod["request"])}}],
        },
        "status": {"phase": pod["phase"], "qosClass": pod["kubeQOS"]},
    });
    Arc::new(PodEntry::new(serde_json::from_value::<koordlet::api::pod::Pod>(pod).unwrap(), naming).unwrap())
}
