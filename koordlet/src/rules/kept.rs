//! Claims of pods as they were made last. They stay for as long as nothing changes that they follow from: the pod, the
//! directory of its sandbox, and what the plugins know. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use super::wishes::Wishes;
use crate::cgroup::path::CgroupDir;
use crate::claims::claim::Claims;
use crate::state::pods::{PodEntry, PodTable};

/// The claims of each pod.
#[derive(Debug, Default)]
pub(super) struct KeptClaims {
    pods: HashMap<Arc<str>, Kept>,
    /// Remembers reasons for pods with the same figures.
    wishes: Wishes,
}

/// The claims of one pod, and what they were made from.
#[derive(Debug)]
struct Kept {
    pod: Arc<PodEntry>,
    sandbox: Option<CgroupDir>,
    claims: Arc<Claims>,
}

impl KeptClaims {
    /// Forgets everything: a plugin knows something else than before.
    pub(super) fn forget(&mut self) {
        self.pods.clear();
        self.wishes = Wishes::default();
    }

    /// The claims of a pod: those that were made last, or what `make` says.
    pub(super) fn of(
        &mut self,
        pod: &Arc<PodEntry>,
        sandbox: Option<&CgroupDir>,
        make: impl FnOnce(&mut Wishes, &mut Claims),
    ) -> Arc<Claims> {
        if let Some(kept) = self.pods.get(&pod.uid)
            && Arc::ptr_eq(&kept.pod, pod)
            && kept.sandbox.as_ref() == sandbox
        {
            return Arc::clone(&kept.claims);
        }
        let mut claims = Claims::default();
        make(&mut self.wishes, &mut claims);
        let claims = Arc::new(claims);
        let kept = Kept { pod: Arc::clone(pod), sandbox: sandbox.cloned(), claims: Arc::clone(&claims) };
        self.pods.insert(Arc::clone(&pod.uid), kept);
        claims
    }

    /// Drops what is kept of pods that are gone.
    pub(super) fn retain(&mut self, table: &PodTable) {
        self.pods.retain(|uid, _| table.pods.contains_key(uid));
        self.wishes.drop_unused_reasons();
    }
}
