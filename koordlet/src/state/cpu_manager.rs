//! The kubelet's `cpu_manager_state` file: its CPU manager policy and the CPUs that it gave to single
//! containers. Text in, values out; a private format of the kubelet, so that only what is needed is looked at
//! and its checksum is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::pods::PodTable;
use super::topology::KubeletCpuPolicy;
use crate::api::qos::QosClass;
use crate::cpuset::CpuSet;

/// CPUs by (pod UID, container name).
pub type ContainerCpus = BTreeMap<(Arc<str>, String), CpuSet>;

/// CPUs that the kubelet pinned, by pod, collection.md 10.3 (a): not those of pods labelled LS or BE, which share, nor
/// those of pods that `is_placed` names, which have CPUs from the scheduler.
pub fn pinned_by_pod(
    exclusive: &ContainerCpus,
    pods: &PodTable,
    is_placed: impl Fn(&str) -> bool,
) -> BTreeMap<Arc<str>, CpuSet> {
    let mut pinned: BTreeMap<Arc<str>, CpuSet> = BTreeMap::new();
    for ((uid, _), cpus) in exclusive {
        let qos = pods.pods.get(uid).and_then(|pod| pod.qos);
        if matches!(qos, Some(QosClass::Ls | QosClass::Be)) || is_placed(uid) {
            continue;
        }
        let all = pinned.entry(Arc::clone(uid)).or_default();
        *all = all.union(cpus);
    }
    pinned
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuManagerState {
    /// The policy that the kubelet runs; `None` where the file does not say.
    pub policy: Option<KubeletCpuPolicy>,
    /// CPUs that belong to one container; never empty sets.
    pub exclusive: ContainerCpus,
    /// Entries that could not be read and were left out, by what is wrong.
    pub skipped: Vec<String>,
}

/// Text that is not the JSON object that the kubelet writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuManagerStateError {
    /// Not JSON.
    #[error("cpu_manager_state is not JSON: {0}")]
    Json(String),
    /// JSON of another shape.
    #[error("cpu_manager_state is no object with `entries` as an object")]
    Shape,
}

impl CpuManagerState {
    /// Reads the file's text; empty text (a kubelet that never wrote it) is an empty state. One container's
    /// unreadable entry is skipped, an unknown checksum or field ignored; collection.md 10.3.
    pub fn parse(text: &str) -> Result<Self, CpuManagerStateError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let root: Value =
            serde_json::from_str(text).map_err(|error| CpuManagerStateError::Json(error.to_string()))?;
        let root = root.as_object().ok_or(CpuManagerStateError::Shape)?;
        let mut state = Self {
            policy: root.get("policyName").and_then(Value::as_str).and_then(KubeletCpuPolicy::parse),
            ..Self::default()
        };
        match root.get("entries") {
            None | Some(Value::Null) => {}
            Some(Value::Object(pods)) => pods.iter().for_each(|(uid, entry)| state.add_pod(uid, entry)),
            Some(_) => return Err(CpuManagerStateError::Shape),
        }
        Ok(state)
    }

    fn add_pod(&mut self, uid: &str, entry: &Value) {
        let Some(containers) = entry.as_object() else {
            self.skipped.push(format!("entry of {uid:?} is no object"));
            return;
        };
        let uid: Arc<str> = uid.into();
        for (name, list) in containers {
            match list.as_str().map(str::parse::<CpuSet>) {
                Some(Ok(cpus)) if cpus.is_empty() => {}
                Some(Ok(cpus)) => {
                    self.exclusive.insert((Arc::clone(&uid), name.clone()), cpus);
                }
                Some(Err(error)) => self.skipped.push(format!("entry of {uid:?} {name:?}: {error}")),
                None => self.skipped.push(format!("entry of {uid:?} {name:?} is no text")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn c146_the_kubelets_file_is_read_in_every_form() {
        let state = CpuManagerState::parse(
            r#"{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"u1":{"main":"1-2","init":""},
               "u2":{"a":"3","b":"x"},"old":"5"},"checksum":18446744073709551615,"future":{}}"#,
        )
        .unwrap();
        assert_eq!(state.policy, Some(KubeletCpuPolicy::Static));
        let cpus: Vec<String> =
            state.exclusive.iter().map(|((uid, name), cpus)| format!("{uid}/{name}={cpus}")).collect();
        assert_eq!(cpus, ["u1/main=1-2", "u2/a=3"]);
        assert_eq!(state.skipped.len(), 2);

        for text in ["", "\n", r#"{"entries":null}"#, "{}"] {
            assert_eq!(CpuManagerState::parse(text), Ok(CpuManagerState::default()), "{text:?}");
        }
        for text in ["{", "[]", r#"{"entries":[]}"#, "policyName: static"] {
            assert!(CpuManagerState::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            drop(CpuManagerState::parse(&text));
        }
    }
}
