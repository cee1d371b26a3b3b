//! Rows of the table of collection.md 17 that are about texts and names, checked as the recorded sets are. Those about
//! rounds, figures and series are tests beside that code.

use koordlet::api::pod::Pod;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::set::{Check, Row, Verdict};
use crate::{cgroupread, conversions, cpulist, parsers, paths, valuecheck};

/// A row under its number in the table.
#[derive(Debug, Deserialize)]
struct SpecRow {
    /// The set whose checks take it.
    set: String,
    #[serde(flatten)]
    row: Row,
}

fn checks(set: &str) -> &'static [(&'static str, usize, Check)] {
    match set {
        "cgroupread" => cgroupread::CHECKS,
        "conversions" => conversions::CHECKS,
        "cpulist" => cpulist::CHECKS,
        "parsers" => parsers::CHECKS,
        "paths" => paths::CHECKS,
        "valuecheck" => valuecheck::CHECKS,
        other => panic!("no set {other}"),
    }
}

#[test]
fn rows_about_texts_and_names() {
    let mut wrong = Vec::new();
    for line in include_str!("collection_rows.jsonl").lines() {
        let SpecRow { set, row } =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (.., check) = checks(&set).iter().find(|(name, ..)| *name == row.fn_name).unwrap();
        match check(&row) {
            Verdict::Right => {}
            Verdict::Wrong(what) => wrong.push(format!("{line}\n    {what}")),
            Verdict::NotApplicable(reason) => {
                println!("row {} {}: not applicable: {reason}", row.id, row.fn_name);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_48_and_49_classes() {
    for (label, class, priority, kube, qos, priority_class) in [
        (None, None, None, "Guaranteed", "LSR", "prod"),
        (None, None, Some(0), "BestEffort", "BE", "batch"),
        (None, None, Some(8000), "Burstable", "LS", "prod"),
        (Some("LSE"), None, Some(9999), "Guaranteed", "LSE", "prod"),
        (None, None, Some(2_000_001_000), "Burstable", "LS", "prod"),
        (Some("SYSTEM"), None, None, "BestEffort", "SYSTEM", "prod"),
        (Some("BE"), None, Some(2_000_001_000), "Burstable", "BE", "batch"),
        (Some("ls"), None, Some(5000), "BestEffort", "BE", "batch"),
        (Some("LS"), Some("koord-mid"), Some(9500), "Burstable", "LS", "mid"),
        (Some("LS"), Some("foo"), Some(5500), "Burstable", "LS", "prod"),
        (Some("BE"), Some(""), Some(9500), "Burstable", "BE", "batch"),
        (None, Some("koord-free"), None, "Guaranteed", "LSR", "free"),
        (Some("LSR"), None, Some(10_000), "Guaranteed", "LSR", "prod"),
        (Some("BE"), None, Some(7999), "Burstable", "BE", "mid"),
    ] {
        let labels = [("koordinator.sh/qosClass", label), ("koordinator.sh/priority-class", class)];
        let labels: Map<_, _> =
            labels.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text?)))).collect();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"labels": labels},
            "spec": {"priority": priority},
            "status": {"qosClass": kube},
        }))
        .unwrap();
        let got = json!([pod.effective_qos(), pod.priority_class()]);
        assert_eq!(
            got,
            json!([qos, format!("koord-{priority_class}")]),
            "{label:?} {class:?} {priority:?} {kube}"
        );
    }
}
