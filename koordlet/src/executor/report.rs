//! What the executor tells others: one report a target (design.md 5, `explain -o json`), the outcome of a
//! restore, and notices of things worth an event.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::claims::claim::{Owner, Wish};
use crate::claims::plan::Desired;
use crate::claims::target::Target;

/// How a target stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetState {
    /// The kernel holds the wished value and it is guarded.
    Held,
    /// Not written yet: the directory is not there or being born, or a step before it has to come first.
    Pending,
    /// The kernel's answer was no; tried again with back-off.
    Refused,
    /// Nothing is held here.
    Left,
    /// The wished value would be written, were this not a dry run.
    DryRun,
}

/// One claim behind a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimReport {
    /// Who wishes.
    pub owner: Owner,
    /// Kernel text of the wish; `null` where the owner wants others' value kept.
    pub value: Option<String>,
    /// Why.
    pub reason: String,
    /// Whether this claim decided.
    pub won: bool,
}

/// One target, as `koordlet explain` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetReport {
    /// Absolute path of the file as the host sees it.
    pub path: String,
    /// Inode number of the directory, once seen.
    pub cgroup_id: Option<u64>,
    /// Kernel text: what the file holds where the value is held, else what is wished.
    pub value: Option<String>,
    /// How it stands.
    pub state: TargetState,
    /// Whose claim decided.
    pub owner: Owner,
    /// Why, in one sentence.
    pub reason: String,
    /// Figures that went into it.
    pub inputs: BTreeMap<&'static str, String>,
    /// Kernel text that was there before our first write.
    pub replaced: Option<String>,
    /// All claims, the deciding one first.
    pub claims: Vec<ClaimReport>,
    /// What keeps the value from being held, e.g. the kernel's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a target stands, for a report.
pub(super) struct Stand {
    /// Path as the host sees it.
    pub(super) path: String,
    /// Inode number of its directory.
    pub(super) cgroup_id: Option<u64>,
    /// Text that is shown as its value.
    pub(super) value: Option<String>,
    pub(super) state: TargetState,
    /// Text that was there before our first write.
    pub(super) replaced: Option<String>,
    pub(super) detail: Option<String>,
}

impl Stand {
    /// The report of a target that stands so, with what the plan says of it: whose it is and why, and all claims.
    /// `text` writes a value as the kernel does.
    pub(super) fn report<T: Target>(
        self,
        desired: &Desired<T>,
        text: impl Fn(&T::Value) -> String,
    ) -> TargetReport {
        let claims = desired.claims.iter().enumerate();
        let claims = claims
            .map(|(index, claim)| ClaimReport {
                owner: claim.owner,
                value: match &claim.wish {
                    Wish::Hold(value) => Some(text(value)),
                    Wish::Leave => None,
                },
                reason: claim.reason.text.clone(),
                won: index == 0,
            })
            .collect();
        let Self { path, cgroup_id, value, state, replaced, detail } = self;
        TargetReport {
            path,
            cgroup_id,
            value,
            state,
            owner: desired.owner,
            reason: desired.reason.text.clone(),
            inputs: desired.reason.inputs.clone(),
            replaced,
            claims,
            detail,
        }
    }
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// Paths that hold their former value again.
    pub restored: Vec<String>,
    /// Paths whose cgroup is gone, so that there is nothing to restore.
    pub gone: Vec<String>,
    /// Paths that could not be restored, and why. Their ledger entries stay.
    pub failed: Vec<(String, String)>,
}

/// Kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NoticeKind {
    /// Somebody else wrote a value that we hold.
    ForeignWrite,
    /// Somebody else keeps writing a value that we hold: three times within a minute.
    Contended,
    /// The kernel refused a value.
    Refused,
    /// A memory write has been in the kernel for longer than its deadline.
    Overdue,
    /// A part of the ledger was damaged and set aside.
    LedgerDamaged,
    /// The ledger cannot be written, so that nothing new is enforced.
    LedgerUnwritable,
    /// A directory cannot be watched.
    Unwatched,
    /// A resctrl group was made.
    GroupMade,
}

/// Something worth an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What kind.
    pub kind: NoticeKind,
    /// Path that it is about.
    pub target: String,
    /// One sentence.
    pub text: String,
}
