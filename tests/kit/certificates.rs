//! A CA of a stand-in's own, and certificates of it for the server and for a client, as files in PEM.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// File of the CA.
pub(crate) const CA: &str = "ca.crt";
/// Files of a client's certificate and key.
pub(crate) const CLIENT: (&str, &str) = ("client.crt", "client.key");

/// Makes them in the directory `files`, for a server of this name at 127.0.0.1, which takes clients with and without a
/// certificate.
pub(crate) fn make(files: &Path, server_name: &str) -> Result<ServerConfig> {
    let named = |name: &str, hosts: &[&str]| -> Result<CertificateParams> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(params)
    };
    let ca_key = KeyPair::generate()?;
    let mut ca = named("stand-in CA", &[])?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);
    let server_key = KeyPair::generate()?;
    let server = named(server_name, &["127.0.0.1"])?.signed_by(&server_key, &issuer)?;
    let client_key = KeyPair::generate()?;
    let mut client = named("stand-in client", &[])?;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client = client.signed_by(&client_key, &issuer)?;

    let write = |name: &str, text: String| {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(files.join(name));
        file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| format!("writing {name}"))
    };
    write(CA, ca_certificate.pem())?;
    write(CLIENT.0, client.pem())?;
    write(CLIENT.1, client_key.serialize_pem())?;

    let mut roots = RootCertStore::empty();
    roots.add(ca_certificate.der().clone())?;
    let clients = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build()?;
    let key = PrivatePkcs8KeyDer::from(server_key.serialize_der());
    let chain = vec![CertificateDer::from(server.der().to_vec())];
    Ok(ServerConfig::builder().with_client_cert_verifier(clients).with_single_cert(chain, key.into())?)
}
