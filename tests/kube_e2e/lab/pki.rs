//! Certificates, keys and tokens of the cluster, by openssl.

use std::process::Command;

use anyhow::Result;

use super::place::Place;
use super::programs::capture;

/// Makes all of them in the cluster's folder.
pub(super) fn make(place: &Place) -> Result<()> {
    place.write("openssl.cnf", "[req]\ndistinguished_name = name\n[name]\n")?;
    certificate(place, "ca", &["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"])?;
    // rustls takes only leaves that say they are no CA.
    let names = format!("subjectAltName=IP:{},DNS:localhost", place.address);
    let leaf = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth", &names];
    certificate(place, "server", &leaf)?;
    let mut key = Command::new("openssl");
    key.args(["genrsa", "-out"]).arg(place.path("accounts.key")).arg("2048");
    capture(&mut key)?;
    let (admin, kubelet) = (random()?, random()?);
    let node = place.address;
    let table = format!("{admin},admin,1,system:masters\n{kubelet},system:node:{node},2,system:nodes\n");
    place.write("tokens.csv", &table)?;
    place.write("admin.token", &admin)?;
    place.write("kubelet.kubeconfig", &kubeconfig(place, &format!("token: {kubelet}")))?;
    place.write("admin.kubeconfig", &kubeconfig(place, &format!("token: {admin}")))?;
    Ok(())
}

/// A kubeconfig with these credentials, as a line of YAML.
pub(super) fn kubeconfig(place: &Place, credentials: &str) -> String {
    kubeconfig_of(place, &place.api_url(), credentials)
}

/// The same for another address of the API server.
pub(super) fn kubeconfig_of(place: &Place, url: &str, credentials: &str) -> String {
    let authority = place.path("ca.crt");
    let authority = authority.display();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: e2e\n\
         contexts: [{{name: e2e, context: {{cluster: e2e, user: e2e}}}}]\n\
         clusters: [{{name: e2e, cluster: {{server: '{url}', certificate-authority: {authority}}}}}]\n\
         users: [{{name: e2e, user: {{{credentials}}}}}]\n"
    )
}

fn certificate(place: &Place, name: &str, extensions: &[&str]) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    command.arg("-subj").arg(format!("/CN=e2e-{name}")).arg("-config").arg(place.path("openssl.cnf"));
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    if name != "ca" {
        command.arg("-CA").arg(place.path("ca.crt")).arg("-CAkey").arg(place.path("ca.key"));
    }
    command.arg("-keyout").arg(place.path(&format!("{name}.key")));
    capture(command.arg("-out").arg(place.path(&format!("{name}.crt")))).map(drop)
}

fn random() -> Result<String> {
    let text = capture(Command::new("openssl").args(["rand", "-hex", "16"]))?;
    Ok(String::from_utf8(text)?.trim().to_owned())
}
