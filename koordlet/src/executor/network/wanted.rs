//! What the plan wants of the network, target by target -> as the kernel's parts. Pure.

use std::collections::BTreeMap;

use super::packets::Packets;
use crate::claims::network::{ClassId, ClassShare, NetworkTarget, NetworkValue};
use crate::claims::plan::{Decision, Plan};

/// All parts; each may be left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// Classes of the tree; none without a tree.
    pub(super) classes: BTreeMap<ClassId, ClassShare>,
    /// Whether the tree has filters by cgroup.
    pub(super) filters: bool,
    /// What the packet table says.
    pub(super) packets: Option<Packets>,
}

impl Wanted {
    /// What `plan` wants. Without the root class there is no tree, whatever else is claimed of it.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut wanted = Self::default();
        for (target, desired) in &plan.network {
            let Decision::Hold(value) = &desired.decision else { continue };
            match (target, value) {
                (NetworkTarget::Class(class), NetworkValue::Share(share)) => {
                    wanted.classes.insert(*class, *share);
                }
                (NetworkTarget::CgroupFilters, _) => wanted.filters = true,
                (NetworkTarget::Addresses(class), NetworkValue::Addresses(addresses)) => {
                    wanted.packets.get_or_insert_default().take(*class, addresses);
                }
                (NetworkTarget::Class(_) | NetworkTarget::Addresses(_), _) => {}
            }
        }
        if !wanted.classes.contains_key(&ClassId::ROOT) {
            (wanted.classes, wanted.filters) = (BTreeMap::new(), false);
        }
        wanted
    }

    /// Whether nothing is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.packets.is_none()
    }
}

/// A part of the network that stands or falls as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The tree of classes.
    Tree,
    /// Its filters by cgroup.
    Filters,
    /// The packet table.
    Packets,
}

impl Part {
    /// The part that a target belongs to.
    pub(super) fn of(target: NetworkTarget) -> Self {
        match target {
            NetworkTarget::Class(_) => Self::Tree,
            NetworkTarget::CgroupFilters => Self::Filters,
            NetworkTarget::Addresses(_) => Self::Packets,
        }
    }

    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tree => "network classes",
            Self::Filters => "network filters by cgroup",
            Self::Packets => "network addresses of classes",
        }
    }
}
