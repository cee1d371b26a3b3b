//! Set `options`: defaults of flags and gates, parsing of gates, metric families (collection.md 12 and 14,
//! hooks.md 2, qos.md 3 and 8.3).

use std::path::{Path, PathBuf};

use koordlet::config::flags::default_text;
use koordlet::config::gates::{Gate, Gates, Stage};
use koordlet::host::roots::Roots;
use koordlet::report::metrics::Format;
use serde_json::{Value, json};

use crate::metrics_export;
use crate::metrics_scene::{self, Shown};
use crate::set::{self, Row, Verdict};

/// Defaults by mode stand in the roots, not in the flag.
fn root_default(flag: &str) -> Option<PathBuf> {
    let roots = Roots::daemon_set();
    Some(match flag {
        "cgroup-root-dir" => roots.cgroup,
        "proc-root-dir" => roots.proc,
        "sys-root-dir" => roots.sys,
        "sys-fs-root-dir" => roots.sys_fs,
        "var-run-root-dir" => roots.var_run,
        "run-root-dir" => roots.run,
        "var-lib-kubelet-dir" => roots.var_lib_kubelet,
        _ => return None,
    })
}

fn flag_default(row: &Row) -> Verdict {
    let flag = row.text("flag");
    if let Some(root) = root_default(flag) {
        let recorded = row.out.as_ref().and_then(|out| out["default"].as_str()).unwrap_or_default();
        let same = root == Path::new(recorded);
        return if same { Verdict::Right } else { Verdict::Wrong(format!("gives {}", root.display())) };
    }
    let default = default_text(flag).ok_or_else(|| format!("no flag {flag}"));
    row.compare(default.map(|default| json!({ "default": default })))
}

fn gate_named(name: &str) -> Result<Gate, String> {
    Gate::ALL.iter().find(|gate| gate.name() == name).copied().ok_or_else(|| format!("no gate {name}"))
}

fn gate_default(row: &Row) -> Verdict {
    let shown = gate_named(row.text("gate")).map(|gate| {
        let stage = match gate.stage() {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
        };
        // No gate is locked here.
        json!({"default": Gates::default().is_on(gate), "locked": false, "stage": stage})
    });
    row.compare(shown)
}

fn gates_parse(row: &Row) -> Verdict {
    let shown = Gates::parse([row.text("text")]).map_err(|errors| format!("{errors:?}")).and_then(|gates| {
        let recorded = row.out.as_ref().and_then(Value::as_object).into_iter().flatten();
        let names = recorded.map(|(name, _)| name.as_str()).filter(|name| *name != "error");
        let pairs = names.map(|name| Ok((name.to_owned(), gates.is_on(gate_named(name)?).into())));
        pairs.collect::<Result<serde_json::Map<_, _>, String>>().map(Value::Object)
    });
    row.compare(shown)
}

fn metric_family(row: &Row) -> Verdict {
    let name = row.text("name");
    if let Some(reason) = metrics_export::not_built(name) {
        return Verdict::NotApplicable(reason);
    }
    let shown = metrics_scene::families(Format::Classic).remove(name);
    row.compare(
        shown
            .map(|Shown { kind, labels, page }| json!({"labels": labels, "registry": page, "type": kind}))
            .ok_or_else(|| format!("no family {name}")),
    )
}

#[test]
fn vector_options() {
    set::check(
        "options",
        &[
            ("flag_default", 49, flag_default),
            ("gate_default", 22, gate_default),
            ("gates_parse", 10, gates_parse),
            ("metric_family", 19, metric_family),
        ],
    );
}
