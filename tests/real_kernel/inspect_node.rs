//! `koordlet inspect node` says of this machine what `lscpu` and sysfs say.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kit::{binary, need, offers};
use serde_json::Value;

/// CPU -> (node, socket, core, L3).
type Cpus = BTreeMap<i64, (i64, i64, i64, i64)>;

fn inspected() -> Result<Value> {
    let output = Command::new(binary::koordlet()?)
        .args(["inspect", "node", "-o", "json"])
        .env("agent_mode", "hostMode")
        .env_remove("NODE_NAME")
        .output()?;
    ensure!(output.status.success(), "inspect: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the answer of inspect")
}

/// The rows of `lscpu -e` as collection.md 2.1 reads them.
fn listed() -> Result<Cpus> {
    let output = Command::new("lscpu").arg("-e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE").output()?;
    ensure!(output.status.success(), "lscpu: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.lines().filter_map(row).collect())
}

/// `None` for the header and for offline CPUs, whose columns are dashes.
fn row(line: &str) -> Option<(i64, (i64, i64, i64, i64))> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [cpu, node, socket, core, cache, _online] = columns.as_slice() else { return None };
    let caches: Vec<&str> = cache.split(':').collect();
    let l3 = match caches.as_slice() {
        [_, _, _] => 0,
        [_, _, _, l3] => l3.parse().ok()?,
        _ => return None,
    };
    Some((cpu.parse().ok()?, (node.parse().unwrap_or(0), socket.parse().ok()?, core.parse().ok()?, l3)))
}

#[test]
fn cpus_are_numbered_as_lscpu_numbers_them() -> Result<()> {
    need!(offers::program("lscpu"));
    let answer = inspected()?;
    let infos = answer["node_cpu_info"]["processorInfos"].as_array().context("processorInfos")?;
    let field = |info: &Value, name: &str| info[name].as_i64().with_context(|| format!("{name} in {info}"));
    let ours = infos
        .iter()
        .map(|info| {
            let place =
                (field(info, "node")?, field(info, "socket")?, field(info, "core")?, field(info, "l3")?);
            Ok((field(info, "cpu")?, place))
        })
        .collect::<Result<Cpus>>()?;
    assert_eq!(ours, listed()?);
    Ok(())
}

#[test]
fn memory_and_huge_pages_of_each_node_are_those_of_sysfs() -> Result<()> {
    let answer = inspected()?;
    let nodes = answer["node_numa_info"]["numaInfos"].as_array().context("numaInfos")?;
    for info in nodes {
        let node = info["numaNodeID"].as_i64().context("numaNodeID")?;
        let folder = format!("/sys/devices/system/node/node{node}");
        let meminfo = fs::read_to_string(format!("{folder}/meminfo"))?;
        let total = meminfo.lines().find(|line| line.contains("MemTotal:")).context("MemTotal")?;
        let total: u64 = total.split_whitespace().nth(3).context("a figure")?.parse()?;
        let key = node.to_string();
        assert_eq!(
            answer["node_numa_info"]["memInfoMap"][&key]["MemTotal"].as_u64(),
            Some(total),
            "node {node}"
        );
        let pages = fs::read_to_string(format!("{folder}/hugepages/hugepages-2048kB/nr_hugepages"));
        let pages = pages.ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
        let ours = &answer["node_numa_info"]["hugePagesMap"][&key]["2048"]["numPages"];
        assert_eq!(ours.as_u64(), Some(pages), "node {node}");
    }
    let listed = fs::read_dir("/sys/devices/system/node")?.flatten();
    let count = listed.filter(|entry| is_node(&entry.file_name().to_string_lossy())).count();
    assert_eq!(nodes.len(), count);
    Ok(())
}

fn is_node(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}
