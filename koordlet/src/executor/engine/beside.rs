//! Settings that have to change along with others, since the kernel would refuse those: bursts with their
//! quotas, quotas beneath class directories, shares of idle groups. Also where nobody claims them; then they
//! are remembered for the sake of the claimed one, and given back with it.

use super::super::ledger::Original;
use super::collect::{Kind, Todo};
use super::goal::{Back, Goal};
use super::{Engine, Search};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::{Value, quota_for_period};
use crate::claims::claim::Owner;
use crate::claims::target::CgroupTarget;
use crate::units::{CfsQuota, Nanos};

/// Most directories that are searched for quotas beneath a class directory.
const MAX_SEARCH: usize = 100_000;

impl Engine {
    /// A burst above the quota is refused by the kernel (C007, C215): it is cut. One that is only held back
    /// for the quota's sake is given back where it fits.
    pub(super) fn cut_burst(&mut self, target: &CgroupTarget, goal: Goal, others: &[Todo]) -> Goal {
        let CgroupTarget { dir, resource: Resource::CfsBurst } = target else { return goal };
        let (Goal::Hold { value, .. } | Goal::Give(Back::Value(value))) = &goal else { return goal };
        let Value::Int(burst) = *value else { return goal };
        let limit = self.quota_to_be(dir, others).filter(|limit| burst > *limit);
        match (goal, limit) {
            (Goal::Hold { owner, cause, .. }, Some(limit)) => Goal::Hold {
                value: Value::Int(limit),
                owner,
                cause,
                note: Some(format!("{burst} cut to the quota {limit}, above which the kernel refuses it")),
            },
            (Goal::Hold { cause: Some(_), .. }, None) => match self.back(target) {
                Some(back) => Goal::Give(back),
                None => Goal::Nothing(None),
            },
            (Goal::Give(_), Some(limit)) => Goal::Give(Back::Value(Value::Int(limit))),
            (goal, _) => goal,
        }
    }

    /// The quota that a directory has once all is done, in microseconds of its period; `None` is unlimited.
    fn quota_to_be(&mut self, dir: &CgroupDir, others: &[Todo]) -> Option<i64> {
        let target = CgroupTarget::new(dir, Resource::CfsQuota);
        let text = self.parts.backend.read(dir, Resource::CfsQuota).ok()?;
        let period = self.period(dir, &text);
        let changing = others.iter().find(|todo| todo.target == target);
        let value = match (changing, self.goal(&target)) {
            (Some(todo), _) => Some(todo.change.want.clone()),
            (None, Goal::Hold { value, .. }) => Some(value),
            (None, Goal::Give(back)) => self.value_of(Resource::CfsQuota, &back),
            (None, Goal::Wait(_) | Goal::Nothing(_)) => {
                self.parts.files.value(Resource::CfsQuota, &text, Some(period))
            }
        };
        match value? {
            Value::Quota(quota) => quota_for_period(quota, period.us).micros(),
            _ => None,
        }
    }

    /// A burst above its quota is refused (C007): each quota that changes takes the burst beside it along, also
    /// one that nobody claims.
    pub(super) fn take_bursts_along(&mut self, todos: &mut Vec<Todo>, now: Nanos) {
        let quotas: Vec<Todo> =
            todos.iter().filter(|todo| todo.change.resource == Resource::CfsQuota).cloned().collect();
        for quota in quotas {
            let burst = CgroupTarget::new(&quota.change.dir, Resource::CfsBurst);
            if self.holds(&burst) || self.parts.ledger.get(&burst).is_some() {
                todos.retain(|todo| todo.target != burst);
                let todo = self.examine(&burst, todos, now);
                todos.extend(todo);
            } else {
                let todo = self.unclaimed_burst(&burst, &quota);
                todos.extend(todo);
            }
        }
    }

    /// Cutting a burst that nobody claims to the quota that comes. For a claimed quota it is remembered.
    fn unclaimed_burst(&mut self, burst: &CgroupTarget, quota: &Todo) -> Option<Todo> {
        let Value::Quota(to_be) = quota.change.want else { return None };
        let limit = quota_for_period(to_be, quota.period?.us).micros()?;
        let text = self.known_text(burst)?;
        match self.parts.files.value(Resource::CfsBurst, &text, None)? {
            Value::Int(present) if present > limit => {}
            _ => return None,
        }
        let value = Value::Int(limit);
        let goal = match &quota.kind {
            Kind::Hold { owner, .. } => {
                Goal::Hold { value, owner: *owner, cause: Some(quota.target.clone()), note: None }
            }
            Kind::Give { .. } => Goal::Give(Back::Value(value)),
        };
        self.track(burst).start_anew(quota.id, None);
        self.compare(burst, quota.id, text, &goal)
    }

    /// Quotas that nobody claims, beneath a class directory that is narrowed below them (design.md 4): lifted.
    pub(super) fn lift_quotas_above_classes(&mut self, todos: &mut Vec<Todo>) {
        if !self.parts.files.layout().semantics().child_quota_bounded_by_parent {
            return;
        }
        let narrowed: Vec<(CgroupTarget, CfsQuota, Owner)> =
            todos.iter().filter_map(|todo| self.narrowed_class(todo)).collect();
        for (class, limit, owner) in narrowed {
            let CgroupTarget { dir, .. } = &class;
            let mut largest_left = CfsQuota::Micros(0);
            for beneath in self.directories_beneath(dir) {
                let target = CgroupTarget::new(&beneath, Resource::CfsQuota);
                if self.holds(&target) || todos.iter().any(|t| t.target == target) {
                    continue;
                }
                let Some((id, text, quota)) = self.finite_quota(&beneath) else { continue };
                if quota <= limit {
                    largest_left = largest_left.max(quota);
                    continue;
                }
                self.track(&target).start_anew(id, None);
                let value = Value::Quota(CfsQuota::Unlimited);
                let goal = Goal::Hold { value, owner, cause: Some(class.clone()), note: None };
                todos.extend(self.compare(&target, id, text, &goal));
            }
            let repeated = self.searched.get(&class).is_some_and(|search| search.repeated);
            self.searched.insert(class, Search { largest_left, repeated });
        }
    }

    /// Whether a change narrows a class directory to where unknown quotas may be, and if so for whom.
    fn narrowed_class(&self, todo: &Todo) -> Option<(CgroupTarget, CfsQuota, Owner)> {
        let (Value::Quota(want), Some(Value::Quota(now)), Kind::Hold { owner, .. }) =
            (&todo.change.want, &todo.change.now, &todo.kind)
        else {
            return None;
        };
        let known = *now != CfsQuota::Unlimited
            && self.searched.get(&todo.target).is_some_and(|search| *want >= search.largest_left);
        let class = self.held_class_quota(&todo.change.dir) == Some(*want);
        (class && want < now && !known).then(|| (todo.target.clone(), *want, *owner))
    }

    /// A directory's id, quota text and quota, if that is finite.
    pub(super) fn finite_quota(&mut self, dir: &CgroupDir) -> Option<(u64, String, CfsQuota)> {
        let id = self.parts.backend.id(dir, Resource::CfsQuota).ok()?;
        let text = self.parts.backend.read(dir, Resource::CfsQuota).ok()?;
        let period = self.period(dir, &text);
        match self.parts.files.value(Resource::CfsQuota, &text, Some(period))? {
            Value::Quota(quota @ CfsQuota::Micros(_)) => Some((id, text, quota)),
            _ => None,
        }
    }

    /// Setting `cpu.idle` makes the kernel forget the group's shares (C012): they are remembered, to be given
    /// back when it is cleared.
    pub(super) fn remember_shares_of_idle(&mut self, todos: &[Todo]) {
        for todo in todos {
            let (Resource::CpuIdle, Value::Int(1), Kind::Hold { owner, .. }) =
                (todo.change.resource, &todo.change.want, &todo.kind)
            else {
                continue;
            };
            let shares = CgroupTarget::new(&todo.change.dir, Resource::CpuShares);
            if self.parts.ledger.get(&shares).is_some() || self.parts.dry_run {
                continue;
            }
            if let Ok(value) = self.parts.backend.read(&todo.change.dir, Resource::CpuShares) {
                let original = Original { value, period: None };
                self.record_entry(&shares, todo.id, *owner, original, Some(todo.target.clone()));
            }
        }
    }

    /// Clearing `cpu.idle` resets the shares: they are written after it, also where the idle group's happen to
    /// be the wished ones.
    pub(super) fn take_shares_along(&mut self, todos: &mut Vec<Todo>) {
        let cleared: Vec<(CgroupDir, u64)> = todos
            .iter()
            .filter(|todo| todo.change.resource == Resource::CpuIdle && todo.change.want == Value::Int(0))
            .map(|todo| (todo.change.dir.clone(), todo.id))
            .collect();
        for (dir, id) in cleared {
            let shares = CgroupTarget::new(&dir, Resource::CpuShares);
            let ours = self.holds(&shares) || self.parts.ledger.get(&shares).is_some();
            if !ours || todos.iter().any(|todo| todo.target == shares) {
                continue;
            }
            // Gone meanwhile: its own event tells.
            let Ok(text) = self.parts.backend.read(&dir, Resource::CpuShares) else { continue };
            let goal = self.goal(&shares);
            let todo = self.change(&shares, id, text, &goal);
            todos.extend(todo);
        }
    }

    fn directories_beneath(&self, dir: &CgroupDir) -> Vec<CgroupDir> {
        let mut found = Vec::new();
        let mut open = vec![dir.clone()];
        while let Some(dir) = open.pop() {
            // One that vanishes meanwhile has no children.
            let children = self.parts.backend.children(&dir, Resource::CfsQuota).unwrap_or_default();
            if found.len() > MAX_SEARCH {
                break;
            }
            open.extend(children.iter().cloned());
            found.extend(children);
        }
        found
    }
}
