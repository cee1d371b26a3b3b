//! Quotas that count as right, being systemd's rounding of what is wished, but lie above what a directory over
//! them is narrowed to: 120000 for 119001 beneath a pod that goes to 119001. The kernel goes by the figure and
//! refuses the parent, so such a quota is written out exactly in the same pass, children first.

use super::Engine;
use super::collect::{Todo, resource};
use super::goal::{Back, Goal};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::plan::{Decision, Subtree};
use crate::claims::target::CgroupTarget;
use crate::units::CfsQuota;

/// A directory that is about to be narrowed.
struct Narrowed {
    dir: CgroupDir,
    limit: CfsQuota,
    /// A class directory, beneath which what is not held is lifted anyway.
    class: bool,
}

impl Engine {
    /// Adds the planned quotas beneath narrowed directories that mean the right thing but hold too much.
    pub(super) fn write_out_rounded_quotas(&mut self, todos: &mut Vec<Todo>) {
        if !self.parts.files.layout().semantics().child_quota_bounded_by_parent {
            return;
        }
        let narrowed: Vec<Narrowed> = todos.iter().filter_map(|todo| self.narrowed(todo)).collect();
        for above in narrowed {
            let beneath: Vec<CgroupTarget> = self
                .planned_beneath(&above.dir)
                .map(|(target, _)| target)
                .filter(|target| resource(target) == Resource::CfsQuota)
                .filter(|target| !above.class || self.holds(target))
                .cloned()
                .collect();
            for target in beneath {
                if todos.iter().all(|todo| todo.target != target) && self.may_hold_more(&target, &above) {
                    let todo = self.rounded_above(&target, &above);
                    todos.extend(todo);
                }
            }
        }
    }

    fn narrowed(&self, todo: &Todo) -> Option<Narrowed> {
        let Value::Quota(limit @ CfsQuota::Micros(_)) = todo.change.want else { return None };
        let widens = matches!(todo.change.now, Some(Value::Quota(now)) if now <= limit);
        let class = self.subtree(&todo.target) == Subtree::Class;
        (!widens).then(|| Narrowed { dir: todo.change.dir.clone(), limit, class })
    }

    /// Whether a quota is worth a read: what was last seen of it tells, where its directory is watched.
    fn may_hold_more(&mut self, target: &CgroupTarget, above: &Narrowed) -> bool {
        let CgroupTarget { dir, .. } = target;
        let seen = self.tracks.get(target).and_then(|track| track.text.clone());
        let Some(text) = seen.filter(|_| self.is_watched(target)) else { return true };
        let period = self.period(dir, &text);
        let quota = self.parts.files.value(Resource::CfsQuota, &text, Some(period));
        !matches!(quota, Some(Value::Quota(quota)) if quota <= above.limit)
    }

    /// The change that writes a quota out, if it is wished within `above` and holds more.
    fn rounded_above(&mut self, target: &CgroupTarget, above: &Narrowed) -> Option<Todo> {
        let CgroupTarget { dir, .. } = target;
        let goal = match (self.goal(target), self.plan.entries.get(target).map(|desired| &desired.decision)) {
            // Given back before, and again now.
            (Goal::Nothing(None), Some(Decision::Release(value))) => Goal::Give(Back::Value(value.clone())),
            (goal, _) => goal,
        };
        let (Goal::Hold { value, .. } | Goal::Give(Back::Value(value))) = &goal else { return None };
        let within = matches!(value, Value::Quota(wish @ CfsQuota::Micros(_)) if *wish <= above.limit);
        if !within {
            return None;
        }
        let (id, text, _) = self.finite_quota(dir).filter(|(_, _, quota)| *quota > above.limit)?;
        if self.tracks.get(target).is_none_or(|track| track.id != Some(id)) {
            self.track(target).start_anew(id, None);
        }
        self.change(target, id, text, &goal)
    }
}
