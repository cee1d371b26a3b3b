//! What the agent costs at 200 pods in a cluster: an API server with its Node, NodeSLO and NodeMetric, and a kubelet,
//! both over TLS. Everything that it reports was reported twice before memory is looked at.

use std::time::Duration;

use anyhow::{Result, ensure};
use kit::load::Work;
use kit::manifest::{Manifest, NODE};
use kit::{Agent, NodeManifest, NodeSloManifest, StandInApiServer, StandInKubelet};
use serde_json::{Value, json};

use crate::field::Field;
use crate::process::{milli_cpu, resident};
use crate::row::Row;

/// Where NodeSLOs and NodeMetrics are.
const SLO_GROUP: &str = "/apis/slo.koordinator.sh/v1alpha1";
const TOKEN: &str = "secret";
/// Seconds between two reports, the least there is.
const REPORTED_EVERY: u64 = 30;
/// Reports before memory is looked at.
const REPORTS: usize = 2;
/// How long CPU time is watched: a report and three lists of pods are in it.
const WATCHED: Duration = Duration::from_secs(REPORTED_EVERY);

/// 200 pods of one sleeping container, default gates, unchanged inputs.
pub(crate) fn two_hundred_pods() -> Result<Vec<Row>> {
    let field = Field::with(200, 1, Some(Work::Sleep))?;
    let kubelet = StandInKubelet::start(TOKEN)?;
    let pods: Vec<Value> = field.pods.iter().map(Manifest::object).collect();
    kubelet
        .set_list(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).to_string());
    let server = StandInApiServer::start(TOKEN)?;
    server.create("/api/v1/nodes", &node(&kubelet))?;
    server.create(&format!("{SLO_GROUP}/nodeslos"), &NodeSloManifest::off(NODE).object())?;
    server.create(&format!("{SLO_GROUP}/nodemetrics"), &node_metric())?;
    let agent = Agent::of_cluster(&field.tree, &server.kubeconfig()?, NODE)?
        .flag("cgroup-driver", field.tree.driver().flag())
        .flag("var-lib-kubelet-dir", "/nonexistent")
        .flag("kubelet-ca-file", kubelet.ca_file());
    let running = agent.start()?;
    let limit = Duration::from_secs(REPORTED_EVERY * (REPORTS as u64 + 1));
    let reported = kit::until(limit, || {
        let written = server.written();
        written.iter().filter(|write| write.what.ends_with("/status")).count() >= REPORTS
    });
    ensure!(reported, "no {REPORTS} reports within {limit:?}:\n{}", running.log());
    let cpu = milli_cpu(running.pid(), WATCHED)?;
    let memory = resident(running.pid())?;
    let row =
        |what: &str, value, unit| Row::new(format!("{what}, 200 sleeping pods in a cluster"), value, unit);
    Ok(vec![
        row("agent CPU", cpu, "millicores").at_most(7.0),
        row("agent RSS", memory.all(), "MiB").at_most(20.0),
        row("agent RSS, heap and stacks", memory.data, "MiB"),
        row("agent RSS, program and maps", memory.files, "MiB"),
    ])
}

fn node(kubelet: &StandInKubelet) -> Value {
    let mut node = NodeManifest::this_host(NODE).object();
    let address = kubelet.address();
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": address.ip().to_string()}]);
    node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": address.port()}});
    node
}

fn node_metric() -> Value {
    json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": NODE},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": REPORTED_EVERY}},
    })
}
