//! A cluster of one node as an administrator makes it: the definitions and rights that the project ships, a Node, and
//! a kubeconfig with a token of the agent's service account.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use koordlet::config::kube::KubeSettings;
use koordlet::kube::credentials::CredentialSource;
use koordlet::kube::{KubeSources, KubeUpdate, KubeUpdates, Wanted};
use kube::Client;
use kube::core::Request;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api_server::{ApiServer, put};

/// The node of the scene.
pub(crate) const NODE: &str = "node-1";
/// Where NodeSLOs are.
pub(crate) const SLOS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodeslos";
/// Where NodeMetrics are.
pub(crate) const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
/// Where topology objects are.
pub(crate) const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";
/// Where Nodes are.
pub(crate) const NODES: &str = "/api/v1/nodes";
/// Where the policy's ConfigMap is.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/koordinator-system/configmaps";
/// The agent's service account.
const ACCOUNT: &str = "/api/v1/namespaces/koordinator-system/serviceaccounts";

/// The cluster.
pub(crate) struct Scene {
    pub(crate) server: ApiServer,
    pub(crate) admin: Client,
}

impl Scene {
    /// With `definitions`, those of `deploy/crds` are installed.
    pub(crate) async fn new(definitions: bool) -> Result<Self> {
        let server = ApiServer::start().await?;
        let admin = server.admin().await?;
        let scene = Self { server, admin };
        for document in documents(&deploy().join("rbac.yaml"))? {
            scene.create(&collection(&document), &document).await?;
        }
        if definitions {
            scene.install_definitions().await?;
        }
        scene.create(NODES, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})).await?;
        Ok(scene)
    }

    /// Installs `deploy/crds` and waits until they are served.
    pub(crate) async fn install_definitions(&self) -> Result<()> {
        for file in fs::read_dir(deploy().join("crds"))? {
            for document in documents(&file?.path())? {
                self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &document).await?;
            }
        }
        for path in [SLOS, METRICS, TOPOLOGIES] {
            let mut tries = 0;
            while self.get(path).await.is_err() {
                tries += 1;
                anyhow::ensure!(tries < 600, "{path} is not served");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// Creates an object.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        let request = hyper::Request::post(path).header("content-type", "application/json");
        Ok(self.admin.request(request.body(serde_json::to_vec(object)?)?).await?)
    }

    /// Merges `patch` into an object.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        let request = hyper::Request::patch(path).header("content-type", "application/merge-patch+json");
        Ok(self.admin.request(request.body(serde_json::to_vec(patch)?)?).await?)
    }

    /// Reads an object or a list.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.admin.request(hyper::Request::get(path).body(Vec::new())?).await?)
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str) -> Result<Value> {
        let (path, name) = path.rsplit_once('/').context("a path of an object")?;
        Ok(self.admin.request(Request::new(path).delete(name, &kube::api::DeleteParams::default())?).await?)
    }

    /// Makes the service account anew, so that all tokens it had are refused from now on.
    pub(crate) async fn renew_account(&self) -> Result<()> {
        self.delete(&format!("{ACCOUNT}/koordlet")).await?;
        self.create(ACCOUNT, &json!({"metadata": {"name": "koordlet"}})).await?;
        Ok(())
    }

    /// Writes a fresh token of the agent's service account into its file.
    pub(crate) async fn write_token(&self) -> Result<()> {
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = self.create(&format!("{ACCOUNT}/koordlet/token"), &asked).await?;
        let token = token["status"]["token"].as_str().context("a token")?;
        put(self.server.file("token"), format!("{token}\n"))
    }

    /// Starts the agent's side.
    pub(crate) async fn sources(&self) -> Result<(KubeSources, KubeUpdates)> {
        self.write_token().await?;
        let user = format!("{{tokenFile: {}}}", self.server.file("token").display());
        let source = CredentialSource::File(self.server.kubeconfig("agent", &user)?);
        let settings = KubeSettings {
            kubeconfig: None,
            qps: 20.0,
            burst: 30,
            config_namespace: "koordinator-system".to_owned(),
            config_name: "slo-controller-config".to_owned(),
        };
        let wanted = Wanted { node_metric: true, topology: true };
        Ok(KubeSources::start(source, &settings, NODE, wanted).await?)
    }
}

/// Waits for an update that `right` accepts; what comes before it is dropped.
pub(crate) async fn wait_for<T>(
    updates: &mut KubeUpdates,
    what: &str,
    mut right: impl FnMut(KubeUpdate) -> Option<T>,
) -> Result<T> {
    let wait = async {
        loop {
            if let Some(found) = right(updates.next().await) {
                return found;
            }
        }
    };
    timeout(Duration::from_mins(3), wait).await.with_context(|| format!("no {what}"))
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn documents(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path)?;
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(Value::deserialize);
    documents.collect::<Result<_, _>>().with_context(|| format!("reading {}", path.display()))
}

/// Where objects of a document's kind are.
fn collection(document: &Value) -> String {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api = match text("/apiVersion") {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{api}{namespace}/{}s", text("/kind").to_lowercase())
}
