//! The kubelet's list of pods, read as a stream into slim pods: never more than one pod's text is held, and a pod
//! that is as it was shares the object that is known already (design.md 4).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

pub use super::list_splitter::ListError;
use super::list_splitter::ListSplitter;
use crate::api::null_default;
use crate::api::pod::Pod;

/// Most pods in a list; the kubelet's own limit is a few hundred.
pub const MAX_PODS: usize = 10_000;
/// Refused pods that are told by name.
const MAX_REFUSED: usize = 8;

/// Pods by UID.
pub type PodMap = BTreeMap<String, Arc<Pod>>;

/// What the kubelet said last.
#[derive(Clone, Debug)]
pub struct PodListSnapshot {
    /// Pods by the UID that the kubelet uses. The same object as in the snapshot before if no pod is another one.
    pub pods: Arc<PodMap>,
    /// Which list it is, from 1.
    pub number: u64,
    /// Whether it differs from the list before.
    pub is_changed: bool,
}

/// A pod that could not be read, in an answer that is JSON otherwise.
#[derive(Debug)]
pub struct RefusedPod {
    /// `NAMESPACE/NAME`, as far as known.
    pub pod: String,
    /// What is wrong.
    pub why: String,
    /// Whether what was known of it before stays.
    pub is_kept: bool,
}

impl fmt::Display for RefusedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.is_kept { "its last state stays" } else { "it is left out" };
        write!(f, "{}: {}; {rest}", self.pod, self.why)
    }
}

/// A whole list.
#[derive(Debug)]
pub struct PodList {
    /// By UID; of two with one UID the last.
    pub pods: PodMap,
    /// Pods that could not be read, the first few of them.
    pub refused: Vec<RefusedPod>,
    /// How many there were.
    pub refused_count: usize,
    /// Bytes of the answer.
    pub bytes: usize,
}

/// Reads one list.
#[derive(Debug)]
pub struct PodListReader<'a> {
    splitter: ListSplitter,
    known: &'a PodMap,
    list: PodList,
}

/// As much of an item as tells whose it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Whose {
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    #[serde(deserialize_with = "null_default")]
    name: String,
    #[serde(deserialize_with = "null_default")]
    namespace: String,
    #[serde(deserialize_with = "null_default")]
    uid: String,
}

impl<'a> PodListReader<'a> {
    /// An empty list; `known` are the pods of the list before.
    pub fn new(known: &'a PodMap) -> Self {
        let list = PodList { pods: PodMap::new(), refused: Vec::new(), refused_count: 0, bytes: 0 };
        Self { splitter: ListSplitter::default(), known, list }
    }

    /// Takes the next chunk. After an error nothing more must be fed.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), ListError> {
        let Self { splitter, known, list } = self;
        list.bytes = list.bytes.saturating_add(chunk.len());
        splitter.feed(chunk, &mut |item, at| list.take(item, at, known))
    }

    /// The list, if it was whole.
    pub fn finish(self) -> Result<PodList, ListError> {
        self.splitter.finish()?;
        Ok(self.list)
    }
}

impl PodList {
    fn take(&mut self, item: &[u8], at: usize, known: &PodMap) -> Result<(), ListError> {
        if self.pods.len() + self.refused_count >= MAX_PODS {
            return Err(ListError::TooManyItems(MAX_PODS));
        }
        match serde_json::from_slice::<Pod>(item) {
            Ok(pod) if pod.metadata.uid.is_empty() => self.refuse(item, "it has no UID", known),
            Ok(pod) => {
                let pod = match known.get(&pod.metadata.uid) {
                    Some(last) if **last == pod => Arc::clone(last),
                    _ => Arc::new(pod),
                };
                self.pods.insert(pod.metadata.uid.clone(), pod);
            }
            // JSON, but no pod: that is no reason to know nothing new of the others.
            Err(error) if error.is_data() => self.refuse(item, &error.to_string(), known),
            Err(source) => return Err(ListError::Json { at, source }),
        }
        Ok(())
    }

    fn refuse(&mut self, item: &[u8], why: &str, known: &PodMap) {
        let Identity { name, namespace, uid } =
            serde_json::from_slice::<Whose>(item).unwrap_or_default().metadata;
        let last = known.get(&uid);
        if let Some(last) = last {
            self.pods.insert(uid, Arc::clone(last));
        }
        self.refused_count += 1;
        if self.refused.len() < MAX_REFUSED {
            let short = |text: &str| text.chars().take(253).collect::<String>();
            self.refused.push(RefusedPod {
                pod: format!("{}/{}", short(&namespace), short(&name)),
                why: short(why),
                is_kept: last.is_some(),
            });
        }
    }

    /// Whether all pods are the objects of `known`.
    pub fn is_same(&self, known: &PodMap) -> bool {
        self.pods.len() == known.len()
            && self.pods.values().zip(known.values()).all(|(new, old)| Arc::ptr_eq(new, old))
    }
}

#[cfg(test)]
mod tests;
