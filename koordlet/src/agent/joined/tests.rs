use std::path::Path;

use serde_json::json;

use super::*;
use crate::manifests::merge::FileSet;
use crate::manifests::parse::parse_file;

const ALL: Present = Present { manifests: true, server: true, kubelet: true };
const LATE: Nanos = Nanos(31_000_000_000);

fn manifests(text: &str) -> Objects {
    let mut files = FileSet::default();
    files.put("a.yaml", parse_file(Path::new("a.yaml"), text.as_bytes(), "n1"));
    files.join().0.objects
}

fn node(zone: &str) -> Arc<Node> {
    let node = json!({"metadata": {"name": "n1", "uid": "u-n1", "labels": {"zone": zone}}});
    Arc::new(serde_json::from_value(node).unwrap())
}

fn listed(pods: &[(&str, &str)]) -> Arc<BTreeMap<String, Arc<Pod>>> {
    let pod = |(name, uid): &(&str, &str)| {
        let pod = json!({"metadata": {"name": name, "namespace": "k", "uid": uid}});
        ((*uid).to_owned(), Arc::new(serde_json::from_value(pod).unwrap()))
    };
    Arc::new(pods.iter().map(pod).collect())
}

fn names(joined: &Joined) -> Vec<&str> {
    joined.pods().map(|pod| pod.metadata.name.as_str()).collect()
}

const MANIFEST: &str = "kind: Node\nmetadata: {name: n1, labels: {zone: m}}\n---\n\
    kind: NodeSLO\nmetadata: {name: n1}\nspec: {resourceUsedThresholdWithBE: {enable: true}}\n---\n\
    kind: Pod\nmetadata: {name: ours, uid: u1}\n";

#[test]
fn a_manifest_wins_and_pods_are_the_union() {
    let mut joined = Joined::new(ALL, Nanos(0));
    joined.take_server(KubeUpdate::Node(Some(node("server"))));
    joined.take_server(KubeUpdate::NodeSlo(Some(Arc::default())));
    joined.take_pods(listed(&[("theirs", "u1"), ("other", "u2")]));
    assert_eq!(joined.node().unwrap().metadata.labels["zone"], "server");
    assert_eq!((names(&joined), joined.replaced()), (vec!["theirs", "other"], vec![]));
    joined.take_manifests(manifests(MANIFEST));
    assert_eq!(joined.node().unwrap().metadata.labels["zone"], "m");
    assert_eq!(joined.server_node().unwrap().metadata.uid, "u-n1", "it knows where the kubelet is");
    assert!(matches!(joined.policy(Nanos(0)), PolicySource::Manifest(..)));
    assert_eq!(names(&joined), ["ours", "other"]);
    assert_eq!(joined.replaced(), ["Node n1", "NodeSLO n1", "Pod default/ours"]);
    joined.take_manifests(Objects::default());
    assert!(matches!(joined.policy(Nanos(0)), PolicySource::NodeSlo(_)));
    assert_eq!(names(&joined), ["theirs", "other"]);
}

#[test]
fn c24_a_nodeslo_that_is_gone_leads_to_the_config_map_and_that_to_defaults() {
    let mut joined = Joined::new(Present { manifests: false, ..ALL }, Nanos(0));
    assert_eq!(joined.policy(LATE), PolicySource::Open, "the server has never answered");
    let slo = Arc::<NodeSlo>::default();
    joined.take_server(KubeUpdate::NodeSlo(Some(Arc::clone(&slo))));
    assert_eq!(joined.policy(Nanos(0)), PolicySource::NodeSlo(&slo), "without waiting for the rest");
    joined.take_server(KubeUpdate::NodeSlo(None));
    assert_eq!(joined.policy(Nanos(0)), PolicySource::Open);
    assert_eq!(joined.policy(LATE), PolicySource::Defaults, "nobody may read the ConfigMap");
    let data = ConfigData::default();
    joined.take_server(KubeUpdate::SloConfig(Some(Arc::clone(&data))));
    assert_eq!(joined.policy(Nanos(0)), PolicySource::Open, "its strategies go by the Node's labels");
    assert_eq!(joined.policy(LATE), PolicySource::ConfigMap(&data));
    joined.take_server(KubeUpdate::Node(Some(node("a"))));
    assert_eq!(joined.policy(Nanos(0)), PolicySource::ConfigMap(&data));
    joined.take_server(KubeUpdate::SloConfig(None));
    assert_eq!(joined.policy(Nanos(0)), PolicySource::Defaults);
    assert!(!joined.take_server(KubeUpdate::Node(None)), "the last one stays");
    assert!(joined.node().is_some());
}

#[test]
fn manifests_alone_have_the_last_policy_stay() {
    let mut joined = Joined::new(Present { manifests: true, ..Present::default() }, Nanos(0));
    assert_eq!(joined.policy(LATE), PolicySource::Open);
    assert!(!joined.has_all_pods(LATE));
    joined.take_manifests(Objects::default());
    assert_eq!(joined.policy(Nanos(0)), PolicySource::Stays);
    assert!(joined.has_all_pods(Nanos(0)));
}

#[test]
fn pods_are_complete_when_each_source_has_told_or_is_late() {
    let mut joined = Joined::new(ALL, Nanos(0));
    joined.take_pods(listed(&[]));
    assert!(!joined.has_all_pods(LATE), "the manifests are not read");
    joined.take_manifests(Objects::default());
    assert!(joined.has_all_pods(Nanos(0)));

    let mut joined = Joined::new(ALL, Nanos(0));
    joined.take_manifests(Objects::default());
    assert!(!joined.has_all_pods(LATE), "nobody has told of any pod");
    joined.take_manifests(manifests(MANIFEST));
    assert!(!joined.has_all_pods(Nanos(0)));
    assert!(joined.has_all_pods(LATE), "the kubelet is not to be had");

    let server = Joined::new(Present { manifests: false, kubelet: false, server: true }, Nanos(0));
    assert!(!server.has_all_pods(LATE), "there is no source of pods");
}
