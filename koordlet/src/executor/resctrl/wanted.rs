//! What a plan wants of resctrl, sorted by what it is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::cgroup::path::CgroupDir;
use crate::claims::claim::Owner;
use crate::claims::plan::{Decision, Plan};
use crate::claims::resctrl::{ResctrlTarget, ResctrlValue};
use crate::resctrl::group::ResctrlGroup;
use crate::resctrl::schemata::{SchemataLine, SchemataResource};

/// The wishes of one plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// Who wants the file system to be mounted.
    pub(super) mount: Option<Owner>,
    /// Groups that are to be there.
    pub(super) groups: BTreeMap<ResctrlGroup, WantedGroup>,
    /// Whose tasks are to be in which group.
    pub(super) members: BTreeMap<CgroupDir, WantedMember>,
    /// Owners who have had their say.
    pub(super) synced: BTreeSet<Owner>,
}

/// A group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WantedGroup {
    /// Who wants it.
    pub(super) owner: Owner,
    /// Why.
    pub(super) why: String,
    /// Its lines, as far as somebody claims them.
    pub(super) lines: BTreeMap<SchemataResource, SchemataLine>,
}

/// A directory's group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WantedMember {
    pub(super) group: ResctrlGroup,
    pub(super) owner: Owner,
    pub(super) why: String,
}

impl Wanted {
    /// What `plan` wants.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut wanted = Self { synced: plan.synced.clone(), ..Self::default() };
        for (target, desired) in &plan.resctrl {
            let Decision::Hold(value) = &desired.decision else { continue };
            let (owner, why) = (desired.owner, desired.reason.text.clone());
            if let Some(group) = target.group(value) {
                let new = || WantedGroup { owner, why: why.clone(), lines: BTreeMap::new() };
                let known = wanted.groups.entry(group.clone()).or_insert_with(new);
                if let ResctrlValue::Line(line) = value {
                    known.lines.insert(line.resource, line.clone());
                }
            }
            match (target, value) {
                (ResctrlTarget::Mount, _) => wanted.mount = Some(owner),
                (ResctrlTarget::Tasks(dir), ResctrlValue::Group(group)) => {
                    let member = WantedMember { group: group.clone(), owner, why };
                    wanted.members.insert(dir.clone(), member);
                }
                _ => {}
            }
        }
        wanted
    }

    /// The directory that a group is for, if it is for one alone.
    pub(super) fn dir_of(&self, group: &ResctrlGroup) -> Option<&CgroupDir> {
        let mut dirs = self.members.iter().filter(|(_, member)| member.group == *group).map(|(dir, _)| dir);
        dirs.next().filter(|_| dirs.next().is_none())
    }
}
