//! What others do: directories come and go, and others write to files that we hold.

use super::super::report::NoticeKind;
use super::super::stats::count;
use super::super::watch::{FileEvent, Place};
use super::track::Standing;
use super::{Engine, MAX_BIRTHS};
use crate::cgroup::resource::{Controller, Resource};
use crate::claims::target::CgroupTarget;
use crate::ebpf::events::CgroupEvent;
use crate::units::Nanos;

/// Foreign writes in a directory's first seconds belong to its birth.
pub(super) const BIRTH: Nanos = Nanos(2_000_000_000);

/// Events beside a refused target lead to another try after this long at the earliest.
const RETRY_PAUSE: Nanos = Nanos(1_000_000_000);

impl Engine {
    /// A directory came or went, or events of that kind were lost.
    pub fn cgroup_event(&mut self, event: &CgroupEvent, now: Nanos) {
        match event {
            CgroupEvent::Born { controllers, id, dir } => {
                if let Some(hierarchy) = self.hierarchy_of(controllers) {
                    self.born(Place { hierarchy, dir: dir.clone() }, *id, now);
                }
            }
            CgroupEvent::Died { controllers, id, dir } => {
                if let Some(hierarchy) = self.hierarchy_of(controllers) {
                    self.died(&Place { hierarchy, dir: dir.clone() }, Some(*id));
                }
            }
            CgroupEvent::Lost { .. } => self.recheck_all(now),
        }
        self.settle(now);
    }

    /// Something happened in a watched directory.
    pub fn file_event(&mut self, event: &FileEvent, now: Nanos) {
        match event {
            FileEvent::Modified { place, name } => self.modified(place, name, now),
            FileEvent::Removed { place } => self.died(place, None),
            FileEvent::Overflow => {
                count(&self.parts.stats.overflows);
                self.recheck_all(now);
            }
        }
        self.settle(now);
    }

    fn hierarchy_of(&self, controllers: &[Controller]) -> Option<usize> {
        let hierarchies = self.parts.files.layout().hierarchies();
        hierarchies.iter().position(|h| h.controllers().iter().any(|c| controllers.contains(c)))
    }

    /// What was held under this path is another directory's. A plan may know the directory before it is there.
    fn born(&mut self, place: Place, id: u64, now: Nanos) {
        for target in self.planned_in(&place.dir, place.hierarchy) {
            if self.holds(&target) || self.tracks.contains_key(&target) {
                let track = self.track(&target);
                if track.id != Some(id) {
                    track.start_anew(id, Some(now));
                }
                track.born = Some(now);
            }
            self.make_due(&target, now);
        }
        if self.births.len() >= MAX_BIRTHS {
            self.births.retain(|_, (_, at)| now < *at + BIRTH);
        }
        if self.births.len() < MAX_BIRTHS {
            self.births.insert(place, (id, now));
        }
    }

    fn died(&mut self, place: &Place, id: Option<u64>) {
        self.parts.watch.remove(place);
        self.births.remove(place);
        self.known.retain(|CgroupTarget { dir, .. }, _| *dir != place.dir);
        let there: Vec<CgroupTarget> = self
            .tracks
            .iter()
            .filter(|(target, track)| {
                let CgroupTarget { dir, resource } = target;
                *dir == place.dir
                    && self.parts.files.hierarchy(*resource) == Some(place.hierarchy)
                    && (id.is_none() || track.id == id)
            })
            .map(|(target, _)| target.clone())
            .collect();
        for target in there {
            // It may have been made anew before the news came: look, do not guess.
            let CgroupTarget { dir, resource } = &target;
            if self.parts.backend.id(dir, *resource).is_ok() {
                self.make_due(&target, Nanos(0));
            } else {
                self.due.remove(&target);
                self.vanished(&target);
            }
        }
    }

    fn modified(&mut self, place: &Place, name: &str, now: Nanos) {
        let dir = &place.dir;
        for resource in [Resource::CfsPeriod, Resource::CfsBurst] {
            if self.parts.files.file_name(dir, resource).as_deref() == Some(name) {
                self.known.remove(&CgroupTarget::new(dir, resource));
            }
        }
        // With another period the same quota means another share.
        let quota = CgroupTarget::new(dir, Resource::CfsQuota);
        let period_alone = self.parts.files.file_name(dir, Resource::CfsPeriod).as_deref() == Some(name)
            && !self.parts.files.period_in_quota_file(dir);
        if period_alone && self.holds(&quota) {
            self.make_due(&quota, now);
        }
        let written: Vec<CgroupTarget> = self
            .planned_in(dir, place.hierarchy)
            .into_iter()
            .filter(|CgroupTarget { resource, .. }| {
                self.parts.files.file_name(dir, *resource).as_deref() == Some(name)
            })
            .collect();
        let is_echo = !written.is_empty() && written.iter().all(|target| self.is_echo(target));
        for target in written {
            self.written_by_somebody(&target, now);
        }
        if is_echo {
            return;
        }
        // What was refused because of this file may be accepted now.
        for near in self.refused_near(&quota) {
            self.retry_soon(&near, now);
        }
    }

    /// Tries a refused target again at once, but not for each of a storm of events.
    fn retry_soon(&mut self, target: &CgroupTarget, now: Nanos) {
        if let Some(refusal) = self.tracks.get(target).and_then(|track| track.refusal.as_ref()) {
            let at = now.max(refusal.at + RETRY_PAUSE);
            self.make_due(target, at);
        }
    }

    /// Whether a write left a refused file as we saw it last: most likely our own, of a value that the kernel did not
    /// keep. Trying again because of that would try for ever.
    fn is_echo(&self, target: &CgroupTarget) -> bool {
        let CgroupTarget { dir, resource } = target;
        self.refused.contains(target)
            && self
                .tracks
                .get(target)
                .and_then(|track| track.text.as_ref())
                .is_some_and(|seen| self.parts.backend.read(dir, *resource).is_ok_and(|text| text == *seen))
    }

    /// A file that we hold was written.
    fn written_by_somebody(&mut self, target: &CgroupTarget, now: Nanos) {
        if self.released || self.parts.dry_run || !self.holds(target) {
            return;
        }
        let Some(track) = self.tracks.get(target) else { return };
        if track.contended_until.is_some_and(|until| now < until) {
            return;
        }
        let CgroupTarget { dir, resource } = target;
        // Gone between the write and the look: its own event tells.
        if let Ok(text) = self.parts.backend.read(dir, *resource) {
            self.found(target, &text, now);
        }
    }

    /// Takes what a held file was found to hold: our own write, if it is what we saw there last.
    pub(super) fn found(&mut self, target: &CgroupTarget, text: &str, now: Nanos) {
        let CgroupTarget { dir, resource } = target;
        let Some(track) = self.tracks.get(target) else { return };
        if track.text.as_deref() == Some(text) {
            return;
        }
        let (was, aim) = (track.standing.clone(), track.aim.clone());
        let period = (*resource == Resource::CfsQuota).then(|| self.period(dir, text));
        let as_wished = aim.is_some_and(|aim| self.parts.files.holds(*resource, &aim, text, period));
        let track = self.track(target);
        track.text = Some(text.to_owned());
        track.runtime_wrote = true;
        if as_wished && was == Standing::Held {
            return;
        }
        if was == Standing::Held {
            self.overwritten(target, text, now);
        } else {
            // A refused or waiting value: what is there now may let it in.
            self.make_due(target, now);
        }
    }

    /// Somebody put another value over ours.
    fn overwritten(&mut self, target: &CgroupTarget, text: &str, now: Nanos) {
        let track = self.track(target);
        track.overwritten = true;
        if track.born.is_some_and(|born| now < born + BIRTH) {
            count(&self.parts.stats.birth);
            self.make_due(target, now);
            return;
        }
        let verdict = track.foreign.count(now);
        let wished = track.aim.as_ref().map_or_else(String::new, ToString::to_string);
        if verdict.contended {
            track.contended_until = Some(verdict.repair_at);
            track.standing = Standing::Waiting(
                "others keep writing it: repaired 10 s after each of their writes".to_owned(),
            );
        }
        count(&self.parts.stats.foreign);
        self.make_due(target, verdict.repair_at);
        let said = format!("somebody wrote {text:?} over {wished:?}");
        if verdict.news {
            self.notify(NoticeKind::Contended, target, format!("{said}, again; put right in 10 s"));
        }
        if verdict.log {
            self.notify(NoticeKind::ForeignWrite, target, format!("{said}; put right"));
        }
    }
}
