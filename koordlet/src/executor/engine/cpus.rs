//! CPU lists that reach beyond their parent's. A kernel that refuses one gets what its parent has of it: the kubelet's
//! directories above a container are as their owners made them, and nobody's isolation is undone.

use super::Engine;
use super::collect::{Kind, Todo};
use super::goal::Goal;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::target::CgroupTarget;
use crate::cpuset::CpuSet;
use crate::units::Nanos;

/// What a parent leaves of a wish.
struct Cut {
    wish: CpuSet,
    parents: CpuSet,
    left: CpuSet,
}

impl Engine {
    /// Whether a list that was just refused is to be tried again at once, cut to its parent's.
    pub(super) fn try_cut(&mut self, todo: &Todo) -> bool {
        if self.cut_of(todo, &[]).is_none() {
            return false;
        }
        !std::mem::replace(&mut self.track(&todo.target).cut, true)
    }

    /// Cuts a list that was refused before to its parent's; nothing is left to do if the file holds that already.
    pub(super) fn cut_cpus(
        &mut self,
        mut todo: Todo,
        goal: &Goal,
        others: &[Todo],
        now: Nanos,
    ) -> Option<Todo> {
        if !self.is_cut(&todo.target) {
            return Some(todo);
        }
        let Some(Cut { wish, parents, left }) = self.cut_of(&todo, others) else {
            self.track(&todo.target).cut = false;
            return Some(todo);
        };
        let note = format!("{wish} cut to {left}: its parent has {parents}");
        let value = Value::Cpus(left);
        let track = self.track(&todo.target);
        (track.aim, track.note) = (Some(value.clone()), Some(note));
        if self.parts.files.holds(Resource::Cpus, &value, &todo.text, None) {
            self.reached(&todo.target, goal, now);
            return None;
        }
        todo.change.want = value;
        Some(todo)
    }

    /// What a parent leaves of a wish; `None` if it leaves all or nothing, or if that makes no difference here.
    fn cut_of(&self, todo: &Todo, others: &[Todo]) -> Option<Cut> {
        let (Value::Cpus(wish), Kind::Hold { .. }) = (&todo.change.want, &todo.kind) else { return None };
        let is_bounded = self.parts.files.layout().semantics().child_cpuset_bounded_by_parent;
        if todo.change.resource != Resource::Cpus || !is_bounded {
            return None;
        }
        let parents = self.cpus_to_be(&todo.target.dir.parent()?, others)?;
        let left = wish.intersection(&parents);
        (left != *wish && !left.is_empty()).then(|| Cut { wish: wish.clone(), parents, left })
    }

    /// What is left of an original list where the kernel refuses it, `None` if it takes it. An empty one is refused once
    /// there are tasks: the parent's list is what it had come to (C026). The parent may have less than it had then: CPUs
    /// that were the original's are others' by now.
    pub(super) fn original_cpus_cut(&self, target: &CgroupTarget, original: &Value) -> Option<CpuSet> {
        let Value::Cpus(list) = original else { return None };
        let semantics = self.parts.files.layout().semantics();
        if semantics.empty_cpuset_inherits && !semantics.child_cpuset_bounded_by_parent {
            return None;
        }
        let parents =
            self.list_given_or_present(&CgroupTarget::new(&target.dir.parent()?, target.resource))?;
        let left = list.intersection(&parents);
        if left.is_empty() {
            return Some(parents);
        }
        (left != *list).then_some(left)
    }

    /// The list that a directory gets back, where it was changed and is to, else the one that it has.
    fn list_given_or_present(&self, target: &CgroupTarget) -> Option<CpuSet> {
        let given = self.about_to_get(target).and_then(|back| self.value_of(target.resource, &back));
        if let Some(Value::Cpus(cpus)) = given
            && !cpus.is_empty()
        {
            return Some(cpus);
        }
        let text = self.parts.backend.read(&target.dir, target.resource).ok()?;
        match self.parts.files.value(target.resource, &text, None)? {
            Value::Cpus(cpus) => Some(cpus),
            _ => None,
        }
    }

    /// The list that a directory has once all is done; `None` if that cannot be told.
    fn cpus_to_be(&self, dir: &CgroupDir, others: &[Todo]) -> Option<CpuSet> {
        let target = CgroupTarget::new(dir, Resource::Cpus);
        let value = if let Some(todo) = others.iter().find(|todo| todo.target == target) {
            todo.change.want.clone()
        } else {
            let text = self.parts.backend.read(dir, Resource::Cpus).ok()?;
            self.parts.files.value(Resource::Cpus, &text, None)?
        };
        if let Value::Cpus(cpus) = value { Some(cpus) } else { None }
    }

    /// Whether less than the wish is held because of the parent's list, which may have grown.
    pub(super) fn is_cut(&self, target: &CgroupTarget) -> bool {
        self.tracks.get(target).is_some_and(|track| track.cut)
    }

    /// Lists beneath a directory that were cut, perhaps because of its own.
    pub(super) fn cut_beneath(&self, dir: &CgroupDir) -> Vec<CgroupTarget> {
        let beneath = self.planned_beneath(dir).map(|(target, _)| target);
        beneath.filter(|target| self.is_cut(target)).cloned().collect()
    }
}
