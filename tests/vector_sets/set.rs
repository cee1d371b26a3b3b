//! Reads the recorded vectors and checks every row of a set.
//!
//! A set is a file of lines `{"fn", "id", "in", "out" | "panic", "defect"?}`. A module hands `check` one
//! function per `fn`; a row without a function, a mismatch, or a count that is not the recorded one fails.
//! Rows are read from `$KOORDLET_VECTORS` if set, else from `tests/vectors`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use koordlet::cgroup::layout::Layout;
use serde::Deserialize;
use serde_json::Value;

/// One recorded call of the reference agent.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    /// The routine.
    #[serde(rename = "fn")]
    pub(crate) fn_name: String,
    /// Line id, unique in the set.
    pub(crate) id: u64,
    /// Inputs by name; a missing key is "not set".
    #[serde(rename = "in")]
    pub(crate) input: Value,
    /// The recorded answer; `None` in a `panic` row. `Some(Null)` is a recorded "nothing".
    #[serde(default, deserialize_with = "present")]
    pub(crate) out: Option<Value>,
    /// The row of the specification's defect list that the recorded answer shows.
    pub(crate) defect: Option<String>,
    /// Whether the reference crashed on this input: ours has to give an error or do the safe thing.
    #[serde(default, deserialize_with = "is_present")]
    pub(crate) panic: bool,
}

/// Keeps `null` apart from a missing key.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn is_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Value::deserialize(deserializer).map(|value| !value.is_null())
}

impl Row {
    /// Whether the recorded answer is an error.
    pub(crate) fn is_error(&self) -> bool {
        self.out.as_ref().and_then(|out| out.get("error")) == Some(&Value::Bool(true))
    }

    /// Text input `key`; missing counts as empty.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.input.get(key).and_then(Value::as_str).unwrap_or("")
    }

    /// Integer input `key`, also where it is recorded as text.
    pub(crate) fn int(&self, key: &str) -> Option<i64> {
        let value = self.input.get(key)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Compares with the recorded answer: `Ok` values as JSON (numbers within 1e-9 of each other are
    /// equal), any `Err` with a recorded error or crash.
    pub(crate) fn compare<E: std::fmt::Display>(&self, got: Result<Value, E>) -> Verdict {
        match got {
            Err(_) if self.panic || self.is_error() => Verdict::Right,
            Err(error) => Verdict::Wrong(format!("gives the error {error}")),
            Ok(value) if self.panic => Verdict::Wrong(format!("gives {value} where an error is due")),
            Ok(value) if self.out.as_ref().is_some_and(|out| equal(out, &value)) => Verdict::Right,
            Ok(value) => Verdict::Wrong(format!("gives {value}")),
        }
    }

    /// Compares with `want`, our answer to a row whose recorded one is a defect.
    pub(crate) fn compare_with(&self, want: &Value, got: &Value) -> Verdict {
        if equal(want, got) {
            Verdict::Right
        } else {
            Verdict::Wrong(format!("gives {got}, should give {want} ({:?})", self.defect))
        }
    }
}

/// JSON equality with numbers compared as numbers.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x == y => true,
        (Value::Number(x), Value::Number(y)) => match (x.as_f64(), y.as_f64()) {
            (Some(x), Some(y)) => (x - y).abs() <= 1e-9,
            _ => false,
        },
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

/// What a check says about a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Our answer is the right one.
    Right,
    /// It is not; what it is instead.
    Wrong(String),
    /// The row cannot apply to us, for a reason that the set's table gives.
    NotApplicable(&'static str),
}

/// The folder with the sets, and whether it is the one of the repository.
pub(crate) fn folder() -> (PathBuf, bool) {
    match std::env::var_os("KOORDLET_VECTORS") {
        Some(folder) => (folder.into(), false),
        None => (PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors"), true),
    }
}

/// The text of a file in the folder.
pub(crate) fn file(name: &str) -> String {
    let path = folder().0.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All rows of a set.
pub(crate) fn rows(set: &str) -> Vec<Row> {
    let text = file(&format!("{set}.jsonl"));
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{set}.jsonl:{}: {error}", number + 1))
        })
        .collect()
}

/// Checks one row.
pub(crate) type Check = fn(&Row) -> Verdict;

/// Checks every row of `set`: `checks` holds a function for each `fn`, with the number of its rows in the
/// repository's file (other folders may hold other rows, but none of an unknown `fn`).
pub(crate) fn check(set: &str, checks: &[(&str, usize, Check)]) {
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<&str, (usize, usize)> =
        checks.iter().map(|(name, ..)| (*name, (0, 0))).collect();
    for row in rows(set) {
        let Some((name, _, check)) = checks.iter().find(|(name, ..)| *name == row.fn_name) else {
            wrong.push(format!("{} {}: no check for this function", row.id, row.fn_name));
            continue;
        };
        let count = counts.entry(name).or_default();
        match check(&row) {
            Verdict::Right => count.0 += 1,
            Verdict::NotApplicable(reason) => {
                count.1 += 1;
                println!("{set} {} {name}: not applicable: {reason}", row.id);
            }
            Verdict::Wrong(what) => wrong.push(format!(
                "{} {name}: {what}\n    in {}\n    out {}",
                row.id,
                row.input,
                row.out.as_ref().map_or_else(|| "(crash)".into(), Value::to_string),
            )),
        }
    }
    assert!(wrong.is_empty(), "{set}: {} rows are wrong\n  {}", wrong.len(), wrong.join("\n  "));
    for (name, expected, _) in checks {
        let (right, not_applicable) = counts.get(name).copied().unwrap_or_default();
        println!("{set} {name}: {right} right, {not_applicable} not applicable");
        if folder().1 {
            assert_eq!(right + not_applicable, *expected, "{set} {name}: rows checked");
        }
    }
}

/// The layout of a `v1` or `v2` host.
pub(crate) fn layout(cgroup: &str) -> Layout {
    static V1: LazyLock<Layout> =
        LazyLock::new(|| fixture(&["cpu", "cpuacct", "cpuset", "memory", "blkio", "net_cls", "perf_event"]));
    static V2: LazyLock<Layout> = LazyLock::new(|| fixture(&["cgroup.controllers"]));
    match cgroup {
        "v1" => V1.clone(),
        "v2" => V2.clone(),
        other => panic!("{other:?} is no cgroup version"),
    }
}

/// The layout of a folder with these entries; only the paths are of use afterwards.
fn fixture(entries: &[&str]) -> Layout {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for entry in entries {
        std::fs::create_dir(folder.path().join(entry)).expect("a folder in it");
    }
    Layout::of_folder(folder.path()).expect("a layout")
}
