use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::api::kubelet_config::KubeletConfig;
use crate::cgroup::naming::CgroupDriver;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;
use crate::kube::update::channel;

fn list(number: u64) -> Arc<PodListSnapshot> {
    Arc::new(PodListSnapshot { pods: Arc::default(), number, is_changed: number == 1 })
}

fn reader() -> SourceReader {
    SourceReader { manifests: None, server: None, pods: None, kubelet_config: None, ears: None, stats: None }
}

/// collection.md 7.2: joined, in order, and none is lost.
#[tokio::test]
async fn what_comes_while_nobody_looks_is_joined_and_the_newest_counts() {
    let (slots, updates) = channel();
    let (pods, lists) = watch::channel(None);
    let (configz, config) = watch::channel(None);
    let mut reader =
        SourceReader { server: Some(updates), pods: Some(lists), kubelet_config: Some(config), ..reader() };
    assert_eq!(reader.present(), Present { manifests: false, server: true, kubelet: true });
    for number in 1..=200 {
        pods.send_replace(Some(list(number)));
        let data = BTreeMap::from([("k".to_owned(), number.to_string())]);
        slots.slo_config.set(Some(Arc::new(data)));
    }
    slots.node_slo.set(None);
    let config = KubeletConfig { cpu_manager_policy: "static".to_owned(), ..KubeletConfig::default() };
    configz.send_replace(Some(Arc::new(config)));
    assert!(matches!(reader.next().await, News::Server(KubeUpdate::NodeSlo(None))));
    let News::Server(KubeUpdate::SloConfig(Some(data))) = reader.next().await else { panic!("another kind") };
    assert_eq!(data["k"], "200");
    assert!(matches!(reader.next().await, News::KubeletPolicy(Some(KubeletCpuPolicy::Static))));
    let News::Pods(last) = reader.next().await else { panic!("another kind") };
    assert_eq!(last.number, 200);
    pods.send_replace(Some(list(201)));
    let News::Pods(last) = reader.next().await else { panic!("another kind") };
    assert_eq!(last.number, 201, "a list without news is told, too");
}

#[tokio::test]
async fn a_source_that_ended_leaves_the_others() {
    let (gone, config) = watch::channel(None);
    let (pods, lists) = watch::channel(None);
    let mut reader = SourceReader { pods: Some(lists), kubelet_config: Some(config), ..reader() };
    drop(gone);
    pods.send_replace(Some(list(1)));
    assert!(matches!(reader.next().await, News::Pods(_)));
    assert!(reader.kubelet_config.is_none());
}

#[test]
fn the_kubelet_is_told_of_directories_and_of_its_node() {
    let stats = Arc::<KubeletStats>::default();
    let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
    let (trigger, _triggers) = PodTrigger::channel(naming, Arc::clone(&stats));
    let (node, mut endpoint) = watch::channel(None);
    let reader =
        SourceReader { ears: Some(KubeletEars { node, trigger, stats: Arc::clone(&stats) }), ..reader() };
    let dir = CgroupDir::new("kubepods/podu1").unwrap();
    reader.cgroup_event(&CgroupEvent::Born { controllers: vec![Controller::Cpu], id: 1, dir });
    assert_eq!(stats.triggers()[0], ("event", 1));
    let of = |label: &str, port: i32| -> Arc<Node> {
        let node = json!({"metadata": {"name": "n1", "labels": {"l": label}},
                          "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        Arc::new(serde_json::from_value(node).unwrap())
    };
    reader.node_is(None);
    assert!(!endpoint.has_changed().unwrap());
    reader.node_is(Some(&of("a", 10250)));
    assert_eq!(endpoint.borrow_and_update().as_ref().unwrap().port, 10250);
    reader.node_is(Some(&of("b", 10250)));
    assert!(!endpoint.has_changed().unwrap(), "it listens where it did");
    reader.node_is(Some(&of("b", 10251)));
    assert!(endpoint.has_changed().unwrap());
}
