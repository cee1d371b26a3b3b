//! A client of the stand-in kubelet, and a loop around it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kit::StandInKubelet;
use koordlet::api::node::NodeAddress;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Controller;
use koordlet::config::kubelet::{AddressType, KubeletSettings};
use koordlet::ebpf::events::CgroupEvent;
use koordlet::kube::kubelet::KubeletClient;
use koordlet::kube::kubelet_endpoint::NodeEndpoint;
use koordlet::kube::kubelet_stats::KubeletStats;
use koordlet::kube::pod_sync::{PodLists, PodSync};
use koordlet::kube::pod_trigger::PodTrigger;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Longest wait for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of a test: what is given, and a regular list only at the start.
pub(crate) fn settings() -> KubeletSettings {
    KubeletSettings {
        address_type: AddressType::InternalIp,
        interval: Some(Duration::from_mins(10)),
        timeout: Duration::from_secs(20),
        read_only_port: None,
        query_config: true,
        ca_file: None,
    }
}

pub(crate) fn endpoint(kubelet: &StandInKubelet) -> NodeEndpoint {
    NodeEndpoint {
        node: "n1".into(),
        addresses: vec![NodeAddress { kind: "InternalIP".into(), address: "127.0.0.1".into() }],
        port: kubelet.address().port().into(),
    }
}

/// The API client's configuration with a token in a file.
pub(crate) fn token_file(path: &Path) -> kube::Config {
    let mut config = kube::Config::new("https://api.example:6443".parse().unwrap());
    config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
    config
}

/// The API client's configuration with a token in it.
pub(crate) fn token(text: &str) -> kube::Config {
    let mut config = kube::Config::new("https://api.example:6443".parse().unwrap());
    config.auth_info.token = Some(text.to_owned().into());
    config
}

pub(crate) fn client(
    kubelet: &StandInKubelet,
    settings: KubeletSettings,
    credentials: Option<kube::Config>,
) -> Arc<KubeletClient> {
    let (_, node) = watch::channel(Some(Arc::new(endpoint(kubelet))));
    Arc::new(KubeletClient::new(settings, node, credentials, Arc::default()))
}

/// The loop with all its ends.
pub(crate) struct Rig {
    pub(crate) node: watch::Sender<Option<Arc<NodeEndpoint>>>,
    pub(crate) pods: watch::Receiver<PodLists>,
    pub(crate) stats: Arc<KubeletStats>,
    trigger: PodTrigger,
}

impl Rig {
    pub(crate) fn new(settings: KubeletSettings, credentials: kube::Config) -> Self {
        let (node, node_reader) = watch::channel(None);
        let stats: Arc<KubeletStats> = Arc::default();
        let client = KubeletClient::new(settings, node_reader, Some(credentials), Arc::clone(&stats));
        let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
        let (trigger, triggers) = PodTrigger::channel(naming, Arc::clone(&stats));
        let pods = PodSync::start(Arc::new(client), triggers);
        Self { node, pods, stats, trigger }
    }

    /// The directory of a pod or a container comes.
    pub(crate) fn born(&self, path: &str) {
        let dir = CgroupDir::new(&format!("kubepods/burstable/{path}")).unwrap();
        self.trigger.cgroup_event(&CgroupEvent::Born { controllers: vec![Controller::Cpu], id: 1, dir });
    }

    /// It goes.
    pub(crate) fn died(&self, path: &str) {
        let dir = CgroupDir::new(&format!("kubepods/burstable/{path}")).unwrap();
        self.trigger.cgroup_event(&CgroupEvent::Died { controllers: vec![Controller::Cpu], id: 1, dir });
    }

    /// Number of pods that are known.
    pub(crate) fn known(&self) -> Option<usize> {
        self.pods.borrow().as_ref().map(|list| list.pods.len())
    }

    pub(crate) fn syncs(&self, result: &str) -> u64 {
        self.stats.syncs().find(|(name, _)| *name == result).map_or(0, |(_, count)| count)
    }

    pub(crate) fn failures(&self, kind: &str) -> u64 {
        self.stats.failures().find(|(name, _)| *name == kind).map_or(0, |(_, count)| count)
    }
}

/// Waits until something is so; fails the test after a long time.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
