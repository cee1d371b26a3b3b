//! Set `rulechange`: annotations one after another, as the rules take them (hooks.md 5, 8.2 and 9.2).

use koordlet::api::annotations::{Annotations, resource_status};
use koordlet::api::keys;
use koordlet::api::pod::Pod;
use koordlet::api::qos::{KubeQos, QosClass};
use koordlet::cgroup::place::kube_qos_of_path;
use koordlet::cpuset::CpuSet;
use koordlet::rules::cpu_normalization::CpuNormalization;
use koordlet::rules::cpuset_allocator::CpuSetAllocator;
use koordlet::rules::cpuset_allocator::choice::{CpuChoice, Subject, choose};
use koordlet::rules::cpuset_allocator::rule::CpuSetRule;
use koordlet::rules::ratio::NormalizationRatio;
use serde_json::{Value, json};

use crate::set::{self, Row, Verdict};

/// The texts of a row; `-` stands for an absent annotation.
fn annotations(row: &Row) -> Vec<Option<String>> {
    let texts: Vec<String> = serde_json::from_value(row.input["annotations"].clone()).unwrap();
    texts.into_iter().map(|text| (text != "-").then_some(text)).collect()
}

fn norm_rule(row: &Row) -> Verdict {
    let texts = annotations(row);
    let got = Value::from_iter(our_steps(&texts));
    match row.defect.as_deref() {
        None => row.compare(Ok::<_, String>(got)),
        // H24: not-a-number is refused, and no step of a hundredth is lost.
        Some(_) => row.compare_with(&Value::from_iter(due_steps(&texts)), &got),
    }
}

fn our_steps(texts: &[Option<String>]) -> Vec<Value> {
    let mut rule = CpuNormalization::default();
    let step = |text: &Option<String>| {
        let result = rule.update(text.as_deref());
        let ratio = rule.ratio().ratio().map(NormalizationRatio::get);
        state(ratio, *result.as_ref().unwrap_or(&false), result.is_err())
    };
    texts.iter().map(step).collect()
}

fn state(ratio: Option<f64>, changed: bool, error: bool) -> Value {
    json!({"changed": changed, "enabled": ratio.is_some(), "error": error, "ratio": ratio.unwrap_or(-1.0)})
}

/// What is due, worked out without the rule.
fn due_steps(texts: &[Option<String>]) -> Vec<Value> {
    let mut ratio: Option<f64> = None;
    let step = |text: &Option<String>| {
        let new = text.as_deref().map(number);
        if new == Some(None) {
            return state(ratio, false, true);
        }
        let new = new.flatten();
        let changed = match (ratio, new) {
            (Some(old), Some(new)) => ((new - old).abs() * 1000.0).round() >= 10.0,
            (old, new) => old.is_some() != new.is_some(),
        };
        if changed {
            ratio = new;
        }
        state(ratio, changed, false)
    };
    texts.iter().map(step).collect()
}

/// The number behind one of the set's texts, if it is a ratio.
fn number(text: &str) -> Option<f64> {
    let number = match text {
        "1_0.5" => Some(10.5),
        "0x1p1" => Some(2.0),
        plain => plain.parse().ok(),
    };
    number.filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// The annotations of one step, by the short names of the set.
fn topology_annotations(step: &Value) -> Annotations {
    let keys = [
        ("ls", keys::CPU_SHARED_POOLS),
        ("be", keys::BE_CPU_SHARED_POOLS),
        ("policy", keys::CPU_MANAGER_POLICY),
        ("system", keys::SYSTEM_QOS_RESOURCE),
    ];
    let text = |(name, key): (&str, &str)| {
        let text = step[name].as_str().filter(|text| *text != "-")?;
        Some((key.to_owned(), text.to_owned()))
    };
    keys.into_iter().filter_map(text).collect()
}

fn cpuset_rule(row: &Row) -> Verdict {
    let mut allocator = CpuSetAllocator::default();
    let step = |step: &Value| {
        let result = allocator.update(&topology_annotations(step));
        let list = allocator.rule().map(CpuSetRule::ls_text);
        json!({"changed": *result.as_ref().unwrap_or(&false), "error": result.is_err(), "lsHostApp": list})
    };
    let got: Value = row.input["annotations"].as_array().unwrap().iter().map(step).collect();
    match row.defect.as_deref() {
        // H26: a pool without CPUs leaves no comma behind.
        Some("H26") => row.compare_with(&without_stray_commas(row.out.as_ref().unwrap()), &got),
        _ => row.compare(Ok::<_, String>(got)),
    }
}

fn without_stray_commas(answers: &Value) -> Value {
    let mut answers = answers.clone();
    for answer in answers.as_array_mut().unwrap() {
        if let Some(list) = answer["lsHostApp"].as_str() {
            let parts: Vec<&str> = list.split(',').filter(|part| !part.is_empty()).collect();
            answer["lsHostApp"] = json!(parts.join(","));
        }
    }
    answers
}

/// Pools of NUMA nodes 0, 1, ... as the annotation has them.
fn pools(row: &Row, key: &str) -> String {
    let lists = row.input[key].as_array().unwrap().iter().enumerate();
    let pool = |(node, list): (usize, &Value)| json!({"socket": node, "node": node, "cpuset": list});
    lists.map(pool).collect::<Value>().to_string()
}

fn cpuset_be_manager(row: &Row) -> Verdict {
    let annotations = [
        (keys::CPU_SHARED_POOLS.to_owned(), pools(row, "lsPools")),
        (keys::BE_CPU_SHARED_POOLS.to_owned(), pools(row, "bePools")),
    ];
    let rule = CpuSetRule::of_annotations(&annotations.into_iter().collect()).unwrap();
    let mut pod = Pod::default();
    pod.metadata.annotations.insert(keys::RESOURCE_STATUS.to_owned(), row.text("resourceStatus").to_owned());
    let status = match resource_status(&pod) {
        Ok(status) => status.unwrap_or_default(),
        Err(error) => return row.compare(Err(error)),
    };
    let qos = QosClass::from_label(row.text("qosLabel"));
    let in_best_effort = kube_qos_of_path(row.text("containerDir")) == KubeQos::BestEffort;
    let choice = choose(Some(&rule), Subject { status: &status, qos, in_best_effort }, true);
    let got = match &choice {
        CpuChoice::NoValue => Value::Null,
        CpuChoice::Clear => json!(""),
        CpuChoice::Cpus(cpus, _) => json!(cpus.to_string()),
    };
    let recorded = row.out.as_ref().map_or(&Value::Null, |out| &out["cpuset"]);
    // H26: BE pods never get the LS pools, wherever they lie; all pools of the set are distinct.
    let due = match row.defect.as_deref() {
        Some("H26") if is_within(recorded, &row.input["lsPools"]) => json!(""),
        _ => as_set(recorded),
    };
    row.compare_with(&due, &as_set(&got))
}

/// Whether a list is one of whole pools.
fn is_within(list: &Value, pools: &Value) -> bool {
    let pools: Vec<&str> = pools.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    list.as_str() == Some(pools.join(",").as_str())
}

/// The order of pools in a text means nothing.
fn as_set(list: &Value) -> Value {
    let cpus = list.as_str().and_then(|text| text.parse::<CpuSet>().ok());
    cpus.map_or_else(|| list.clone(), |cpus| json!(cpus.to_string()))
}

#[test]
fn vector_rulechange() {
    set::check(
        "rulechange",
        &[
            ("norm_rule", 24, norm_rule),
            ("cpuset_rule", 26, cpuset_rule),
            ("cpuset_be_manager", 15, cpuset_be_manager),
        ],
    );
}
