//! `koordlet inspect node`: what this machine is, as the agent reads it. Needs roots only: no agent, no API
//! server, no `NODE_NAME`.

use std::fmt::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use crate::config::settings::Output;
use crate::host::numa::NodeNumaInfo;
use crate::host::roots::Roots;
use crate::host::topology::NodeCpuInfo;

/// The values of collection.md 2.1 and 2.2 under their keys.
#[derive(Clone, Debug, Serialize)]
pub struct NodeFacts {
    /// CPUs.
    pub node_cpu_info: NodeCpuInfo,
    /// NUMA nodes; none on a host without NUMA directories.
    pub node_numa_info: NodeNumaInfo,
}

impl NodeFacts {
    /// Reads them below `roots`.
    pub fn read(roots: &Roots) -> anyhow::Result<Self> {
        Ok(Self {
            node_cpu_info: NodeCpuInfo::read(roots).context("the CPUs are not known")?,
            node_numa_info: NodeNumaInfo::read(roots).context("the NUMA nodes are not known")?,
        })
    }
}

/// Prints the facts of this machine.
pub fn run(roots: &Roots, output: Output) -> anyhow::Result<ExitCode> {
    let facts = NodeFacts::read(roots)?;
    let text = match output {
        Output::Json => serde_json::to_string_pretty(&facts)?,
        Output::Text => table(&facts)?,
    };
    super::answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn table(facts: &NodeFacts) -> Result<String, fmt::Error> {
    let NodeFacts { node_cpu_info: cpu, node_numa_info: numa } = facts;
    let on = |flag: bool| if flag { "on" } else { "off" };
    let mut text = String::new();
    writeln!(text, "model   {} ({})", cpu.basic_info.cpu_model, cpu.basic_info.vendor_id)?;
    writeln!(text, "smt     {}", on(cpu.basic_info.hyper_thread_enabled))?;
    writeln!(text, "turbo   {}", on(cpu.basic_info.turbo_enabled))?;
    if !cpu.basic_info.cat_l3_cbm_mask.is_empty() {
        writeln!(text, "l3 mask {}", cpu.basic_info.cat_l3_cbm_mask)?;
    }
    writeln!(text, "\n CPU NODE SOCKET  CORE  L1D   L3")?;
    for info in &cpu.processor_infos {
        writeln!(
            text,
            "{:>4} {:>4} {:>6} {:>5} {:>4} {:>4}",
            info.cpu, info.node, info.socket, info.core, info.l1dl1il2, info.l3
        )?;
    }
    if numa.numa_infos.is_empty() {
        writeln!(text, "\nno NUMA nodes")?;
        return Ok(text);
    }
    writeln!(text, "\nNODE   MEMTOTAL KiB    MEMFREE KiB       USED KiB  2Mi PAGES  1Gi PAGES")?;
    for info in &numa.numa_infos {
        let pages = |size| info.huge_pages.get(&size).map_or(0, |pages| pages.num_pages);
        writeln!(
            text,
            "{:>4} {:>14} {:>14} {:>14} {:>10} {:>10}",
            info.node,
            info.mem_info.get("MemTotal").unwrap_or(0),
            info.mem_info.get("MemFree").unwrap_or(0),
            info.mem_info.numa_used().0 / 1024,
            pages(2048),
            pages(1_048_576),
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::machines::Machine;

    fn facts(shape: &str) -> NodeFacts {
        NodeFacts::read(&Machine::named(shape).roots()).unwrap()
    }

    #[test]
    fn json_has_the_names_that_scripts_use() {
        let value = serde_json::to_value(facts("memory-only-node")).unwrap();
        let cpu = &value["node_cpu_info"];
        assert_eq!(cpu["basicInfo"]["vendorID"], "GenuineIntel");
        assert_eq!(cpu["processorInfos"][1]["l1dl1il2"], "1");
        assert_eq!(cpu["totalInfo"]["l3ToCPU"]["0"].as_array().unwrap().len(), 2);
        let numa = &value["node_numa_info"];
        assert_eq!(numa["numaInfos"][1]["numaNodeID"], 1);
        assert_eq!(numa["memInfoMap"]["0"]["Inactive(file)"], 2_048_000);
        assert_eq!(numa["memInfoMap"]["0"]["MemAvailable"], 0, "the kernel has none for a node");
        assert_eq!(numa["hugePagesMap"]["1"]["2048"]["numPages"], 512);
        assert_eq!(numa["hugePagesMap"]["1"]["2048"]["pageSize"], 2048);
    }

    #[test]
    fn the_table_has_a_line_for_each_cpu_and_node() {
        let text = table(&facts("two-sockets-smt")).unwrap();
        assert!(text.contains("\n   7    1      1     3   17    1\n"), "{text}");
        assert!(
            text.contains("\n   1        8388608        2097152        4587520         10          0\n"),
            "{text}"
        );
        assert!(table(&facts("no-numa-no-l3")).unwrap().ends_with("no NUMA nodes\n"));
    }
}
