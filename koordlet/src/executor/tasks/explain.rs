//! What `koordlet explain` shows of tasks.

use super::Standing;
use super::Tasks;
use crate::claims::plan::{Decision, Desired};
use crate::claims::target::{TaskAttribute, TaskTarget, TaskValue};
use crate::executor::report::{Stand, TargetReport, TargetState};

impl Tasks {
    /// What stands for a target's path: the reference's name of the attribute, in the directory.
    pub(super) fn path(&self, target: &TaskTarget) -> String {
        let name = match target.attribute {
            TaskAttribute::OomScoreAdj => "oom_score_adj",
            TaskAttribute::CoreSchedCookie => "core_sched_cookie",
        };
        self.shown_root.join(target.dir.as_str()).join(name).display().to_string()
    }

    /// One report of a target of the plan; reads nothing.
    pub(super) fn explain_one(&self, target: &TaskTarget, desired: &Desired<TaskTarget>) -> TargetReport {
        let track = self.tracks.get(target);
        let tasks = |count: usize| {
            let tasks = if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
            Some(match &desired.decision {
                Decision::Hold(TaskValue::CookieOf(group)) => format!("group {group:?}, {tasks}"),
                _ => tasks,
            })
        };
        let mut value = match &desired.decision {
            Decision::Hold(value) => Some(value.to_string()),
            Decision::Leave | Decision::Release(_) => None,
        };
        let (state, detail) = match track.map(|track| &track.standing) {
            _ if self.released => (TargetState::Left, Some("everything was put back".to_owned())),
            Some(Standing::Held(text, count)) => {
                value = Some(text.clone());
                (TargetState::Held, tasks(*count))
            }
            Some(Standing::Missing) => (TargetState::Pending, Some("there is no such directory".to_owned())),
            Some(Standing::Empty) => (TargetState::Pending, tasks(0)),
            Some(Standing::DryRun(count)) => (TargetState::DryRun, tasks(*count)),
            Some(Standing::Refused) => {
                let refusal = track.and_then(|track| track.refusal.as_ref());
                (TargetState::Refused, refusal.map(|refusal| refusal.answer.clone()))
            }
            Some(Standing::Unseen) => (TargetState::Pending, None),
            None => (TargetState::Left, None),
        };
        let replaced = match target.attribute {
            TaskAttribute::OomScoreAdj => self.scores.original(&target.dir).map(|score| score.to_string()),
            TaskAttribute::CoreSchedCookie => None,
        };
        let stand = Stand { path: self.path(target), cgroup_id: None, value, state, replaced, detail };
        stand.report(desired, TaskValue::to_string)
    }
}
