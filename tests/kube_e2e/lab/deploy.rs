//! What an admin applies before the agent runs: the CRDs and the RBAC that are shipped, nothing else.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::Lab;
use super::programs::capture;

/// The agent's service account in the RBAC that is shipped.
pub(crate) const ACCOUNT: (&str, &str) = ("koordinator-system", "koordlet");

impl Lab {
    /// Applies `deploy/crds` and `deploy/rbac.yaml`.
    pub(super) fn apply_deploy(&self) -> Result<()> {
        let deploy = std::env::var_os("KOORDLET_E2E_DEPLOY").map(PathBuf::from);
        let deploy =
            deploy.context("KOORDLET_E2E_DEPLOY names no folder: `cargo xtask e2e kube` starts this")?;
        let (crds, rbac) = (deploy.join("crds"), deploy.join("rbac.yaml"));
        let (crds, rbac) = (crds.display().to_string(), rbac.display().to_string());
        self.kubectl(&["apply", "--server-side", "-f", &crds, "-f", &rbac])?;
        self.kubectl(&["wait", "--for=condition=Established", "--timeout=120s", "-f", &crds])?;
        Ok(())
    }

    /// kubectl with the rights of an admin; what it printed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut kubectl = self.programs.command("kubectl")?;
        kubectl.arg("--kubeconfig").arg(self.place.path("admin.kubeconfig")).args(arguments);
        Ok(String::from_utf8_lossy(&capture(&mut kubectl)?).into_owned())
    }
}
