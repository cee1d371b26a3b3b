//! Recorded vectors of the reference agent, set by set.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test binary: a panic is a failed test, and its print is the count of rows"
)]

mod aggregates;
mod bvt;
mod cgroupread;
mod classes;
mod collection_rows;
mod collectors;
mod conversions;
mod cookies;
mod coresched;
mod cpuburst;
mod cpulist;
mod cpusuppress;
mod cputake;
mod executor;
mod gpu_env;
mod hookreconcile;
mod inject;
mod metrics_export;
mod metrics_scene;
mod netqos;
mod nodemetric;
mod nodeslo;
mod nrt;
mod options;
mod parsers;
mod paths;
mod podresources;
mod prediction;
mod resctrl;
mod rulechange;
mod sandbox;
mod set;
mod suppress_node;
mod suppresstick;
mod valuecheck;

/// Sets with a module of that name here.
const COVERED: [&str; 29] = [
    "aggregates",
    "bvt",
    "cgroupread",
    "classes",
    "collectors",
    "conversions",
    "cookies",
    "coresched",
    "cpuburst",
    "cpulist",
    "cpusuppress",
    "cputake",
    "executor",
    "hookreconcile",
    "inject",
    "netqos",
    "nodemetric",
    "nodeslo",
    "nrt",
    "options",
    "parsers",
    "paths",
    "podresources",
    "prediction",
    "resctrl",
    "rulechange",
    "sandbox",
    "suppresstick",
    "valuecheck",
];

/// Sets that no test reads yet, with the reason. A set moves up when its part of the agent is built.
const NOT_COVERED: [(&str, &str); 8] = [
    ("blkio", "no block I/O strategy yet"),
    ("cpuevict", "no CPU eviction strategy yet"),
    ("hookserver", "no hook server yet"),
    ("memoryevict", "no memory eviction strategy yet"),
    ("memoryqos", "no memory QoS strategy yet"),
    ("nri", "no NRI plugin yet"),
    ("proxymerge", "no runtime proxy yet"),
    ("sysconfig", "no system config strategy yet"),
];

fn reason_not_covered(set: &str) -> Option<&'static str> {
    NOT_COVERED.iter().find(|(name, _)| *name == set).map(|(_, reason)| *reason)
}

#[test]
fn vector_sets_are_all_covered_or_listed_with_a_reason() {
    let (folder, _) = set::folder();
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<String> = entries
        .filter_map(|entry| entry.unwrap().file_name().to_str().map(str::to_owned))
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    found.sort();
    assert!(COVERED.iter().all(|set| found.iter().any(|name| name == set)), "a covered set is missing");
    for set in &found {
        let rows = set::rows(set).len();
        match (COVERED.contains(&set.as_str()), reason_not_covered(set)) {
            (true, None) => println!("{set}: {rows} rows, covered"),
            (false, Some(reason)) => println!("NOT COVERED {set}: {rows} rows: {reason}"),
            (true, Some(_)) => panic!("{set} is covered and listed as not covered"),
            (false, None) => panic!("{set} has no test and no reason: {rows} rows"),
        }
    }
}
