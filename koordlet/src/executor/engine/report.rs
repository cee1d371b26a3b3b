//! What `koordlet explain` shows.

use super::super::report::{Stand, TargetReport, TargetState};
use super::Engine;
use super::track::{Standing, Track};
use crate::cgroup::value::Value;
use crate::claims::plan::{Decision, Desired};
use crate::claims::target::CgroupTarget;

impl Engine {
    /// One report a target of the plan. Reads the files of those that are not held, whose text is not known.
    pub fn explain(&self) -> Vec<TargetReport> {
        self.plan.entries.iter().map(|(target, desired)| self.explain_one(target, desired)).collect()
    }

    fn explain_one(&self, target: &CgroupTarget, desired: &Desired) -> TargetReport {
        let track = self.tracks.get(target);
        let standing = track.map_or(&Standing::Unseen, |track| &track.standing);
        let (state, detail) = self.state(desired, standing, track);
        let stand = Stand {
            path: self.parts.files.shown_path(target),
            cgroup_id: track.and_then(|track| track.id),
            value: self.shown_value(target, desired, standing, track),
            state,
            replaced: self.parts.ledger.get(target).map(|entry| entry.original.value.clone()),
            detail,
        };
        stand.report(desired, |value| self.kernel_text(target, value))
    }

    fn state(
        &self,
        desired: &Desired,
        standing: &Standing,
        track: Option<&Track>,
    ) -> (TargetState, Option<String>) {
        let note = || track.and_then(|track| track.note.clone());
        if self.released {
            return (TargetState::Left, Some("everything was put back".to_owned()));
        }
        match (standing, &desired.decision) {
            (_, Decision::Leave) | (Standing::Unseen, Decision::Release(_)) => {
                return (TargetState::Left, None);
            }
            _ => {}
        }
        match standing {
            Standing::Held => (TargetState::Held, note()),
            Standing::DryRun => (TargetState::DryRun, note()),
            Standing::Unseen => (TargetState::Pending, None),
            Standing::Waiting(why) => (TargetState::Pending, Some(why.clone())),
            Standing::Left(why) => (TargetState::Left, why.map(str::to_owned)),
            Standing::Refused => {
                let detail = track.and_then(|track| track.refusal.as_ref()).map(|refusal| {
                    format!("{:?} refused {} times: {}", refusal.wished, refusal.attempts, refusal.answer)
                });
                (TargetState::Refused, detail)
            }
        }
    }

    /// What the file holds where it is held or left alone, also after a restore, else what is wished.
    fn shown_value(
        &self,
        target: &CgroupTarget,
        desired: &Desired,
        standing: &Standing,
        track: Option<&Track>,
    ) -> Option<String> {
        let CgroupTarget { dir, resource } = target;
        match (&desired.decision, standing) {
            _ if self.released => self.parts.backend.read(dir, *resource).ok(),
            (Decision::Hold(_), Standing::Held) => track.and_then(|track| track.text.clone()),
            (Decision::Hold(value), _) => Some(self.kernel_text(target, value)),
            (Decision::Leave | Decision::Release(_), _) => self.parts.backend.read(dir, *resource).ok(),
        }
    }

    fn kernel_text(&self, target: &CgroupTarget, value: &Value) -> String {
        let CgroupTarget { resource, .. } = target;
        self.parts.files.text(*resource, value, None).unwrap_or_else(|_| value.to_string())
    }
}
