//! The kubelet, beside containerd in its mount namespace.

use std::path::Path;

use anyhow::Result;
use kit::Tree;
use serde_json::json;

use super::daemon::Daemon;
use super::namespace::{self, KUBELET_DIR};
use super::place::Place;
use super::programs::Programs;
use super::runtime;

/// Port of its API.
pub(crate) const PORT: u16 = 10_250;

/// Starts it; the node is not ready yet.
pub(super) fn start(place: &Place, programs: &Programs, tree: &Tree, containerd: u32) -> Result<Daemon> {
    let file = |name: &str| place.path(name).display().to_string();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", tree.root()),
        "failCgroupV1": false,
        "containerRuntimeEndpoint": format!("unix://{}", runtime::socket(place).display()),
        "address": place.address.to_string(),
        "port": PORT,
        "healthzPort": 0,
        "tlsCertFile": file("server.crt"),
        "tlsPrivateKeyFile": file("server.key"),
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true, "cacheTTL": "1s"}},
        "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "1s", "cacheUnauthorizedTTL": "1s"}},
        "podLogsDir": file("pod-logs"),
        "volumePluginDir": Path::new(KUBELET_DIR).join("volume-plugins"),
        "clusterDNS": [place.address.to_string()],
        "resolvConf": "",
        "maxPods": 250,
        // What machines of tests lack: room on the disk, rights of root, iptables.
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "maxOpenFiles": 20_000,
        "oomScoreAdj": 0,
    });
    let config = place.write("kubelet.json", &config.to_string())?;
    let mut command = programs.command("kubelet")?;
    command
        .arg("--config")
        .arg(config)
        .arg("--kubeconfig")
        .arg(place.path("kubelet.kubeconfig"))
        .args(["--hostname-override", &place.address.to_string(), "--root-dir", KUBELET_DIR])
        .arg("--cert-dir")
        .arg(place.path("kubelet-certificates"));
    Daemon::start(place, "kubelet", &mut namespace::in_that_of(containerd, &command))
}
