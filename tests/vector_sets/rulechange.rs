//! Set `rulechange`: annotations one after another, as the rules take them (hooks.md 5 and 9.2).

use koordlet::rules::cpu_normalization::CpuNormalization;
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

fn no_cpuset_rule(_: &Row) -> Verdict {
    Verdict::NotApplicable("the CPUSetAllocator rule is not built yet")
}

fn no_be_manager(_: &Row) -> Verdict {
    Verdict::NotApplicable("the CPUSetAllocator plugin, whose BECPUManager gate this shows, is not built yet")
}

#[test]
fn vector_rulechange() {
    set::check(
        "rulechange",
        &[
            ("norm_rule", 24, norm_rule),
            ("cpuset_rule", 26, no_cpuset_rule),
            ("cpuset_be_manager", 15, no_be_manager),
        ],
    );
}
