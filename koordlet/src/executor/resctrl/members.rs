//! Tasks: those of a directory that are not in its group yet are moved, one write each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use nix::errno::Errno;

use super::threads::ids;
use super::{Books, LOOK, ROOT, Refusal, Resctrl, Standing, WriteRecord, WriteSubject, count, refuse};
use crate::cgroup::path::CgroupDir;
use crate::executor::backend::is_gone;
use crate::resctrl::group::ResctrlGroup;
use crate::units::Nanos;

/// A runtime moves its process in some time after it has made the directory: the first look, and how long looks go on,
/// each after twice the time.
const BIRTH: Nanos = Nanos(10_000_000);
const BORN: Nanos = Nanos(2_000_000_000);

/// A task that forks while it waits to be moved leaves its child behind, so that the directory is read again.
const ROUNDS: usize = 3;

/// How a directory stands.
#[derive(Debug, Default)]
pub(super) struct MemberTrack {
    pub(super) standing: Standing,
    pub(super) due: Option<Nanos>,
    birth: Option<Nanos>,
    pub(super) refusal: Option<Refusal>,
}

impl MemberTrack {
    /// To be looked at at `now` for the first time.
    pub(super) fn due_at(now: Nanos) -> Self {
        Self { due: Some(now), ..Self::default() }
    }

    /// Something was made in it.
    pub(super) fn born(&mut self, now: Nanos) {
        self.birth = Some(now);
        let first = now + BIRTH;
        self.due = Some(self.due.map_or(first, |due| due.min(first)));
    }

    fn next(&self, now: Nanos) -> Nanos {
        let retry = self.refusal.as_ref().map(|refusal| refusal.retry_at);
        let young = self.birth.map(|birth| now - birth).filter(|age| *age < BORN);
        let look = young.map_or(LOOK, |age| age.max(BIRTH));
        retry.unwrap_or(now + look).min(now + look)
    }
}

/// What became of one directory's tasks.
#[derive(Default)]
struct Moved {
    count: usize,
    error: Option<String>,
}

impl Resctrl {
    /// Moves what is due. The lists of groups are read once for all directories.
    pub(super) fn settle_members(&mut self, books: &mut Books<'_>) {
        let now = books.now;
        let is_due = |due: Option<Nanos>| due.is_some_and(|due| due <= now);
        let due = self.members.iter().filter(|(_, track)| is_due(track.due)).map(|(dir, _)| dir.clone());
        let mut known: BTreeMap<ResctrlGroup, BTreeSet<u32>> = BTreeMap::new();
        for dir in due.collect::<Vec<_>>() {
            self.settle_member(&dir, &mut known, books);
        }
    }

    fn settle_member(
        &mut self,
        dir: &CgroupDir,
        known: &mut BTreeMap<ResctrlGroup, BTreeSet<u32>>,
        books: &mut Books<'_>,
    ) {
        let Some(member) = self.wanted.members.get(dir).cloned() else { return };
        let mut track = self.members.remove(dir).unwrap_or_default();
        let standing = self.groups.get(&member.group).map(|group| &group.standing);
        track.standing = match standing {
            Some(Standing::Held) => {
                let moved = self.move_tasks(dir, &member.group, known, books.dry_run);
                if moved.count > 0 && !books.dry_run {
                    count(&books.stats.written);
                    books.tell(WriteRecord {
                        subject: WriteSubject::ResctrlTasks(dir.clone()),
                        path: format!("{ROOT}/{}/tasks", member.group),
                        value: format!("{} tasks", moved.count),
                        was: "in another group".to_owned(),
                        owner: Some(member.owner),
                        why: member.why.clone(),
                    });
                }
                match moved.error {
                    Some(why) => {
                        let wished = member.group.to_string();
                        let before = track.refusal.take();
                        let path = format!("{ROOT}/{}/tasks", member.group);
                        track.refusal = Some(refuse(before.as_ref(), &path, &wished, why, books));
                        Standing::Refused
                    }
                    None if moved.count > 0 && books.dry_run => Standing::DryRun,
                    None => {
                        track.refusal = None;
                        Standing::Held
                    }
                }
            }
            Some(Standing::DryRun) => Standing::DryRun,
            Some(Standing::Pending | Standing::Refused) | None => Standing::Pending,
        };
        track.due = Some(track.next(books.now));
        self.members.insert(dir.clone(), track);
    }

    fn move_tasks(
        &self,
        dir: &CgroupDir,
        group: &ResctrlGroup,
        known: &mut BTreeMap<ResctrlGroup, BTreeSet<u32>>,
        dry_run: bool,
    ) -> Moved {
        let mut moved = Moved::default();
        let is_other = |child: &CgroupDir| self.wanted.members.contains_key(child);
        for _ in 0..ROUNDS {
            let threads = self.threads.beneath(dir, is_other);
            if threads.is_empty() {
                break;
            }
            let inside = match known.get_mut(group) {
                Some(inside) => inside,
                None => match self.tree.tasks(group) {
                    Ok(text) => known.entry(group.clone()).or_insert(ids(&text).collect()),
                    // Its own look will see that the group is gone.
                    Err(error) if is_gone(&error) => break,
                    Err(error) => {
                        moved.error = Some(self.with_status(&error));
                        break;
                    }
                },
            };
            let outside: Vec<u32> = threads.difference(inside).copied().collect();
            if outside.is_empty() {
                break;
            }
            if dry_run {
                moved.count = outside.len();
                break;
            }
            let mut failed = None;
            let opened = self.tree.move_tasks(group, &outside, &mut |thread, outcome| match outcome {
                Ok(()) => {
                    inside.insert(thread);
                    moved.count += 1;
                }
                Err(error) if is_ended(&error) => {}
                Err(error) => failed = failed.take().or(Some(error)),
            });
            let failed = failed.or(opened.err().filter(|error| !is_gone(error)));
            if let Some(error) = failed {
                moved.error = Some(self.with_status(&error));
                break;
            }
        }
        moved
    }
}

/// A thread that ended between the look and the write is nothing to speak of.
fn is_ended(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw) == Some(Errno::ESRCH) || is_gone(error)
}
