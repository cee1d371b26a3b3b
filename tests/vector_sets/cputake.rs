//! `cputake.jsonl`: which CPUs are reserved when only their number is given.

use koordlet::state::reserve::reserve_cpus;
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};
use crate::suppress_node::cpu_infos;

#[test]
fn vector_cputake() {
    check("cputake", &[("reserve_cpus", 55, reserve)]);
}

fn reserve(row: &Row) -> Verdict {
    let cpus = cpu_infos(row.input.get("cpus").unwrap_or(&Value::Null));
    let count = row.int("count").and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    row.compare(reserve_cpus(count, &cpus).map(|set| json!({ "cpuset": set.to_string() })))
}
