//! Memory that was not touched for a while (kidled, collection.md 6.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::series::key::SeriesKey;
use super::series::metric::Metric;
use crate::units::{Bytes, Nanos};

/// Cold and hot memory of the node or of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdFigures {
    /// File pages that were idle for 60 scan periods or longer: 300 s, where kidled scans every 5 s.
    pub cold: Bytes,
    /// Use with page cache, less the cold pages.
    pub hot: Bytes,
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdMemory {
    /// When it was read (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// The whole node.
    pub node: Option<ColdFigures>,
    /// By pod UID.
    pub pods: BTreeMap<Arc<str>, ColdFigures>,
    /// By full container id.
    pub containers: BTreeMap<Arc<str>, ColdFigures>,
    /// By host application name.
    pub host_apps: BTreeMap<Arc<str>, ColdFigures>,
}

impl ColdMemory {
    /// The samples of the round, collection.md 6.10, bytes.
    pub fn samples(&self) -> impl Iterator<Item = (SeriesKey, f64)> + '_ {
        let node = self.node.into_iter().flat_map(|figures| {
            let hot = SeriesKey::node(Metric::NodeMemoryWithHotPageUsage);
            figures.samples(hot, SeriesKey::node(Metric::NodeMemoryColdPageSize))
        });
        let pods = self.pods.iter().flat_map(|(uid, figures)| {
            let hot = SeriesKey::pod(Metric::PodMemoryWithHotPageUsage, uid);
            figures.samples(hot, SeriesKey::pod(Metric::PodMemoryColdPageSize, uid))
        });
        let containers = self.containers.iter().flat_map(|(id, figures)| {
            let hot = SeriesKey::container(Metric::ContainerMemoryWithHotPageUsage, id);
            figures.samples(hot, SeriesKey::container(Metric::ContainerMemoryColdPageSize, id))
        });
        let host_apps = self.host_apps.iter().flat_map(|(name, figures)| {
            let hot = SeriesKey::host_app(Metric::HostAppMemoryWithHotPageUsage, name);
            figures.samples(hot, SeriesKey::host_app(Metric::HostAppMemoryColdPageSize, name))
        });
        node.chain(pods).chain(containers).chain(host_apps)
    }
}

impl ColdFigures {
    fn samples(self, hot: SeriesKey, cold: SeriesKey) -> [(SeriesKey, f64); 2] {
        [(hot, self.hot.0 as f64), (cold, self.cold.0 as f64)]
    }
}
