//! Writes that the kernel took, put into words for the observer: whose they are, and why.

use super::super::observer::{WriteRecord, WriteSubject};
use super::Engine;
use super::collect::{Kind, Todo};
use crate::cgroup::resource::Resource;
use crate::claims::claim::Owner;
use crate::claims::target::CgroupTarget;

impl Engine {
    /// Tells the observer, if there is one, that the kernel took `text` in the file of `resource`.
    pub(super) fn tell(&self, todo: &Todo, resource: Resource, text: &str) {
        let Some(observer) = &self.observer else { return };
        let CgroupTarget { dir, resource: changed } = &todo.target;
        let target = CgroupTarget::new(dir, resource);
        let was = if resource == *changed {
            todo.text.clone()
        } else {
            todo.period.map(|period| period.us.to_string()).unwrap_or_default()
        };
        let (owner, why) = self.why(todo);
        observer.wrote(WriteRecord {
            path: self.parts.files.shown_path(&target),
            subject: WriteSubject::Cgroup(target),
            value: text.to_owned(),
            was,
            owner,
            why,
        });
    }

    fn why(&self, todo: &Todo) -> (Option<Owner>, String) {
        let track = self.tracks.get(&todo.target);
        match &todo.kind {
            Kind::Hold { owner, cause } => {
                let reason = self.reason_of(cause.as_ref().unwrap_or(&todo.target));
                let note = track.and_then(|track| track.note.clone());
                let sake = cause
                    .as_ref()
                    .map(|cause| format!("for the sake of {}", self.parts.files.shown_path(cause)));
                let foreign = track
                    .filter(|track| track.overwritten)
                    .map(|_| "another's value is put right".to_owned());
                let parts: Vec<String> = [foreign, sake, reason, note].into_iter().flatten().collect();
                (Some(*owner), parts.join("; "))
            }
            Kind::Give { original } => {
                let entry = self.parts.ledger.get(&todo.target);
                let what = if original.is_some() { "the value found at first" } else { "the baseline" };
                (entry.map(|entry| entry.owner), format!("no longer claimed: back to {what}"))
            }
        }
    }

    fn reason_of(&self, target: &CgroupTarget) -> Option<String> {
        self.plan.entries.get(target).map(|desired| desired.reason.text.clone())
    }
}
