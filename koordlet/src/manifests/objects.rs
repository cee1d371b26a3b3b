//! What a manifest file yields: objects with the place they came from, and errors that name theirs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::api::node::Node;
use crate::api::node_slo::NodeSlo;
use crate::api::pod::Pod;
use crate::api::topology::NodeResourceTopology;

/// An object of a kind that is used.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// The Node.
    Node(Arc<Node>),
    /// A pod with a usable UID.
    Pod(Arc<Pod>),
    /// The policy, its sections still raw.
    NodeSlo(Arc<NodeSlo>),
    /// The topology object's annotations.
    Topology(Arc<NodeResourceTopology>),
}

/// What makes two objects the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// There is one Node.
    Node,
    /// Pods are told apart by UID.
    Pod(String),
    /// There is one NodeSLO.
    NodeSlo,
    /// There is one NodeResourceTopology.
    Topology,
}

impl Object {
    /// What makes it the same one in another file, or in the next version of this one.
    pub fn identity(&self) -> Identity {
        match self {
            Self::Node(_) => Identity::Node,
            Self::Pod(pod) => Identity::Pod(pod.metadata.uid.clone()),
            Self::NodeSlo(_) => Identity::NodeSlo,
            Self::Topology(_) => Identity::Topology,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "Node {}", node.metadata.name),
            Self::Pod(pod) => write!(f, "Pod {}/{}", pod.metadata.namespace, pod.metadata.name),
            Self::NodeSlo(slo) => write!(f, "NodeSLO {}", slo.metadata.name),
            Self::Topology(topology) => write!(f, "NodeResourceTopology {}", topology.metadata.name),
        }
    }
}

/// An object and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The object.
    pub object: Object,
    /// Its file.
    pub file: Arc<Path>,
    /// First line of its document.
    pub line: usize,
    /// Of a NodeSLO: line of each section (`spec.section`) and of each field in one (`spec.section.field`).
    pub fields: Arc<BTreeMap<String, usize>>,
}

impl Located {
    /// The line of a field, or of the nearest thing around it that is known.
    pub fn line_of(&self, field: &str) -> usize {
        let mut path = field;
        loop {
            if let Some(line) = self.fields.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = path.get(..end).unwrap_or_default(),
                None => return self.line,
            }
        }
    }
}

/// A place in a file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {field}{}{what}", .file.display(), if .field.is_empty() { "" } else { ": " })]
pub struct ManifestError {
    /// The file.
    pub file: PathBuf,
    /// Line in the file, from 1.
    pub line: usize,
    /// Path of the field, e.g. `spec.containers[0].name`; empty when no field can be named.
    pub field: String,
    /// What is wrong.
    pub what: String,
}
