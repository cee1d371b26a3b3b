//! A client of the API server that may do everything: what a cluster's admin and its other controllers do.

use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::control_plane::ControlPlane;
use super::place::Place;

/// How long one request may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Blocking requests by path.
pub(crate) struct Admin {
    runtime: Runtime,
    client: Client,
}

impl Admin {
    /// A client of the server at `url`: the API server, or the kubelet, which asks the API server who this is.
    pub(super) fn at(place: &Place, url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(place.path("admin.kubeconfig"))?;
            let mut config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            config.cluster_url = url.parse()?;
            config.read_timeout = Some(LIMIT);
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self { runtime, client })
    }

    /// Waits until the API server answers.
    pub(crate) fn wait_ready(&self, plane: &ControlPlane) -> Result<()> {
        plane.api()?.wait_until("it is ready", || {
            let request = Request::get("/readyz").body(Vec::new())?;
            Ok(self.runtime.block_on(self.client.request_text(request))? == "ok")
        })
    }

    /// An object or list; `None` when there is none.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.send("GET", path, "", None) {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("GET {path}")),
        }
    }

    /// Makes an object in the collection `path`.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.send("POST", path, "application/json", Some(object)).with_context(|| format!("POST {path}"))
    }

    /// JSON merge patch.
    pub(crate) fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        let kind = "application/merge-patch+json";
        self.send("PATCH", path, kind, Some(patch)).with_context(|| format!("PATCH {path}"))
    }

    /// Deletes at once. What is not there is no error.
    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        let options = serde_json::json!({"gracePeriodSeconds": 0});
        match self.send("DELETE", path, "application/json", Some(&options)) {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).with_context(|| format!("DELETE {path}")),
        }
    }

    /// Once more after a failure of the connection: an idle one ends with the API server, unnoticed until it is used.
    fn send(&self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> kube::Result<Value> {
        let once = || {
            let content = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
            let request =
                Request::builder().method(method).uri(path).header("content-type", kind).body(content);
            self.runtime.block_on(self.client.request(request.map_err(kube::Error::HttpError)?))
        };
        match once() {
            Err(kube::Error::HyperError(_) | kube::Error::Service(_)) => once(),
            outcome => outcome,
        }
    }
}
