//! Flags of the API server's client, and what they resolve to (collection.md 1.2, 14).

use std::path::PathBuf;

use clap::Args;

use super::mistakes::Mistakes;

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct KubeFlags {
    /// Kubeconfig of the API server [default: KUBECONFIG, the pod's service account, ~/.kube/config]
    #[arg(long, value_name = "FILE", default_value = "")]
    pub kubeconfig: String,
    /// Requests to the API server a second, as a lasting rate
    #[arg(long, value_name = "N", default_value = "20")]
    pub kube_api_qps: String,
    /// Requests to the API server at once
    #[arg(long, value_name = "N", default_value = "30")]
    pub kube_api_burst: String,
    /// Namespace of the ConfigMap from which policy is derived where this node has no NodeSLO
    #[arg(long, value_name = "NAMESPACE", default_value = "koordinator-system")]
    pub configmap_namespace: String,
    /// Name of that ConfigMap
    #[arg(long, value_name = "NAME", default_value = "slo-controller-config")]
    pub slo_config_name: String,
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeSettings {
    /// `--kubeconfig`
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second, above 0.
    pub qps: f64,
    /// Requests at once, at least 1.
    pub burst: u32,
    /// Namespace of the policy's ConfigMap.
    pub config_namespace: String,
    /// Name of the policy's ConfigMap.
    pub config_name: String,
}

/// Checks the flags.
pub(super) fn resolve(flags: &KubeFlags, mistakes: &mut Mistakes) -> Option<KubeSettings> {
    let qps = mistakes.take("kube-api-qps", parse_qps(&flags.kube_api_qps));
    let burst = mistakes.take("kube-api-burst", parse_burst(&flags.kube_api_burst));
    let namespace = mistakes.take("configmap-namespace", object_name(&flags.configmap_namespace));
    let name = mistakes.take("slo-config-name", object_name(&flags.slo_config_name));
    Some(KubeSettings {
        kubeconfig: Some(PathBuf::from(&flags.kubeconfig)).filter(|path| !path.as_os_str().is_empty()),
        qps: qps?,
        burst: burst?,
        config_namespace: namespace?,
        config_name: name?,
    })
}

fn parse_qps(text: &str) -> Result<f64, String> {
    let qps = text.parse::<f64>().ok().filter(|qps| qps.is_finite() && *qps > 0.0);
    qps.ok_or_else(|| format!("{text:?} is not a number above 0"))
}

fn parse_burst(text: &str) -> Result<u32, String> {
    let burst = text.parse::<u32>().ok().filter(|burst| *burst > 0);
    burst.ok_or_else(|| format!("{text:?} is not a whole number above 0"))
}

/// Names go into paths of requests.
fn object_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let fits = !text.is_empty() && text.len() <= 253 && text.chars().all(plain);
    if fits { Ok(text.to_owned()) } else { Err(format!("{text:?} is not the name of an object")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_names_are_checked() {
        assert_eq!(parse_qps("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "many"] {
            assert!(parse_qps(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_burst("30"), Ok(30));
        assert!(parse_burst("0").is_err());
        assert!(object_name("koordinator-system").is_ok());
        assert!(object_name("a/../b").is_err());
        assert!(object_name("").is_err());
    }
}
