//! Set `cpulist`: CPU lists parsed, printed, compared and merged (collection.md 3.7).

use koordlet::cpuset::{CpuSet, CpuSetError};
use serde_json::json;

use crate::set::{self, Check, Row, Verdict};

fn parse(row: &Row) -> Verdict {
    let parsed: Result<CpuSet, CpuSetError> = row.text("text").parse();
    row.compare(parsed.map(|set| json!({"canonical": set.to_string(), "count": set.len()})))
}

fn equal(row: &Row) -> Verdict {
    let sets: Result<(CpuSet, CpuSet), CpuSetError> =
        row.text("a").parse().and_then(|a| Ok((a, row.text("b").parse()?)));
    row.compare(sets.map(|(a, b)| json!({"equal": a == b})))
}

fn merge(row: &Row) -> Verdict {
    let list = |key: &str| -> CpuSet {
        serde_json::from_value::<Vec<u32>>(row.input[key].clone()).unwrap().into_iter().collect()
    };
    let merged = list("a").union(&list("b"));
    let cpus: Vec<u32> = merged.iter().collect();
    row.compare(Ok::<_, CpuSetError>(json!({"merged": cpus, "text": merged.to_string()})))
}

/// The check of each function, and its rows in the set.
pub(crate) const CHECKS: &[(&str, usize, Check)] =
    &[("cpulist_equal", 3, equal), ("cpulist_merge", 16, merge), ("cpulist_parse", 34, parse)];

#[test]
fn vector_cpulist() {
    set::check("cpulist", CHECKS);
}
