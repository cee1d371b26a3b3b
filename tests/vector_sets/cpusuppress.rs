//! `cpusuppress.jsonl`: the parts of CPU suppression.

use koordlet::state::topology::CpuInfo;
use serde_json::Value;

/// The CPUs of a row: `[[cpu, core, socket, NUMA node], ...]`.
pub(crate) fn cpu_infos(rows: &Value) -> Vec<CpuInfo> {
    let number = |row: &Value, index: usize| {
        row.get(index).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
    };
    let info = |row: &Value| CpuInfo {
        cpu: number(row, 0),
        core: number(row, 1),
        socket: number(row, 2),
        node: number(row, 3),
    };
    rows.as_array().map(|rows| rows.iter().map(info).collect()).unwrap_or_default()
}
