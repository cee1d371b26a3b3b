//! etcd and kube-apiserver.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::daemon::Daemon;
use super::place::Place;
use super::programs::Programs;

/// Port of the API server.
pub(crate) const PORT: u16 = 6443;
/// Who issues service account tokens, and for whom they are.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// Both, and what it takes to start the API server again.
pub(crate) struct ControlPlane {
    etcd: Daemon,
    etcd_url: String,
    api_command: Command,
    api: Option<Daemon>,
}

impl Place {
    /// Where the API server listens.
    pub(crate) fn api_url(&self) -> String {
        format!("https://{}:{PORT}", self.address)
    }
}

impl ControlPlane {
    /// Starts both; the API server is not ready yet.
    pub(super) fn start(place: &Place, programs: &Programs) -> Result<Self> {
        let address = place.address;
        let etcd_url = format!("http://{address}:2379");
        let mut command = programs.command("etcd")?;
        command
            .arg("--data-dir")
            .arg(place.path("etcd"))
            .args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url])
            .args(["--listen-peer-urls", &format!("http://{address}:2380")])
            .args(["--log-level", "warn"]);
        let etcd = Daemon::start(place, "etcd", &mut command)?;
        let mut plane = Self { etcd, etcd_url, api_command: programs.command("kube-apiserver")?, api: None };
        plane.describe_api(place);
        plane.start_api(place)?;
        Ok(plane)
    }

    fn describe_api(&mut self, place: &Place) {
        let [a, b, c, _] = place.address.octets();
        let file = |name: &str| place.path(name).display().to_string();
        let flags = [
            ("etcd-servers", self.etcd_url.clone()),
            ("bind-address", place.address.to_string()),
            ("secure-port", PORT.to_string()),
            ("tls-cert-file", file("server.crt")),
            ("tls-private-key-file", file("server.key")),
            ("token-auth-file", file("tokens.csv")),
            ("authorization-mode", "Node,RBAC".to_owned()),
            ("service-account-issuer", ISSUER.to_owned()),
            ("service-account-key-file", file("accounts.key")),
            ("service-account-signing-key-file", file("accounts.key")),
            ("service-cluster-ip-range", format!("{a}.{b}.{c}.0/24")),
            // Nobody here makes the accounts that it asks for.
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
            ("allow-privileged", "true".to_owned()),
            ("endpoint-reconciler-type", "none".to_owned()),
            ("profiling", "false".to_owned()),
        ];
        for (name, value) in flags {
            self.api_command.arg(format!("--{name}={value}"));
        }
    }

    /// Starts the API server; it is not ready yet.
    pub(crate) fn start_api(&mut self, place: &Place) -> Result<()> {
        self.api = Some(Daemon::start(place, "kube-apiserver", &mut self.api_command)?);
        Ok(())
    }

    /// SIGKILL of the API server.
    pub(crate) fn kill_api(&mut self) {
        if let Some(mut api) = self.api.take() {
            api.kill();
        }
    }

    /// Its process.
    pub(crate) fn api(&self) -> Result<&Daemon> {
        self.api.as_ref().context("the API server is not running")
    }

    /// Forgets all of etcd's history: whoever watches from an older revision must list anew. Returns the revision.
    pub(crate) fn compact(&self) -> Result<u64> {
        let now = self.etcd_call("kv/range", &json!({"key": "AA=="}))?;
        let revision: u64 = now["header"]["revision"].as_str().context("no revision")?.parse()?;
        self.etcd_call("kv/compaction", &json!({"revision": revision.to_string(), "physical": true}))?;
        Ok(revision)
    }

    /// etcd's own gateway to its API.
    fn etcd_call(&self, method: &str, body: &Value) -> Result<Value> {
        let address = self.etcd_url.trim_start_matches("http://").parse()?;
        let answer = kit::http::post_json(address, &format!("/v3/{method}"), body)?;
        ensure!(answer.status == 200, "etcd: {method}: {}: {}", answer.status, answer.body);
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// Ends both.
    pub(super) fn stop(mut self) -> Result<()> {
        if let Some(mut api) = self.api.take() {
            api.stop()?;
        }
        self.etcd.stop()
    }
}
