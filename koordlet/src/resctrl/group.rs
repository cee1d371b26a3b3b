//! Names of resctrl groups.

use std::fmt;
use std::sync::Arc;

use crate::api::qos::QosClass;

/// What the names of pods' groups begin with, hooks.md 11.1.
const POD_PREFIX: &str = "koordlet-";

/// Longest pod UID that becomes a name; real ones have 36 bytes.
const MAX_UID: usize = 128;

/// A pod UID that cannot be part of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pod UID {0:?} cannot be the name of a resctrl group")]
pub struct GroupNameError(String);

/// A group beneath the root group. Its name is one plain part of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResctrlGroup(Arc<str>);

impl ResctrlGroup {
    /// The group of one pod.
    ///
    /// # Errors
    /// The UID is empty, too long, or holds more than letters, digits, dots, dashes and underscores.
    pub fn of_pod(uid: &str) -> Result<Self, GroupNameError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if uid.is_empty() || uid.len() > MAX_UID || !uid.bytes().all(is_plain) {
            return Err(GroupNameError(uid.chars().take(MAX_UID).collect()));
        }
        Ok(Self(format!("{POD_PREFIX}{uid}").into()))
    }

    /// The group that a class's pods share, qos.md 5.6; SYSTEM has none.
    pub fn of_class(class: QosClass) -> Option<Self> {
        match class {
            QosClass::Lse | QosClass::Lsr => Some("LSR"),
            QosClass::Ls => Some("LS"),
            QosClass::Be => Some("BE"),
            QosClass::System => None,
        }
        .map(|name| Self(name.into()))
    }

    /// The group of a directory's name, if it is one that this agent or the reference makes for pods.
    pub fn of_pods_dir(name: &str) -> Option<Self> {
        name.strip_prefix(POD_PREFIX).and_then(|uid| Self::of_pod(uid).ok())
    }

    /// The group of a name that was written down: a class's or a pod's.
    pub fn known(name: &str) -> Option<Self> {
        let classes = [QosClass::Lsr, QosClass::Ls, QosClass::Be].into_iter().filter_map(Self::of_class);
        classes.into_iter().find(|group| group.name() == name).or_else(|| Self::of_pods_dir(name))
    }

    /// Its directory's name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The UID of the pod whose group it is.
    pub fn pod_uid(&self) -> Option<&str> {
        self.0.strip_prefix(POD_PREFIX)
    }
}

impl fmt::Display for ResctrlGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_uid_leads_out_of_the_tree() {
        let long = "x".repeat(MAX_UID + 1);
        for uid in ["", "../x", "a/b", "a\nb", "..\0", "ü", "a b", &long] {
            assert!(ResctrlGroup::of_pod(uid).is_err(), "{uid:?}");
            assert_eq!(ResctrlGroup::of_pods_dir(&format!("koordlet-{uid}")), None, "{uid:?}");
        }
        let group = ResctrlGroup::of_pod("0a-1b").unwrap();
        assert_eq!((group.name(), group.pod_uid()), ("koordlet-0a-1b", Some("0a-1b")));
        assert_eq!(ResctrlGroup::known("koordlet-0a-1b"), Some(group));
        assert_eq!(ResctrlGroup::of_pod("..").unwrap().name(), "koordlet-..", "a name like any other");
    }

    #[test]
    fn classes_share_three_groups() {
        let name = |class| ResctrlGroup::of_class(class).map(|group| group.to_string());
        assert_eq!(name(QosClass::Lse), name(QosClass::Lsr));
        assert_eq!(name(QosClass::Ls).as_deref(), Some("LS"));
        assert_eq!(name(QosClass::System), None);
        let be = ResctrlGroup::known("BE").unwrap();
        assert_eq!((be.name(), be.pod_uid()), ("BE", None));
        for name in ["info", "mon_groups", "mon_data", "", "other", "koordlet-"] {
            assert_eq!(ResctrlGroup::known(name), None, "{name:?}");
        }
    }
}
