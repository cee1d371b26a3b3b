//! The slow look at everything that is held, one read a target and minute, for what no event told: lost events,
//! directories that cannot be watched.

use std::ops::Bound;

use super::super::backend::is_gone;
use super::super::stats::count;
use super::Engine;
use super::track::Standing;
use crate::claims::target::CgroupTarget;
use crate::units::Nanos;

/// Every held target is looked at once in this time.
const ROUND: Nanos = Nanos(60_000_000_000);

/// A round has this many slices: few wake-ups, and no burst of reads.
const SLICES: usize = 12;

/// Where the re-check is.
#[derive(Debug, Default)]
pub(super) struct Recheck {
    /// When the next slice is due; `None` until something is held.
    next: Option<Nanos>,
    /// The last target that was looked at.
    cursor: Option<CgroupTarget>,
    unwatched_said: bool,
}

impl Recheck {
    /// Whether it is the first time that something cannot be watched.
    pub(super) fn first_unwatched(&mut self) -> bool {
        !std::mem::replace(&mut self.unwatched_said, true)
    }
}

impl Engine {
    pub(super) fn next_recheck(&self) -> Option<Nanos> {
        self.recheck.next.filter(|_| !self.released && !self.parts.dry_run)
    }

    pub(super) fn start_recheck(&mut self, now: Nanos) {
        self.recheck.next.get_or_insert(now + slice());
    }

    /// Looks at the next slice of targets, if it is time.
    pub(super) fn recheck_slice(&mut self, now: Nanos) {
        if self.next_recheck().is_none_or(|next| now < next) {
            return;
        }
        let size = self.tracks.len().div_ceil(SLICES);
        let after = self.recheck.cursor.clone();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.tracks.range((from, Bound::Unbounded));
        let mut slice_targets: Vec<CgroupTarget> =
            rest.map(|(target, _)| target).take(size).cloned().collect();
        if slice_targets.len() < size {
            slice_targets.extend(self.tracks.keys().take(size - slice_targets.len()).cloned());
        }
        for target in &slice_targets {
            self.recheck_one(target, now);
        }
        self.recheck.cursor = slice_targets.pop();
        self.recheck.next = (!self.tracks.is_empty()).then(|| now + slice());
    }

    /// Looks at everything at once: after lost events.
    pub(super) fn recheck_all(&mut self, now: Nanos) {
        self.known.clear();
        let targets: Vec<CgroupTarget> = self.tracks.keys().cloned().collect();
        for target in targets {
            if let Some(track) = self.tracks.get_mut(&target) {
                track.contended_until = None;
            }
            self.recheck_one(&target, now);
        }
    }

    /// Looks at single targets at once, and settles what that brings.
    pub fn recheck_targets(&mut self, targets: &[CgroupTarget], now: Nanos) {
        for target in targets {
            self.recheck_one(target, now);
        }
        self.settle(now);
    }

    fn recheck_one(&mut self, target: &CgroupTarget, now: Nanos) {
        let Some(track) = self.tracks.get(target) else { return };
        let (standing, id) = (track.standing.clone(), track.id);
        match standing {
            // What its parent has by now is to be seen as well.
            Standing::Held if self.is_cut(target) => self.make_due(target, now),
            Standing::Held => {
                count(&self.parts.stats.rechecked);
                let CgroupTarget { dir, resource } = target;
                // A watched directory reports its end, so its id needs no look.
                let other = !self.is_watched(target) && self.parts.backend.id(dir, *resource).ok() != id;
                if other {
                    self.make_due(target, now);
                    return;
                }
                match self.parts.backend.read(dir, *resource) {
                    Ok(text) => self.found(target, &text, now),
                    Err(error) if is_gone(&error) => self.vanished(target),
                    // Not readable is not ours to repair; the next round looks again.
                    Err(error) => tracing::debug!(%target, %error, "cannot look at it"),
                }
            }
            // Maybe it is there by now, and the event was lost.
            Standing::Waiting(_) | Standing::Unseen if id.is_none() => self.make_due(target, now),
            _ => {}
        }
    }
}

fn slice() -> Nanos {
    Nanos(ROUND.0 / SLICES as u64)
}
