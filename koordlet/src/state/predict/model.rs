//! What was learnt of the use of one thing, and the names of things that are learnt of (collection.md 11.1).

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::histogram::{Buckets, Histogram};
use super::settings::ModelSettings;
use crate::api::qos::PriorityClass;
use crate::state::cpu_memory::CpuMemory;

/// Characters that a pod's UID has at most, to have a checkpoint.
const MAX_UID: usize = 128;

/// What a model is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelKey {
    /// The node.
    Node,
    /// What is used by no pod.
    System,
    /// All pods of a priority class; `None` is of no class.
    Class(Option<PriorityClass>),
    /// A pod, by UID.
    Pod(Arc<str>),
}

impl ModelKey {
    /// Classes that have a model, whether or not they have pods.
    pub const CLASSES: [Option<PriorityClass>; 5] = [
        Some(PriorityClass::Prod),
        Some(PriorityClass::Mid),
        Some(PriorityClass::Batch),
        Some(PriorityClass::Free),
        None,
    ];

    /// The key of a text that was made of one, and no other: a name of the node, or a UID of letters, digits and
    /// dashes. So no text leads to another directory.
    pub fn from_text(text: &str) -> Option<Self> {
        let of_node = [Self::Node, Self::System].into_iter().chain(Self::CLASSES.map(Self::Class));
        of_node.into_iter().find(|key| key.to_string() == text).or_else(|| {
            let is_uid = (1..=MAX_UID).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            is_uid.then(|| Self::Pod(text.into()))
        })
    }
}

impl fmt::Display for ModelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("__node__"),
            Self::System => f.write_str("__node-sys__"),
            Self::Class(class) => write!(f, "__node-{}__", class.map_or("", PriorityClass::label)),
            Self::Pod(uid) => f.write_str(uid),
        }
    }
}

/// A pair of histograms.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Cores.
    pub cpu: Histogram,
    /// Bytes.
    pub memory: Histogram,
    /// Time of the last sample; of a loaded one the time of its checkpoint.
    pub updated: Timestamp,
    /// Time of the last checkpoint that was written, of this run.
    pub saved: Option<Timestamp>,
}

impl Model {
    /// Without samples.
    pub fn new(settings: &ModelSettings, at: Timestamp) -> Self {
        Self {
            cpu: Histogram::new(Buckets::cpu(), settings.cpu_half_life),
            memory: Histogram::new(Buckets::memory(), settings.memory_half_life),
            updated: at,
            saved: None,
        }
    }

    /// Adds cores and bytes of time `at`.
    pub fn add(&mut self, cores: f64, bytes: f64, at: Timestamp) {
        self.cpu.add(cores, at);
        self.memory.add(bytes, at);
        self.updated = at;
    }

    /// The peak that predictions go by: p95 of CPU, p98 of memory.
    pub fn peak(&self) -> CpuMemory {
        CpuMemory::of_floats(self.cpu.percentile(0.95), self.memory.percentile(0.98))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let texts = [
            "__node__",
            "__node-sys__",
            "__node-koord-prod__",
            "__node-koord-mid__",
            "__node-koord-batch__",
            "__node-koord-free__",
            "__node-__",
        ];
        for text in texts.into_iter().chain(["0b94cd75-94c5-a011-0a72-d1c850574416", "u0"]) {
            let key = ModelKey::from_text(text).unwrap();
            assert_eq!(
                (key.to_string().as_str(), matches!(key, ModelKey::Pod(_))),
                (text, !text.starts_with("__"))
            );
        }
    }

    #[test]
    fn what_is_neither_a_uid_nor_of_the_node_is_no_key() {
        let long = "a".repeat(129);
        for text in ["", ".", "..", "a/b", "a.tmp", "__node-x__", "__node__ ", "a\0", "ü", "a_b", &long] {
            assert_eq!(ModelKey::from_text(text), None, "{text:?}");
        }
    }
}
