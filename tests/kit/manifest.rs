//! The manifests that the agent reads, in the shapes of the Kubernetes API, and the directory that holds them.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::load::own_file;
use crate::names::{Class, Runtime};

/// Something that can be written as one YAML document.
pub trait Manifest {
    /// The object.
    fn object(&self) -> Value;
}

impl Manifest for Value {
    fn object(&self) -> Value {
        self.clone()
    }
}

/// A pod with containers that run (`status.containerStatuses` is filled).
#[derive(Clone, Debug)]
pub struct PodManifest {
    name: String,
    namespace: String,
    uid: String,
    class: Class,
    runtime: Runtime,
    node: String,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    containers: Vec<ContainerSpec>,
}

/// One container of a pod.
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec {
    name: String,
    id: String,
    requests: Map<String, Value>,
    limits: Map<String, Value>,
}

impl ContainerSpec {
    /// A request by resource name.
    #[must_use]
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        self.requests.insert(resource.to_owned(), quantity.into());
        self
    }

    /// A limit by resource name.
    #[must_use]
    pub fn limit(mut self, resource: &str, quantity: &str) -> Self {
        self.limits.insert(resource.to_owned(), quantity.into());
        self
    }

    /// CPU request and limit.
    #[must_use]
    pub fn cpu_limit(self, quantity: &str) -> Self {
        self.request("cpu", quantity).limit("cpu", quantity)
    }

    /// Batch CPU in milli-cores and batch memory in bytes, request and limit.
    #[must_use]
    pub fn batch(self, milli_cpu: u32, memory_bytes: u64) -> Self {
        let (cpu, memory) = (milli_cpu.to_string(), memory_bytes.to_string());
        self.request("kubernetes.io/batch-cpu", &cpu)
            .limit("kubernetes.io/batch-cpu", &cpu)
            .request("kubernetes.io/batch-memory", &memory)
            .limit("kubernetes.io/batch-memory", &memory)
    }
}

impl PodManifest {
    /// A running pod on node `node-1`, with a UID made of its name.
    pub fn new(name: &str, class: Class) -> Self {
        Self {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: format!("{name}-uid-0000"),
            class,
            runtime: Runtime::Containerd,
            node: NODE.to_owned(),
            labels: Map::new(),
            annotations: Map::new(),
            containers: Vec::new(),
        }
    }

    /// Another UID.
    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    /// Another node.
    #[must_use]
    pub fn on_node(mut self, node: &str) -> Self {
        node.clone_into(&mut self.node);
        self
    }

    /// Another runtime.
    #[must_use]
    pub fn on_runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// The Koordinator QoS class (`LSE`, `LSR`, `LS`, `BE`, `SYSTEM`).
    #[must_use]
    pub fn qos(self, class: &str) -> Self {
        self.label("koordinator.sh/qosClass", class)
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a running container with an ID (empty: not started).
    #[must_use]
    pub fn container(
        mut self,
        name: &str,
        id: &str,
        resources: impl FnOnce(ContainerSpec) -> ContainerSpec,
    ) -> Self {
        let spec = ContainerSpec { name: name.to_owned(), id: id.to_owned(), ..ContainerSpec::default() };
        self.containers.push(resources(spec));
        self
    }

    /// The Kubernetes class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The runtime.
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// `namespace/name`, as `explain` takes it.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Name and ID of each started container.
    pub fn container_ids(&self) -> impl Iterator<Item = (&str, &str)> {
        self.containers.iter().filter(|each| !each.id.is_empty()).map(|each| (&*each.name, &*each.id))
    }

    fn status_of(&self, container: &ContainerSpec) -> Value {
        match &*container.id {
            "" => json!({"name": container.name, "containerID": ""}),
            id => json!({
                "name": container.name,
                "containerID": format!("{}://{id}", self.runtime.scheme()),
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "ready": true,
                "started": true,
            }),
        }
    }
}

impl Manifest for PodManifest {
    fn object(&self) -> Value {
        let spec = |each: &ContainerSpec| {
            json!({
                "name": each.name,
                "image": "example.test/app:1",
                "resources": {"requests": each.requests, "limits": each.limits},
            })
        };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "spec": {"nodeName": self.node, "containers": self.containers.iter().map(spec).collect::<Vec<_>>()},
            "status": {
                "phase": "Running",
                "qosClass": self.class.text(),
                "containerStatuses": self.containers.iter().map(|each| self.status_of(each)).collect::<Vec<_>>(),
            },
        })
    }
}

/// The node name that manifests and agents of the kit use by default.
pub const NODE: &str = "node-1";

/// The Node object.
#[derive(Clone, Debug)]
pub struct NodeManifest {
    name: String,
    cpus: usize,
    annotations: Map<String, Value>,
}

impl NodeManifest {
    /// A node with the CPUs of this host.
    pub fn this_host(name: &str) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { name: name.to_owned(), cpus, annotations: Map::new() }
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    /// Another number of CPUs than this host has.
    #[must_use]
    pub fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = cpus;
        self
    }

    /// The CPU normalization ratio, e.g. `1.5`.
    #[must_use]
    pub fn normalization_ratio(self, ratio: &str) -> Self {
        self.annotation("node.koordinator.sh/cpu-normalization-ratio", ratio)
    }
}

impl Manifest for NodeManifest {
    fn object(&self) -> Value {
        let resources = json!({"cpu": self.cpus.to_string(), "memory": "8Gi"});
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "annotations": self.annotations},
            "status": {"capacity": resources, "allocatable": resources},
        })
    }
}

/// The NodeSLO object.
#[derive(Clone, Debug)]
pub struct NodeSloManifest {
    name: String,
    spec: Value,
}

impl NodeSloManifest {
    /// A policy with this `spec` for a node.
    pub fn new(node: &str, spec: Value) -> Self {
        Self { name: node.to_owned(), spec }
    }

    /// CPU suppression on, by `cpuset` or `cfsQuota`, at a threshold in percent.
    pub fn suppress(node: &str, policy: &str, threshold_percent: u32) -> Self {
        let strategy = json!({
            "enable": true,
            "cpuSuppressPolicy": policy,
            "cpuSuppressThresholdPercent": threshold_percent,
        });
        Self::new(node, json!({"resourceUsedThresholdWithBE": strategy}))
    }

    /// All strategies off.
    pub fn off(node: &str) -> Self {
        Self::new(node, json!({"resourceUsedThresholdWithBE": {"enable": false}}))
    }
}

impl Manifest for NodeSloManifest {
    fn object(&self) -> Value {
        json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeSLO",
            "metadata": {"name": self.name},
            "spec": self.spec,
        })
    }
}

/// A manifests directory; removed on drop.
#[derive(Debug)]
pub struct Manifests {
    dir: tempfile::TempDir,
}

impl Manifests {
    /// An empty one.
    pub fn new() -> Result<Self> {
        Ok(Self { dir: tempfile::tempdir().context("making a manifests directory")? })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes or replaces `<name>.yaml` in one step.
    pub fn write(&self, name: &str, manifest: &impl Manifest) -> Result<()> {
        self.write_text(name, &serde_yaml_ng::to_string(&manifest.object())?)
    }

    /// Writes or replaces `<name>.yaml` with any text, in one step.
    pub fn write_text(&self, name: &str, text: &str) -> Result<()> {
        let hidden = self.path().join(format!(".{name}.tmp"));
        own_file(&hidden)?.write_all(text.as_bytes())?;
        fs::rename(&hidden, self.path().join(format!("{name}.yaml")))?;
        Ok(())
    }

    /// Writes many pods as one `PodList` document.
    pub fn write_pods<'a>(&self, name: &str, pods: impl IntoIterator<Item = &'a PodManifest>) -> Result<()> {
        let items: Vec<Value> = pods.into_iter().map(Manifest::object).collect();
        self.write(name, &json!({"apiVersion": "v1", "kind": "PodList", "items": items}))
    }

    /// Removes `<name>.yaml`.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.path().join(format!("{name}.yaml")))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_manifest_parses_as_the_agents_pod() {
        let pod = PodManifest::new("web", Class::Burstable)
            .qos("LS")
            .container("app", "0a", |container| container.cpu_limit("3"));
        let text = serde_yaml_ng::to_string(&pod.object()).expect("serialises");
        let parsed: koordlet::api::pod::Pod = serde_yaml_ng::from_str(&text).expect("parses");
        assert_eq!(parsed.metadata.uid, pod.uid());
        assert_eq!(parsed.status.container_statuses[0].container_id, "containerd://0a");
        assert!(parsed.spec.containers[0].resources.limits.contains_key("cpu"));
    }

    #[test]
    fn manifests_are_replaced_and_removed() {
        let manifests = Manifests::new().expect("a directory");
        manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio("1.5")).expect("written");
        manifests.write("node", &NodeManifest::this_host(NODE)).expect("replaced");
        let names: Vec<_> =
            fs::read_dir(manifests.path()).expect("listed").flatten().map(|e| e.file_name()).collect();
        assert_eq!(names, ["node.yaml"]);
        manifests.remove("node").expect("removed");
        assert_eq!(fs::read_dir(manifests.path()).expect("listed").count(), 0);
    }
}
