//! How each target of the plan stands, for `koordlet explain`.

use super::{ROOT, Refusal, Resctrl, Standing};
use crate::claims::plan::{Decision, Desired};
use crate::claims::resctrl::{ResctrlTarget, ResctrlValue};
use crate::executor::ledger::{Ledger, Made};
use crate::executor::report::{Stand, TargetReport, TargetState};

impl Resctrl {
    pub(super) fn explain_one(
        &self,
        target: &ResctrlTarget,
        desired: &Desired<ResctrlTarget>,
        ledger: &Ledger,
    ) -> TargetReport {
        let (standing, refusal) = self.standing(target);
        let (state, detail) = match standing {
            _ if self.released => (TargetState::Left, Some("everything was put back".to_owned())),
            None => (TargetState::Left, None),
            Some(Standing::Held) => (TargetState::Held, self.rounded(target)),
            Some(Standing::DryRun) => (TargetState::DryRun, None),
            Some(Standing::Refused) => (TargetState::Refused, refusal.map(|refusal| refusal.answer.clone())),
            Some(Standing::Pending) => (TargetState::Pending, Some(waits_for(target).to_owned())),
        };
        let value = match &desired.decision {
            Decision::Hold(value) => Some(value),
            Decision::Leave | Decision::Release(_) => None,
        };
        let group = value.and_then(|value| target.group(value));
        let made = group.and_then(|group| ledger.made(&Made::ResctrlGroup(group.clone())));
        let stand = Stand {
            path: self.path(target),
            cgroup_id: None,
            value: value.map(ToString::to_string),
            state,
            replaced: made.map(|entry| entry.was.clone()),
            detail,
        };
        stand.report(desired, ResctrlValue::to_string)
    }

    fn standing(&self, target: &ResctrlTarget) -> (Option<&Standing>, Option<&Refusal>) {
        match target {
            ResctrlTarget::Mount => (Some(&self.mount.standing), self.mount.refusal.as_ref()),
            ResctrlTarget::Line(group, resource) => match self.groups.get(group) {
                None => (None, None),
                Some(track) => match track.lines.get(resource) {
                    Some(line) if matches!(track.standing, Standing::Held) => {
                        (Some(&line.standing), line.refusal.as_ref())
                    }
                    _ if matches!(track.standing, Standing::Held) => (Some(&Standing::Pending), None),
                    _ => (Some(&track.standing), track.refusal.as_ref()),
                },
            },
            ResctrlTarget::Tasks(dir) => match self.members.get(dir) {
                None => (None, None),
                Some(track) => (Some(&track.standing), track.refusal.as_ref()),
            },
        }
    }

    /// What the kernel made of a line, where that differs.
    fn rounded(&self, target: &ResctrlTarget) -> Option<String> {
        let ResctrlTarget::Line(group, resource) = target else { return None };
        let (wished, kept) = self.groups.get(group)?.lines.get(resource)?.held.as_ref()?;
        let differs = wished.values.iter().any(|(cache, value)| kept.values.get(cache) != Some(value));
        differs.then(|| format!("the kernel rounds it to {kept}"))
    }

    fn path(&self, target: &ResctrlTarget) -> String {
        match target {
            ResctrlTarget::Mount => ROOT.to_owned(),
            ResctrlTarget::Line(group, _) => format!("{ROOT}/{group}/schemata"),
            ResctrlTarget::Tasks(dir) => self.threads.file(dir),
        }
    }
}

/// What a target that is pending waits for.
fn waits_for(target: &ResctrlTarget) -> &'static str {
    match target {
        ResctrlTarget::Mount => "not tried yet",
        ResctrlTarget::Line(..) => "resctrl is not mounted",
        ResctrlTarget::Tasks(_) => "its group is not there yet",
    }
}
