//! The loop against a real kubelet, where the environment names one: `KOORDLET_TEST_KUBELET` (URL),
//! `KOORDLET_TEST_KUBELET_TOKEN`, `KOORDLET_TEST_KUBEPODS` (directory of its pods in the cgroup hierarchies),
//! `NODE_NAME`, and a `kubectl` that may make pods there.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use koordlet::api::node::NodeAddress;
use koordlet::cgroup::naming::split_container_id;
use koordlet::kube::kubelet_endpoint::NodeEndpoint;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::kubelet_rig::{PATIENCE, Rig, settings, token, until};

struct Real {
    endpoint: NodeEndpoint,
    token: String,
    node: String,
    /// Directory of burstable pods in the hierarchy of the cpu controller.
    pods: PathBuf,
}

fn real() -> Result<Real, String> {
    let of = |name: &str| std::env::var(name).map_err(|_| format!("no real kubelet: {name} is not set"));
    let url = of("KOORDLET_TEST_KUBELET")?;
    let authority = url.strip_prefix("https://").unwrap_or(&url);
    let (host, port) = authority.rsplit_once(':').ok_or("KOORDLET_TEST_KUBELET has no port")?;
    let node = of("NODE_NAME")?;
    let address = NodeAddress { kind: "InternalIP".into(), address: host.into() };
    let kubepods = of("KOORDLET_TEST_KUBEPODS")?;
    Ok(Real {
        endpoint: NodeEndpoint {
            node: node.clone(),
            addresses: vec![address],
            port: port.parse().map_err(|_| "KOORDLET_TEST_KUBELET has no port")?,
        },
        token: of("KOORDLET_TEST_KUBELET_TOKEN")?,
        node,
        pods: Path::new("/sys/fs/cgroup/cpu").join(kubepods).join("burstable"),
    })
}

fn kubectl(args: &[&str], stdin: &str) {
    let mut child = Command::new("kubectl").args(args).stdin(Stdio::piped()).spawn().expect("kubectl");
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "kubectl {args:?}");
}

/// Directories of pods and containers beneath `root`, relative to it.
fn directories(root: &Path) -> BTreeSet<String> {
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for pod in names(root) {
        all.extend(names(&root.join(&pod)).into_iter().map(|container| format!("{pod}/{container}")));
        all.insert(pod);
    }
    all
}

/// A pod is made; the loop hears of its directories, and knows its container's id soon, long before its interval.
#[tokio::test]
async fn a_new_container_of_a_real_kubelet_is_known_soon() {
    let real = match real() {
        Ok(real) => real,
        Err(reason) => kit::skip!("{reason}"),
    };
    let rig = Rig::new(settings(), token(&real.token));
    rig.node.send_replace(Some(Arc::new(real.endpoint.clone())));
    let name = format!("koordtest-{}", std::process::id());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": real.node, "hostNetwork": true, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "lab.local/busybox:1", "command": ["sleep", "3600"],
                "resources": {"requests": {"cpu": "10m"}}}]},
    });
    let mut seen = directories(&real.pods);
    kubectl(&["create", "-f", "-"], &pod.to_string());
    let begin = Instant::now();
    let mut born: Vec<(String, Duration)> = Vec::new();
    let id_of = |rig: &Rig| -> Option<String> {
        let list = rig.pods.borrow().clone()?;
        let pod = list.pods.values().find(|pod| pod.metadata.name == name)?;
        let status = pod.status.container_statuses.first()?;
        split_container_id(&status.container_id).ok().map(|(_, id)| id.to_owned())
    };
    let known = loop {
        let now = directories(&real.pods);
        for dir in now.difference(&seen) {
            rig.born(dir);
            born.push((dir.clone(), begin.elapsed()));
        }
        seen = now;
        if let Some(id) = id_of(&rig) {
            break (id, begin.elapsed());
        }
        assert!(begin.elapsed() < PATIENCE, "born: {born:?}");
        sleep(Duration::from_millis(2)).await;
    };
    let at = |end: &str| born.iter().find(|(dir, _)| dir.ends_with(end)).map(|(_, at)| *at);
    let directory = at(&known.0).expect("the container's directory was seen");
    kit::skip::note(format_args!(
        "real kubelet: container's directory {directory:?} after the pod was made, its id known {:?} later; triggers \
         {:?}",
        known.1.saturating_sub(directory),
        rig.stats.triggers(),
    ));
    kubectl(&["delete", "pod", &name, "--wait=true"], "");
    rig.died(&born[0].0);
    until("its end", || {
        let list = rig.pods.borrow().clone();
        let is_gone = list.is_some_and(|list| list.pods.values().all(|pod| pod.metadata.name != name));
        // If it was the only one, an empty list is not believed yet.
        is_gone || rig.syncs("withheld") > 0
    })
    .await;
    assert_eq!(rig.failures("denied") + rig.failures("content"), 0);
}
