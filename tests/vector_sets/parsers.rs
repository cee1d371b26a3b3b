//! Set `parsers`: CPUs, memory, NUMA nodes and ticks from the kernel's text (collection.md 2, 6.2).

pub(crate) mod lscpu_tree;

use std::collections::BTreeMap;

use koordlet::cgroup::idle_pages::parse_idle_pages;
use koordlet::host::meminfo::Meminfo;
use koordlet::host::numa::{HugePages, NodeNumaInfo};
use koordlet::host::roots::Roots;
use koordlet::host::topology::{NodeCpuInfo, ProcessorInfo};
use koordlet::node::procfs;
use serde_json::{Map, Value, json};

use crate::set::{self, Check, Row, Verdict};

/// A machine whose sysfs is a temporary directory.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn put(&self, file: &str, text: &str) {
        lscpu_tree::put(&self.dir.path().join(file), text);
    }

    fn roots(&self) -> Roots {
        let root = self.dir.path().to_path_buf();
        Roots { sys: root.clone(), sys_fs: root.join("fs"), proc: root.join("proc"), ..Roots::host() }
    }
}

/// Rows that lscpu cannot print from any sysfs are not applicable. In the others, CPUs that are offline but
/// have a core cannot be expressed either: there the answer is the recorded one without them, its cores and
/// sockets numbered without gaps in the order of their first CPU, as lscpu does.
fn lscpu(row: &Row) -> Verdict {
    let lines = match lscpu_tree::parse(row.text("text")) {
        Ok(lines) => lines,
        Err(reason) => return Verdict::NotApplicable(reason),
    };
    let machine = Machine::new();
    lscpu_tree::build(machine.dir.path(), &lines);
    let got = NodeCpuInfo::read(&machine.roots()).map(|info| cpu_answer(&info.processor_infos));
    let recorded = row.out.as_ref().and_then(|out| out.get("processors"));
    match recorded.map(|processors| (processors, from_sysfs(processors))) {
        Some((processors, expressible)) if *processors != json!(expressible) => match got {
            Ok(got) => row.compare_with(&cpu_answer(&expressible), &got),
            Err(_) if expressible.is_empty() => Verdict::Right,
            Err(error) => Verdict::Wrong(error.to_string()),
        },
        _ => row.compare(got),
    }
}

/// Recorded processors as sysfs can show them.
fn from_sysfs(processors: &Value) -> Vec<ProcessorInfo> {
    let number = |value: &Value, key: &str| u32::try_from(value[key].as_u64().unwrap()).unwrap();
    let mut all: Vec<ProcessorInfo> = processors
        .as_array()
        .unwrap()
        .iter()
        .filter(|processor| processor["online"] == "yes")
        .map(|processor| ProcessorInfo {
            cpu: number(processor, "cpu"),
            core: number(processor, "core"),
            socket: number(processor, "socket"),
            node: number(processor, "node"),
            l1dl1il2: processor["l1dl1il2"].as_str().unwrap().to_owned(),
            l3: i32::try_from(processor["l3"].as_i64().unwrap()).unwrap(),
            online: "yes".to_owned(),
        })
        .collect();
    all.sort_by_key(|info| info.cpu);
    let (mut cores, mut sockets) = (Vec::new(), Vec::new());
    for info in &mut all {
        info.core = place(&mut cores, info.core);
        info.socket = place(&mut sockets, info.socket);
    }
    all.sort_by_key(|info| (info.node, info.socket, info.core, info.cpu));
    all
}

fn place(known: &mut Vec<u32>, id: u32) -> u32 {
    let index = known.iter().position(|other| *other == id).unwrap_or_else(|| {
        known.push(id);
        known.len() - 1
    });
    u32::try_from(index).unwrap()
}

fn cpu_answer(infos: &[ProcessorInfo]) -> Value {
    let by = |id: &dyn Fn(&ProcessorInfo) -> String| {
        let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for info in infos {
            groups.entry(id(info)).or_default().push(info.cpu);
        }
        groups
    };
    json!({
        "processors": infos,
        "numberCPUs": infos.len(),
        "coreToCPU": by(&|info| info.core.to_string()),
        "nodeToCPU": by(&|info| info.node.to_string()),
        "socketToCPU": by(&|info| info.socket.to_string()),
        "l3ToCPU": by(&|info| info.l3.to_string()),
    })
}

/// Recorded names of fields beside the kernel's.
const MEMINFO_FIELDS: [(&str, &str); 7] = [
    ("ActiveFile", "Active(file)"),
    ("HugePages_Total", "HugePages_Total"),
    ("InactiveFile", "Inactive(file)"),
    ("MemAvailable", "MemAvailable"),
    ("MemFree", "MemFree"),
    ("MemTotal", "MemTotal"),
    ("SReclaimable", "SReclaimable"),
];

fn fields(info: &Meminfo, names: &[&str]) -> Map<String, Value> {
    let chosen = MEMINFO_FIELDS.iter().filter(|(name, _)| names.contains(name));
    chosen.map(|(name, kernel)| ((*name).to_owned(), json!(info.get(kernel).unwrap_or(0)))).collect()
}

fn meminfo(row: &Row) -> Verdict {
    let info = Meminfo::parse(row.text("text"));
    let mut got = fields(&info, &MEMINFO_FIELDS.map(|(name, _)| name));
    got.insert("usage".to_owned(), json!(info.used().to_string()));
    got.insert("usageWithPageCache".to_owned(), json!(info.used_with_page_cache().to_string()));
    if row.panic {
        // C31: a line without a value crashes the reference; here it is as if the line were not there.
        let text = row.text("text");
        let kept = text.lines().filter(|line| !line.trim_end().ends_with(':')).collect::<Vec<_>>().join("\n");
        let same = info == Meminfo::parse(&kept) && kept != text.trim_end();
        return if same { Verdict::Right } else { Verdict::Wrong(format!("gives {got:?}")) };
    }
    row.compare(Ok::<_, String>(Value::Object(got)))
}

fn numa_meminfo(row: &Row) -> Verdict {
    let info = Meminfo::parse_numa(row.text("text"));
    let names = ["ActiveFile", "InactiveFile", "MemFree", "MemTotal", "SReclaimable"];
    let mut got = fields(&info, &names);
    got.insert("usage".to_owned(), json!(info.numa_used().to_string()));
    row.compare(Ok::<_, String>(Value::Object(got)))
}

fn numa_scan(row: &Row) -> Verdict {
    let machine = Machine::new();
    for entry in row.input["entries"].as_array().unwrap() {
        machine
            .put(&format!("bus/node/devices/{}/meminfo", entry.as_str().unwrap()), "Node 0 MemTotal: 5 kB");
    }
    machine.put("devices/system/node/has_generic_initiator", row.text("hasGenericInitiator"));
    let nodes = NodeNumaInfo::read(&machine.roots()).map(|info| {
        let nodes: Vec<u32> = info.numa_infos.iter().map(|numa| numa.node).collect();
        json!({ "nodes": nodes })
    });
    row.compare(nodes)
}

fn hugepages(row: &Row) -> Verdict {
    let machine = Machine::new();
    machine.put("bus/node/devices/node0/meminfo", "Node 0 MemTotal: 5 kB");
    for (entry, count) in row.input["entries"].as_object().unwrap() {
        let file = format!("bus/node/devices/node0/hugepages/{entry}/nr_hugepages");
        machine.put(&file, count.as_str().unwrap());
    }
    let answer = |pages: &HugePages| -> Value {
        let sizes = pages.iter().map(|(size, page)| {
            (size.to_string(), json!({"bytes": page.bytes().0, "numPages": page.num_pages}))
        });
        Value::Object(sizes.collect())
    };
    row.compare(NodeNumaInfo::read(&machine.roots()).map(|info| answer(&info.huge_pages_map[&0])))
}

fn proc_stat_total(row: &Row) -> Verdict {
    row.compare(procfs::total_ticks(row.text("text")).map(|ticks| json!({ "ticks": ticks })))
}

fn proc_stat_percpu(row: &Row) -> Verdict {
    let by_text = |ticks: BTreeMap<u32, u64>| -> BTreeMap<String, u64> {
        ticks.into_iter().map(|(cpu, ticks)| (cpu.to_string(), ticks)).collect()
    };
    row.compare(procfs::per_cpu_ticks(row.text("text")).map(|ticks| json!({ "ticks": by_text(ticks) })))
}

fn cold_pages(row: &Row) -> Verdict {
    row.compare(parse_idle_pages(row.text("text")).map(|pages| json!({ "coldBytes": pages.cold.0 })))
}

fn storage_inventory(_: &Row) -> Verdict {
    Verdict::NotApplicable("output of commands that the agent does not run")
}

/// The check of each function, and its rows in the set.
pub(crate) const CHECKS: &[(&str, usize, Check)] = &[
    ("cold_pages", 2, cold_pages),
    ("hugepages", 2, hugepages),
    ("lscpu", 17, lscpu),
    ("meminfo", 8, meminfo),
    ("numa_meminfo", 4, numa_meminfo),
    ("numa_scan", 5, numa_scan),
    ("proc_stat_percpu", 8, proc_stat_percpu),
    ("proc_stat_total", 10, proc_stat_total),
    ("storage_inventory", 7, storage_inventory),
];

#[test]
fn vector_parsers() {
    set::check("parsers", CHECKS);
}
