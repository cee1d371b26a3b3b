//! CPU lists that reach beyond their parent's. Where the kernel refuses those, a wish is cut to what the parent has:
//! the kubelet's directories above a container are as their owners made them, and nobody's isolation is undone.

use super::Engine;
use super::collect::{Kind, Todo};
use super::goal::Goal;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::target::CgroupTarget;
use crate::cpuset::CpuSet;
use crate::units::Nanos;

impl Engine {
    /// Cuts a held list to the parent's; nothing is left to do if the file holds that already. A list that would be
    /// empty stays as it is, for the kernel to refuse.
    pub(super) fn cut_cpus(
        &mut self,
        mut todo: Todo,
        goal: &Goal,
        others: &[Todo],
        now: Nanos,
    ) -> Option<Todo> {
        let (Value::Cpus(wish), Kind::Hold { .. }) = (&todo.change.want, &todo.kind) else {
            return Some(todo);
        };
        if todo.change.resource != Resource::Cpus
            || !self.parts.files.layout().semantics().child_cpuset_bounded_by_parent
        {
            return Some(todo);
        }
        let parents = todo.target.dir.parent().and_then(|parent| self.cpus_to_be(&parent, others));
        let Some(parents) = parents.filter(|parents| !wish.is_subset(parents)) else { return Some(todo) };
        let cut = wish.intersection(&parents);
        if cut.is_empty() {
            return Some(todo);
        }
        let note = format!("{wish} cut to {cut}: its parent has {parents}");
        let value = Value::Cpus(cut);
        let track = self.track(&todo.target);
        (track.aim, track.note) = (Some(value.clone()), Some(note));
        if self.parts.files.holds(Resource::Cpus, &value, &todo.text, None) {
            self.reached(&todo.target, goal, now);
            return None;
        }
        todo.change.want = value;
        Some(todo)
    }

    /// The list that a directory has once all is done; `None` if that cannot be told.
    fn cpus_to_be(&self, dir: &CgroupDir, others: &[Todo]) -> Option<CpuSet> {
        let target = CgroupTarget::new(dir, Resource::Cpus);
        let value = match others.iter().find(|todo| todo.target == target) {
            Some(todo) => todo.change.want.clone(),
            None => {
                let text = self.parts.backend.read(dir, Resource::Cpus).ok()?;
                self.parts.files.value(Resource::Cpus, &text, None)?
            }
        };
        match value {
            Value::Cpus(cpus) => Some(cpus),
            _ => None,
        }
    }

    /// Whether less than the wish is held because of the parent's list, which may have grown.
    pub(super) fn is_cut(&self, target: &CgroupTarget) -> bool {
        let has_note = || self.tracks.get(target).is_some_and(|track| track.note.is_some());
        target.resource == Resource::Cpus && has_note()
    }

    /// Lists beneath a directory that were cut, perhaps because of its own.
    pub(super) fn cut_beneath(&self, dir: &CgroupDir) -> Vec<CgroupTarget> {
        let beneath = self.planned_beneath(dir).map(|(target, _)| target);
        beneath.filter(|target| self.is_cut(target)).cloned().collect()
    }
}
