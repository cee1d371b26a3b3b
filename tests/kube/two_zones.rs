//! The topology object of a machine with two NUMA nodes and huge pages of both sizes, which the agent finds beneath
//! `--sys-root-dir`: created with two zones, the pages taken out of their memory (collection.md 10.5).

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kit::manifest::Manifest as _;
use kit::{NodeManifest, StandInApiServer, StandInKubelet};
use serde_json::{Value, json};

use crate::api_server::put;
use crate::made_up_host::MadeUpHost;
use crate::scene::{NODE, NODES, TOPOLOGIES};

const TOKEN: &str = "secret";
const UID: &str = "507030de-8900-47e9-8252-d5019b33abd1";
/// Longest wait for the object; the pace of looks is 3 s.
const PATIENCE: Duration = Duration::from_mins(2);

/// Node 1 is the zone of collection.md 16, example 15: 10 pages of 1 GiB, 512 of 2 MiB, and this much memory. Node 0 has
/// 32 GiB, 4 pages of 1 GiB and 1024 of 2 MiB.
const MEM_TOTAL: &str = "Node 1 MemTotal:       263554560 kB";

#[test]
fn two_numa_nodes_are_two_zones_without_their_huge_pages() -> Result<()> {
    let host = MadeUpHost::bare()?;
    copy(&fixture().join("sys"), &host.path("sys"))?;
    let meminfo = host.path("sys/devices/system/node/node1/meminfo");
    let text = fs::read_to_string(&meminfo)?;
    let (_, rest) = text.split_once('\n').context("lines")?;
    put(&meminfo, format!("{MEM_TOTAL}\n{rest}"))?;

    let kubelet = StandInKubelet::start(TOKEN)?;
    kubelet.set_config(&json!({"cpuManagerPolicy": "none"}));
    // A list without pods is believed after a while only.
    kubelet.set_pods(1, 1);
    let server = StandInApiServer::start(TOKEN)?;
    server.create(NODES, &node(&kubelet))?;
    let agent = host
        .agent(&server.kubeconfig()?, NODE)?
        .flag("sys-root-dir", host.path("sys"))
        .flag("feature-gates", "HugePageReport=true")
        .flag("kubelet-ca-file", kubelet.ca_file());
    let running = agent.spawn()?;
    kit::until(PATIENCE, || server.get(TOPOLOGIES, NODE).is_some());
    let made = server.get(TOPOLOGIES, NODE).with_context(|| format!("no topology:\n{}", running.log()))?;

    let wanted = [zone("node-0", "4Gi", "2Gi", "26Gi"), zone("node-1", "10Gi", "1Gi", "252020224Ki")];
    assert_eq!(made["zones"], json!(wanted));
    assert_eq!(made["topologyPolicies"], json!(["None"]));
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": UID, "controller": true,
                       "blockOwnerDeletion": true});
    assert_eq!(made["metadata"]["ownerReferences"], json!([owner]));
    let topology = made["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"].as_str();
    let topology: Value = serde_json::from_str(topology.context("cpu-topology")?)?;
    let nodes: Vec<_> =
        topology["detail"].as_array().context("CPUs")?.iter().map(|cpu| &cpu["node"]).collect();
    assert_eq!(nodes, [0, 0, 1, 1, 0, 0, 1, 1]);
    Ok(())
}

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hugepages-both-sizes")
}

fn node(kubelet: &StandInKubelet) -> Value {
    let mut node = NodeManifest::this_host(NODE).object();
    let address = kubelet.address();
    node["metadata"]["uid"] = json!(UID);
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": address.ip().to_string()}]);
    node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": address.port()}});
    node
}

fn zone(name: &str, large: &str, small: &str, memory: &str) -> Value {
    let resources = [("cpu", "4"), ("hugepages-1Gi", large), ("hugepages-2Mi", small), ("memory", memory)];
    let resources = resources
        .map(|(name, size)| json!({"name": name, "capacity": size, "allocatable": size, "available": size}));
    json!({"name": name, "type": "Node", "resources": resources})
}

/// Copies a folder; what it links to is kept as links.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
        } else if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            put(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
