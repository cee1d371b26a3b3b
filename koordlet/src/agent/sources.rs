//! Starts the sources of objects that are there: manifests, API server, kubelet. What they say goes to the loop through
//! one reader. Each kind is a value that is replaced by the next one, so that what comes while the loop is busy is
//! joined into one update and the newest is never lost (collection.md 7.2).

use std::sync::Arc;

use tokio::sync::watch;

use super::AgentError;
use super::inputs;
use super::joined::Present;
use crate::api::node::Node;
use crate::cgroup::naming::Naming;
use crate::config::Config;
use crate::ebpf::events::CgroupEvent;
use crate::kube::connection::{self, ConnectError};
use crate::kube::credentials::{CredentialSource, Credentials, Surroundings};
use crate::kube::events::EventRecorder;
use crate::kube::kind::Kind;
use crate::kube::kubelet::KubeletClient;
use crate::kube::kubelet_config::{self, KnownConfig};
use crate::kube::kubelet_endpoint::NodeEndpoint;
use crate::kube::kubelet_stats::KubeletStats;
use crate::kube::pod_list::PodListSnapshot;
use crate::kube::pod_sync::{PodLists, PodSync};
use crate::kube::pod_trigger::PodTrigger;
use crate::kube::stats::ApiStats;
use crate::kube::{KubeSources, KubeUpdate, KubeUpdates, Wanted};
use crate::manifests::ManifestUpdate;
use crate::manifests::directory::{ManifestDirectory, Updates};
use crate::report::metrics::Metrics;
use crate::state::topology::KubeletCpuPolicy;
use crate::state::troubles::Troubles;

/// What was started. Dropping it ends the sources.
pub(super) struct Sources {
    manifests: Option<ManifestDirectory>,
    /// The API server, and the kubelet with it.
    pub(super) server: Option<Server>,
}

/// The API server.
pub(super) struct Server {
    /// Its followers and writers.
    pub(super) objects: KubeSources,
    /// What they see.
    pub(super) updates: KubeUpdates,
    kubelet: Kubelet,
}

/// The kubelet.
struct Kubelet {
    ears: KubeletEars,
    pods: watch::Receiver<PodLists>,
    config: watch::Receiver<KnownConfig>,
    is_listed: bool,
}

/// What the kubelet's client has to be told.
#[derive(Clone)]
struct KubeletEars {
    node: watch::Sender<Option<Arc<NodeEndpoint>>>,
    trigger: PodTrigger,
    stats: Arc<KubeletStats>,
}

impl Sources {
    /// Starts those that there are. None of them has to answer.
    ///
    /// # Errors
    /// The manifests' thread; credentials of the API server that cannot be used.
    pub(super) async fn start(
        config: &Config,
        naming: &Naming,
        metrics: &Metrics,
    ) -> Result<Self, AgentError> {
        let follow = |path: &std::path::PathBuf| {
            let followed = ManifestDirectory::follow(path.clone(), config.node_name.clone());
            followed.map_err(|source| AgentError::Manifests { path: path.clone(), source })
        };
        let manifests = config.manifests_dir.as_ref().map(follow).transpose()?;
        if let Some(manifests) = &manifests {
            inputs::show(metrics, &manifests.updates());
        }
        let found = CredentialSource::find(config.kube.kubeconfig.as_deref(), &Surroundings::of_process());
        let server = match found {
            Some(source) => Some(Server::start(source, config, naming, metrics).await?),
            None if manifests.is_some() => {
                tracing::info!("no credentials of an API server: objects come from manifests alone");
                None
            }
            None => {
                tracing::warn!(
                    "neither credentials of an API server nor --manifests-dir: there are no objects"
                );
                None
            }
        };
        Ok(Self { manifests, server })
    }

    /// What the loop reads.
    pub(super) fn reader(&self) -> SourceReader {
        let server = self.server.as_ref();
        let kubelet = server.map(|server| &server.kubelet);
        SourceReader {
            manifests: self.manifests.as_ref().map(ManifestDirectory::updates),
            server: server.map(|server| server.updates.clone()),
            pods: kubelet.filter(|kubelet| kubelet.is_listed).map(|kubelet| kubelet.pods.clone()),
            kubelet_config: kubelet.map(|kubelet| kubelet.config.clone()),
            ears: kubelet.map(|kubelet| kubelet.ears.clone()),
            stats: server.map(|server| Arc::clone(server.objects.stats())),
        }
    }

    /// What records Kubernetes events; a dry run has none.
    pub(super) fn recorder(&self, config: &Config) -> Option<EventRecorder> {
        let server = self.server.as_ref().filter(|_| !config.dry_run)?;
        Some(server.objects.events().clone())
    }

    /// What the kubelet says of its configuration.
    pub(super) fn kubelet_config(&self) -> Option<watch::Receiver<KnownConfig>> {
        Some(self.server.as_ref()?.kubelet.config.clone())
    }
}

impl Server {
    async fn start(
        source: CredentialSource,
        config: &Config,
        naming: &Naming,
        metrics: &Metrics,
    ) -> Result<Self, ConnectError> {
        let Credentials { config: mut credentials, token } = connection::load(&source).await?;
        if let Some(file) = &token {
            // The kubelet's client reads the file itself, each time that it has another token.
            file.put_back(&mut credentials);
        }
        let wanted =
            Wanted { node_metric: config.report.node_metric, topology: config.report.topology.is_some() };
        let (objects, updates) = KubeSources::start(source, &config.kube, &config.node_name, wanted).await?;
        metrics.add_api_server(Arc::clone(objects.stats()));
        let kubelet = Kubelet::start(config, naming, credentials, metrics);
        Ok(Self { objects, updates, kubelet })
    }
}

impl Kubelet {
    fn start(config: &Config, naming: &Naming, credentials: kube::Config, metrics: &Metrics) -> Self {
        let stats = Arc::<KubeletStats>::default();
        metrics.add_kubelet(Arc::clone(&stats));
        let (node, known_node) = watch::channel(None);
        let (trigger, triggers) = PodTrigger::channel(naming.clone(), Arc::clone(&stats));
        let is_listed = config.kubelet.interval.is_some();
        let client =
            KubeletClient::new(config.kubelet.clone(), known_node, Some(credentials), Arc::clone(&stats));
        let client = Arc::new(client);
        let pods = PodSync::start(Arc::clone(&client), triggers);
        let config = kubelet_config::follow(client);
        Self { ears: KubeletEars { node, trigger, stats }, pods, config, is_listed }
    }
}

/// What a source says.
#[derive(Debug)]
pub(super) enum News {
    /// All manifests.
    Manifests(Arc<ManifestUpdate>),
    /// An object of the API server.
    Server(KubeUpdate),
    /// The kubelet's pods.
    Pods(Arc<PodListSnapshot>),
    /// The kubelet's CPU manager policy.
    KubeletPolicy(Option<KubeletCpuPolicy>),
}

/// The loop's end of all sources.
pub(super) struct SourceReader {
    manifests: Option<Updates>,
    server: Option<KubeUpdates>,
    pods: Option<watch::Receiver<PodLists>>,
    kubelet_config: Option<watch::Receiver<KnownConfig>>,
    ears: Option<KubeletEars>,
    stats: Option<Arc<ApiStats>>,
}

impl SourceReader {
    /// Which sources there are.
    pub(super) fn present(&self) -> Present {
        Present {
            manifests: self.manifests.is_some(),
            server: self.server.is_some(),
            kubelet: self.pods.is_some(),
        }
    }

    /// Waits for something new; never returns without a source. Safe to drop half-way.
    pub(super) async fn next(&mut self) -> News {
        tokio::select! {
            // What is decided about pods depends on the others.
            biased;
            news = new_value(&mut self.manifests, "manifests") => News::Manifests(news),
            news = of_server(&mut self.server) => News::Server(news),
            config = new_value(&mut self.kubelet_config, "the kubelet's configuration") => {
                News::KubeletPolicy(KubeletCpuPolicy::parse(&config.cpu_manager_policy))
            }
            news = new_value(&mut self.pods, "the kubelet's pods") => News::Pods(news),
        }
    }

    /// A directory came or went: perhaps the kubelet has another pod. Never waits.
    pub(super) fn cgroup_event(&self, event: &CgroupEvent) {
        if let Some(ears) = &self.ears {
            ears.trigger.cgroup_event(event);
        }
    }

    /// The Node that says where the kubelet listens.
    pub(super) fn node_is(&self, node: Option<&Arc<Node>>) {
        if let (Some(ears), Some(node)) = (&self.ears, node) {
            let endpoint = NodeEndpoint::of(node);
            ears.node.send_if_modified(|held| {
                let differs = held.as_deref() != Some(&endpoint);
                if differs {
                    *held = Some(Arc::new(endpoint));
                }
                differs
            });
        }
    }

    /// Says what keeps objects from being seen.
    pub(super) fn tell(&self, troubles: &Troubles) {
        let Some(stats) = &self.stats else { return };
        for kind in Kind::ALL {
            troubles.set(kind.plural(), stats.trouble(kind));
        }
        troubles.set("kubelet", self.ears.as_ref().and_then(|ears| ears.stats.trouble()));
    }
}

/// The next value; none of a source that there is not, or that has ended: what it said last stays.
async fn new_value<T: Clone>(reader: &mut Option<watch::Receiver<Option<T>>>, name: &'static str) -> T {
    while let Some(present) = reader {
        if present.changed().await.is_err() {
            tracing::error!(source = name, "a source of objects has ended; what it said last stays");
            *reader = None;
        } else if let Some(value) = present.borrow_and_update().clone() {
            return value;
        }
    }
    std::future::pending().await
}

async fn of_server(updates: &mut Option<KubeUpdates>) -> KubeUpdate {
    match updates {
        Some(updates) => updates.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
