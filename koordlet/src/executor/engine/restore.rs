//! Putting everything back: on exit if asked to, by `koordlet restore`, and offline from the ledger alone.

use std::collections::BTreeMap;

use super::super::ledger::Entry;
use super::super::report::RestoreReport;
use super::Engine;
use super::collect::Todo;
use super::goal::{Back, Goal};
use crate::cgroup::value::Value;
use crate::claims::claim::Wish;
use crate::claims::plan::Decision;
use crate::claims::target::CgroupTarget;
use crate::units::Nanos;

impl Engine {
    /// Puts every changed target back, in order: to its baseline if the plan knows one, else to what was
    /// there. After that nothing is enforced any more.
    pub fn restore_all(&mut self, now: Nanos) -> RestoreReport {
        let mut report = RestoreReport::default();
        if self.parts.dry_run {
            return report;
        }
        self.released = true;
        self.slow.inline = true;
        let entries: Vec<Entry> = self.parts.ledger.iter().cloned().collect();
        let mut paths: BTreeMap<CgroupTarget, String> = BTreeMap::new();
        let mut todos: Vec<Todo> = Vec::new();
        for entry in &entries {
            let path = self.parts.files.shown_path(&entry.target);
            match self.restoring_todo(entry, now) {
                Ok(Some(todo)) => {
                    paths.insert(entry.target.clone(), path);
                    todos.push(todo);
                }
                Ok(None) => report.restored.push(path),
                Err(()) => report.gone.push(path),
            }
        }
        self.carry_out(&todos, now);
        for (target, path) in paths {
            if self.parts.ledger.get(&target).is_none() {
                report.restored.push(path);
            } else {
                let refusal = self.tracks.get(&target).and_then(|track| track.refusal.as_ref());
                let why = refusal.map_or_else(|| "it waits for another one".to_owned(), |r| r.answer.clone());
                report.failed.push((path, why));
            }
        }
        report.restored.sort();
        for place in self.parts.watch.places() {
            self.parts.watch.remove(&place);
        }
        report
    }

    /// The change that restores an entry; `None` if nothing has to change, an error if its directory is gone.
    fn restoring_todo(&mut self, entry: &Entry, now: Nanos) -> Result<Option<Todo>, ()> {
        let target = &entry.target;
        let CgroupTarget { dir, resource } = target;
        let there = self.parts.backend.id(dir, *resource).is_ok_and(|id| id == entry.id);
        let text = if there { self.parts.backend.read(dir, *resource).ok() } else { None };
        let Some(text) = text else {
            self.forget(target);
            return Err(());
        };
        let goal = Goal::Give(self.restored(entry));
        let todo = self.compare(target, entry.id, text, &goal);
        if todo.is_none() {
            self.reached(target, &goal, now);
        }
        Ok(todo)
    }

    fn restored(&self, entry: &Entry) -> Back {
        match self.baseline(&entry.target) {
            Some(value) => Back::Value(value),
            None => Back::Original(entry.original.clone()),
        }
    }

    /// What a target is about to get back; `None` if it is not.
    pub(super) fn about_to_get(&self, target: &CgroupTarget) -> Option<Back> {
        let entry = self.parts.ledger.get(target)?;
        if self.released { Some(self.restored(entry)) } else { self.back(target) }
    }

    /// What a withdrawn claim on a target falls back to.
    fn baseline(&self, target: &CgroupTarget) -> Option<Value> {
        let desired = self.plan.entries.get(target)?;
        if let Decision::Release(value) = &desired.decision {
            return Some(value.clone());
        }
        desired.claims.iter().find_map(|claim| match &claim.wish {
            Wish::Hold(value) if claim.owner.is_baseline() => Some(value.clone()),
            _ => None,
        })
    }
}
