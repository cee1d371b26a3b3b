//! Who the agent is for the API server: the service account of the RBAC that is shipped, with a token that ends when a
//! test wants it to.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Lab;
use super::control_plane::ISSUER;
use super::deploy::ACCOUNT;
use super::pki;
use super::place::Place;

/// Seconds for which the API server takes a token that has expired: clocks differ.
const LEEWAY: u64 = 60;

/// A kubeconfig and the token file that it names.
pub(crate) struct Identity<'a> {
    lab: &'a Lab,
    name: String,
    namespace: String,
    account: String,
    uid: String,
}

impl<'a> Identity<'a> {
    /// Of the account that is shipped. `name` names the files.
    pub(crate) fn shipped(lab: &'a Lab, name: &str) -> Result<Self> {
        let (namespace, account) = ACCOUNT;
        Self::new(lab, name, namespace, account)
    }

    /// Of a service account that exists.
    fn new(lab: &'a Lab, name: &str, namespace: &str, account: &str) -> Result<Self> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}");
        let object = lab.admin.get(&path)?.with_context(|| format!("there is no {path}"))?;
        let uid = object["metadata"]["uid"].as_str().context("an account without UID")?.to_owned();
        let owned = str::to_owned;
        Ok(Self { lab, name: owned(name), namespace: owned(namespace), account: owned(account), uid })
    }

    /// Puts a token into the token file that the API server takes for `time` from now on; returns it.
    pub(crate) fn renew(&self, time: Duration) -> Result<String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.account),
            "iat": now - 2 * LEEWAY,
            "nbf": now - 2 * LEEWAY,
            "exp": now + time.as_secs() - LEEWAY,
            "kubernetes.io": {
                "namespace": self.namespace,
                "serviceaccount": {"name": self.account, "uid": self.uid},
            },
        });
        let token = sign(&self.lab.place, &claims)?;
        self.lab.place.write(&self.token_file(), &token)?;
        Ok(token)
    }

    /// The kubeconfig, for an API server at `url`.
    pub(crate) fn kubeconfig(&self, url: &str) -> Result<PathBuf> {
        let place = &self.lab.place;
        let credentials = format!("tokenFile: {}", place.path(&self.token_file()).display());
        place.write(&format!("{}.kubeconfig", self.name), &pki::kubeconfig_of(place, url, &credentials))
    }

    fn token_file(&self) -> String {
        format!("{}.token", self.name)
    }
}

/// A JSON Web Token by the key of the API server's own: what it would give itself, without its least time of ten minutes.
fn sign(place: &Place, claims: &Value) -> Result<String> {
    let header = json!({"alg": "RS256", "typ": "JWT"});
    let text =
        format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
    let mut openssl = Command::new("openssl");
    openssl.args(["dgst", "-sha256", "-sign"]).arg(place.path("accounts.key"));
    let mut child = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("no stdin")?.write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "openssl does not sign");
    Ok(format!("{text}.{}", base64url(&output.stdout)))
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let all = three.iter().chain(&[0, 0]).take(3).fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        for digit in 0..=three.len() {
            let index = all >> (18 - 6 * digit) & 63;
            text.extend(DIGITS.get(index as usize).map(|byte| char::from(*byte)));
        }
    }
    text
}
