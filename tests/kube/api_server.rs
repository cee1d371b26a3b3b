//! A kube-apiserver with etcd of a test's own: ports and files of its own, gone with the value.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kit::until;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;

/// How long a server may take to be ready.
const READY: Duration = Duration::from_mins(3);

/// Writes a file of the test's own.
#[expect(clippy::disallowed_methods, reason = "files in a temporary directory")]
pub(crate) fn put(path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// What must be there, or why the tests are skipped.
pub(crate) fn offers() -> Result<(), String> {
    let folder = std::env::var_os("KOORDLET_E2E_BIN")
        .ok_or("KOORDLET_E2E_BIN names no folder of Kubernetes binaries")?;
    let server = Path::new(&folder).join("kube-apiserver");
    if !server.is_file() {
        return Err(format!("there is no {}", server.display()));
    }
    for tool in ["etcd", "openssl"] {
        if Command::new(tool).arg("version").output().is_err() {
            return Err(format!("{tool} is not installed"));
        }
    }
    Ok(())
}

/// The servers.
pub(crate) struct ApiServer {
    dir: TempDir,
    port: u16,
    etcd_port: u16,
    etcd: Child,
    server: Option<Child>,
}

impl ApiServer {
    /// Starts both, and waits until they are ready.
    pub(crate) async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (port, etcd_port, peer_port) = (free_port()?, free_port()?, free_port()?);
        make_keys(dir.path())?;
        put(dir.path().join("tokens.csv"), "admin-token,admin,1,system:masters\n")?;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Command::new("etcd");
        etcd.arg("--data-dir").arg(dir.path().join("etcd"));
        etcd.args(["--listen-client-urls", &url(etcd_port), "--advertise-client-urls", &url(etcd_port)]);
        etcd.args(["--listen-peer-urls", &url(peer_port), "--log-level", "warn"]);
        let etcd = spawn(&mut etcd, dir.path(), "etcd.log")?;
        let mut this = Self { dir, port, etcd_port, etcd, server: None };
        this.start_server().await?;
        Ok(this)
    }

    /// Starts kube-apiserver again, at the same address and with the same objects.
    pub(crate) async fn start_server(&mut self) -> Result<()> {
        let folder = PathBuf::from(std::env::var_os("KOORDLET_E2E_BIN").context("KOORDLET_E2E_BIN")?);
        let file = |name: &str| self.dir.path().join(name);
        let mut server = Command::new(folder.join("kube-apiserver"));
        server.args(["--etcd-servers", &format!("http://127.0.0.1:{}", self.etcd_port)]);
        server.args(["--bind-address", "127.0.0.1", "--secure-port", &self.port.to_string()]);
        server
            .arg("--tls-cert-file")
            .arg(file("server.crt"))
            .arg("--tls-private-key-file")
            .arg(file("server.key"));
        server.arg("--client-ca-file").arg(file("ca.crt")).arg("--token-auth-file").arg(file("tokens.csv"));
        server.arg("--service-account-key-file").arg(file("sa.key"));
        server.arg("--service-account-signing-key-file").arg(file("sa.key"));
        server.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        server.args(["--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.199.0.0/24"]);
        server.args(["--endpoint-reconciler-type", "none", "--profiling=false"]);
        server.args([
            "--enable-priority-and-fairness=false",
            "--disable-admission-plugins",
            "ServiceAccount",
        ]);
        self.server = Some(spawn(&mut server, self.dir.path(), "kube-apiserver.log")?);
        self.wait_ready().await
    }

    /// Kills kube-apiserver; etcd stays.
    pub(crate) fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            end(&mut server);
        }
    }

    /// A kubeconfig of somebody with this `user` section.
    pub(crate) fn kubeconfig(&self, name: &str, user: &str) -> Result<PathBuf> {
        let path = self.dir.path().join(format!("{name}.kubeconfig"));
        let (port, ca) = (self.port, self.dir.path().join("ca.crt"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: {}}}}}]\n\
             users: [{{name: u, user: {user}}}]\n",
            ca.display()
        );
        put(&path, text)?;
        Ok(path)
    }

    /// A file of this server's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A client that may do everything.
    pub(crate) async fn admin(&self) -> Result<Client> {
        let path = self.kubeconfig("admin", "{token: admin-token}")?;
        let config = Kubeconfig::read_from(path)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let client = self.admin().await?;
        let end = std::time::Instant::now() + READY;
        loop {
            let ready = kube::client::Body::empty();
            let ready = client.send(hyper::Request::get("/readyz").body(ready)?).await;
            if ready.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            let server = self.server.as_mut().context("kube-apiserver is not started")?;
            let ended = server.try_wait()?.is_some();
            if ended || std::time::Instant::now() > end {
                bail!(
                    "kube-apiserver is not ready: {}",
                    fs::read_to_string(self.file("kube-apiserver.log"))?
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.kill_server();
        end(&mut self.etcd);
    }
}

fn spawn(command: &mut Command, dir: &Path, log: &str) -> Result<Child> {
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join(log))?;
    let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("starting {}", command.get_program().display()))
}

fn end(child: &mut Child) {
    drop(child.kill());
    until(Duration::from_secs(10), || !matches!(child.try_wait(), Ok(None)));
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A CA, a server key that it signed, and a key for service accounts' tokens.
fn make_keys(dir: &Path) -> Result<()> {
    let config = dir.join("openssl.cnf");
    put(&config, "[req]\ndistinguished_name=d\n[d]\n")?;
    let config = config.display();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30";
    let ca = "-subj /CN=ca -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign";
    openssl(dir, &format!("req -x509 -config {config} {key} {ca} -keyout ca.key -out ca.crt"))?;
    // A leaf must say that it is none, or rustls refuses it.
    let leaf = "-subj /CN=server -CA ca.crt -CAkey ca.key -addext basicConstraints=critical,CA:FALSE \
                -addext extendedKeyUsage=serverAuth -addext subjectAltName=IP:127.0.0.1";
    openssl(dir, &format!("req -x509 -config {config} {key} {leaf} -keyout server.key -out server.crt"))?;
    openssl(dir, "ecparam -genkey -name prime256v1 -noout -out sa.key")
}

fn openssl(dir: &Path, arguments: &str) -> Result<()> {
    let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(dir).output()?;
    ensure!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
