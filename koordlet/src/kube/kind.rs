//! The kinds of objects that this room reads or writes, and how the API server names them.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Node.
    Node,
    /// `slo.koordinator.sh/v1alpha1` NodeSLO.
    NodeSlo,
    /// `slo.koordinator.sh/v1alpha1` NodeMetric.
    NodeMetric,
    /// `topology.node.k8s.io/v1alpha1` NodeResourceTopology.
    Topology,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Event.
    Event,
    /// Whatever else a client of this room asks for.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Node,
        Self::NodeSlo,
        Self::NodeMetric,
        Self::Topology,
        Self::ConfigMap,
        Self::Event,
        Self::Other,
    ];

    /// Name in logs and labels: the plural of the API.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::NodeSlo => "nodeslos",
            Self::NodeMetric => "nodemetrics",
            Self::Topology => "noderesourcetopologies",
            Self::ConfigMap => "configmaps",
            Self::Event => "events",
            Self::Other => "other",
        }
    }

    /// What a request is about, by its path.
    pub fn of_path(path: &str) -> Self {
        let found = path.split('/').find_map(|part| Self::ALL.into_iter().find(|kind| kind.plural() == part));
        found.unwrap_or(Self::Other)
    }

    /// What kube needs to know of it.
    pub fn resource(self) -> ApiResource {
        let (group, version, kind) = match self {
            Self::Node => ("", "v1", "Node"),
            Self::NodeSlo => ("slo.koordinator.sh", "v1alpha1", "NodeSLO"),
            Self::NodeMetric => ("slo.koordinator.sh", "v1alpha1", "NodeMetric"),
            Self::Topology => ("topology.node.k8s.io", "v1alpha1", "NodeResourceTopology"),
            Self::ConfigMap => ("", "v1", "ConfigMap"),
            Self::Event => ("", "v1", "Event"),
            Self::Other => ("", "", ""),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), self.plural())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_its_kind() {
        let paths = [
            ("/api/v1/nodes", Kind::Node),
            ("/apis/slo.koordinator.sh/v1alpha1/nodemetrics/node-1/status", Kind::NodeMetric),
            ("/api/v1/namespaces/koordinator-system/configmaps", Kind::ConfigMap),
            ("/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies", Kind::Topology),
            ("/version", Kind::Other),
        ];
        for (path, kind) in paths {
            assert_eq!(Kind::of_path(path), kind, "{path}");
        }
        assert_eq!(Kind::NodeSlo.resource().api_version, "slo.koordinator.sh/v1alpha1");
    }
}
