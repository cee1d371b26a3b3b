//! Real pods of the cluster.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::names::{Class, Driver, Runtime};
use serde_json::{Map, Value, json};

use super::Lab;
use super::image::IMAGE;

/// Where pods are.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// How long a pod may take to start.
const PATIENCE: Duration = Duration::from_mins(3);

/// A pod to be: one container on the host's network.
#[derive(Clone, Debug)]
pub(crate) struct PodOf {
    name: String,
    labels: Map<String, Value>,
    resources: Value,
    command: Vec<String>,
}

/// One that runs; deleted when dropped.
pub(crate) struct RunningPod<'a> {
    lab: &'a Lab,
    object: Value,
}

impl PodOf {
    /// A best-effort pod that sleeps.
    pub(crate) fn name(name: &str) -> Self {
        let command = vec!["/bin/sleep".to_owned(), "1000000".to_owned()];
        Self { name: name.to_owned(), labels: Map::new(), resources: json!({}), command }
    }

    /// Of this QoS class of Koordinator.
    #[must_use]
    pub(crate) fn qos(mut self, qos: &str) -> Self {
        self.labels.insert("koordinator.sh/qosClass".to_owned(), qos.into());
        self
    }

    /// Limits, which are its requests, too.
    #[must_use]
    pub(crate) fn limits(mut self, limits: &Value) -> Self {
        self.resources = json!({"limits": limits, "requests": limits});
        self
    }

    /// Runs a shell script in place of sleeping.
    #[must_use]
    pub(crate) fn script(mut self, script: &str) -> Self {
        self.command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        self
    }

    /// Makes it and waits until it runs.
    pub(crate) fn run(self, lab: &Lab) -> Result<RunningPod<'_>> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {
                "nodeName": lab.node(),
                "hostNetwork": true,
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": "app",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "command": self.command,
                    "resources": self.resources,
                }],
            },
        });
        let mut pod = RunningPod { lab, object: lab.admin.create(PODS, &object)? };
        let path = pod.path();
        let mut seen = Value::Null;
        let runs = kit::until(PATIENCE, || {
            seen = lab.admin.get(&path).ok().flatten().unwrap_or_default();
            std::thread::sleep(Duration::from_millis(50));
            seen["status"]["containerStatuses"][0]["state"]["running"].is_object()
        });
        ensure!(runs, "{path} does not run: {}", seen["status"]);
        pod.object = seen;
        Ok(pod)
    }
}

impl RunningPod<'_> {
    /// Its UID.
    pub(crate) fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its cgroup directory.
    pub(crate) fn dir(&self) -> String {
        format!("{}/{}", self.lab.tree.root(), Driver::Cgroupfs.pod_dir(self.class(), self.uid()))
    }

    /// That of its container.
    pub(crate) fn container_dir(&self) -> Result<String> {
        let id = self.object["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
        let id = id.strip_prefix("containerd://").with_context(|| format!("container ID {id:?}"))?;
        let runtime = Runtime::Containerd;
        let dir = Driver::Cgroupfs.container_dir(self.class(), self.uid(), runtime, id);
        Ok(format!("{}/{dir}", self.lab.tree.root()))
    }

    /// Deletes it; its directories go some time later.
    pub(crate) fn delete(self) -> Result<()> {
        self.lab.admin.delete(&self.path())
    }

    fn class(&self) -> Class {
        match self.object["status"]["qosClass"].as_str() {
            Some("Guaranteed") => Class::Guaranteed,
            Some("Burstable") => Class::Burstable,
            _ => Class::BestEffort,
        }
    }

    fn path(&self) -> String {
        format!("{PODS}/{}", self.name())
    }
}

impl Drop for RunningPod<'_> {
    fn drop(&mut self) {
        // A cluster without an API server ends with its pods.
        self.lab.admin.delete(&self.path()).ok();
    }
}
