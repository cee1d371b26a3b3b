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

/// Page sizes that are told, in KiB.
const PAGE_SIZES: [u64; 2] = [2048, 1_048_576];

/// A node's figures by name, in KiB.
fn meminfo(node: i64) -> Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo"))?;
    let figure = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        Some((words.next()?.trim_end_matches(':').to_owned(), words.next()?.parse().ok()?))
    };
    Ok(text.lines().filter_map(figure).collect())
}

/// Pages of a size on a node; none where the kernel has no such size.
fn pages(node: i64, size: u64) -> u64 {
    let file = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{size}kB/nr_hugepages");
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn memory_and_huge_pages_of_each_node_are_those_of_sysfs() -> Result<()> {
    let answer = inspected()?;
    let numa = &answer["node_numa_info"];
    let nodes = numa["numaInfos"].as_array().context("numaInfos")?;
    for info in nodes {
        let node = info["numaNodeID"].as_i64().context("numaNodeID")?;
        let key = node.to_string();
        let kernels = meminfo(node)?;
        ensure!(numa["memInfoMap"][&key] == info["memInfo"], "node {node}: the map and the list differ");
        let told = info["memInfo"].as_object().context("memInfo")?;
        ensure!(told["MemTotal"].as_u64() == kernels.get("MemTotal").copied(), "node {node}: {info}");
        // The others move while one looks: within 16 MiB of what stands there now.
        for name in ["MemFree", "Active(file)", "Inactive(file)", "AnonPages", "SReclaimable"] {
            let (ours, theirs) = (told[name].as_u64().context(name)?, *kernels.get(name).context(name)?);
            ensure!(ours.abs_diff(theirs) < 16 << 10, "node {node} {name}: {ours} KiB, then {theirs}");
        }
        for size in PAGE_SIZES {
            let ours = &numa["hugePagesMap"][&key][size.to_string()];
            ensure!(ours["numPages"].as_u64() == Some(pages(node, size)), "node {node}: {ours}");
            ensure!(ours["pageSize"].as_u64() == Some(size), "node {node}: {ours}");
        }
    }
    let listed = fs::read_dir("/sys/devices/system/node")?.flatten();
    let count = listed.filter(|entry| is_node(&entry.file_name().to_string_lossy())).count();
    assert_eq!(nodes.len(), count);
    Ok(())
}

#[test]
fn the_test_machine_has_two_nodes_and_huge_pages_of_both_sizes() -> Result<()> {
    if !offers::in_guest() {
        kit::skip!("made for the guest of cargo xtask vm-test");
    }
    let answer = inspected()?;
    let numa = &answer["node_numa_info"]["hugePagesMap"];
    let found = |node: &str, size: &str| numa[node][size]["numPages"].as_u64();
    let [first, second] = ["0", "1"].map(|node| (found(node, "2048"), found(node, "1048576")));
    assert_eq!((first, second), ((Some(24), Some(0)), (Some(7), Some(1))));
    let total = &answer["node_cpu_info"]["totalInfo"];
    let count = |group: &str, key: &str| total[group][key].as_array().map(Vec::len);
    assert_eq!(total["numberCPUs"], 8);
    for (group, each) in [("nodeToCPU", 4), ("socketToCPU", 4), ("coreToCPU", 2)] {
        assert_eq!((count(group, "0"), count(group, "1")), (Some(each), Some(each)), "{group}");
    }
    Ok(())
}

fn is_node(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}
