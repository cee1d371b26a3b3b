//! Groups: made, their lines written where they differ by meaning, and removed when nobody claims them any more.

use std::collections::BTreeMap;
use std::io;

use super::lines::LineTrack;
use super::{
    Books, LOOK, NoticeKind, ROOT, Refusal, Resctrl, Standing, WriteRecord, WriteSubject, count, refuse,
};
use crate::claims::claim::Owner;
use crate::executor::backend::{answer, is_gone};
use crate::executor::ledger::{Made, MadeEntry};
use crate::resctrl::group::ResctrlGroup;
use crate::resctrl::schemata::{Schemata, SchemataResource};
use crate::units::Nanos;

/// A group that nobody claims is left alone for so long: a container may be about to start in it.
const SPARED: Nanos = Nanos(10_000_000_000);

/// How a group stands.
#[derive(Debug, Default)]
pub(super) struct GroupTrack {
    /// Of the directory.
    pub(super) standing: Standing,
    pub(super) due: Option<Nanos>,
    /// Why it could not be made or read.
    pub(super) refusal: Option<Refusal>,
    pub(super) lines: BTreeMap<SchemataResource, LineTrack>,
}

/// A group that nobody claims.
#[derive(Debug)]
pub(super) struct Orphan {
    since: Nanos,
    refusal: Option<Refusal>,
}

impl GroupTrack {
    /// Another wish is another question.
    pub(super) fn ask_again(&mut self, now: Nanos) {
        self.due = Some(now);
        self.refusal = None;
        for line in self.lines.values_mut() {
            line.refusal = None;
        }
    }

    fn next(&self, now: Nanos) -> Nanos {
        let lines = self.lines.values().filter_map(|line| line.refusal.as_ref());
        let retries = lines.chain(&self.refusal).map(|refusal| refusal.retry_at);
        retries.min().unwrap_or(now + LOOK).min(now + LOOK)
    }
}

impl Resctrl {
    /// Has a group be there with its lines.
    pub(super) fn settle_group(&mut self, group: &ResctrlGroup, books: &mut Books<'_>) {
        let Some(wish) = self.wanted.groups.get(group).cloned() else { return };
        let mut track = self.groups.remove(group).unwrap_or_default();
        match self.present(group, wish.owner, &wish.why, books) {
            Ok(Some((present, made))) => {
                let is_new = made || !matches!(track.standing, Standing::Held);
                (track.standing, track.refusal) = (Standing::Held, None);
                self.settle_lines(group, &present, &mut track, books);
                if is_new {
                    let members = self.wanted.members.iter().filter(|(_, member)| member.group == *group);
                    for (dir, _) in members {
                        self.members.entry(dir.clone()).or_default().due = Some(books.now);
                    }
                }
            }
            Ok(None) => {
                let mounted = self.tree.is_mounted();
                track.standing = if mounted && books.dry_run { Standing::DryRun } else { Standing::Pending };
            }
            Err(why) => {
                let path = format!("{ROOT}/{group}");
                track.refusal = Some(refuse(track.refusal.as_ref(), &path, "group", why, books));
                track.standing = Standing::Refused;
            }
        }
        track.due = Some(track.next(books.now));
        self.groups.insert(group.clone(), track);
    }

    /// The group's lines, once it is there, and whether it was made for that. `None` where it cannot be: nothing is mounted, or this is
    /// a dry run.
    fn present(
        &self,
        group: &ResctrlGroup,
        owner: Owner,
        why: &str,
        books: &mut Books<'_>,
    ) -> Result<Option<(Schemata, bool)>, String> {
        let mut made = false;
        let text = match self.tree.schemata(Some(group)) {
            Ok(text) => {
                adopt(group, owner, books)?;
                text
            }
            Err(error) if is_gone(&error) => {
                if books.dry_run || !self.tree.is_mounted() {
                    return Ok(None);
                }
                self.make(group, owner, why, books)?;
                made = true;
                self.tree.schemata(Some(group)).map_err(|error| answer(&error))?
            }
            Err(error) => return Err(answer(&error)),
        };
        let schemata = Schemata::parse(&text).map_err(|error| error.to_string())?;
        Ok(Some((schemata, made)))
    }

    fn make(
        &self,
        group: &ResctrlGroup,
        owner: Owner,
        why: &str,
        books: &mut Books<'_>,
    ) -> Result<(), String> {
        record(group, owner, "no group", books)?;
        self.tree.make(group).map_err(|error| self.with_status(&error))?;
        count(&books.stats.written);
        let path = format!("{ROOT}/{group}");
        books.tell(WriteRecord {
            subject: WriteSubject::Resctrl(self.wanted.dir_of(group).cloned()),
            path: path.clone(),
            value: "made".to_owned(),
            was: "no group".to_owned(),
            owner: Some(owner),
            why: why.to_owned(),
        });
        books.notify(NoticeKind::GroupMade, path, format!("made the resctrl group {group}"));
        Ok(())
    }

    /// Removes groups of ours that nobody claims, once they were left alone long enough. Where the plugin is off, only
    /// those that the ledger knows.
    pub(super) fn sweep(&mut self, books: &mut Books<'_>) {
        self.sweep = None;
        let made = super::made(books.ledger);
        if made.is_empty() && self.wanted.mount.is_none() {
            self.orphans.clear();
            return;
        }
        let Ok(names) = self.tree.names() else {
            self.sweep = Some(books.now + LOOK);
            return;
        };
        let there: Vec<ResctrlGroup> = names.iter().filter_map(|name| ResctrlGroup::known(name)).collect();
        for group in made.iter().filter(|group| !there.contains(group)) {
            forget(group, books);
        }
        let is_orphan = |group: &&ResctrlGroup| {
            let strange = self.wanted.mount == Some(Owner::PodResctrl) && group.pod_uid().is_some();
            !self.wanted.groups.contains_key(*group) && (made.contains(group) || strange)
        };
        let orphans: Vec<ResctrlGroup> = there.iter().filter(is_orphan).cloned().collect();
        self.orphans.retain(|group, _| orphans.contains(group));
        for group in orphans {
            let owner = books.ledger.made(&made_by_us(&group)).map_or(Owner::PodResctrl, |entry| entry.owner);
            if self.wanted.synced.contains(&owner) {
                let next = self.let_go(&group, books);
                self.sweep = self.sweep.into_iter().chain(next).min();
            }
        }
    }

    /// Removes one group if its time has come; says when to look again.
    fn let_go(&mut self, group: &ResctrlGroup, books: &mut Books<'_>) -> Option<Nanos> {
        let since = self.orphans.get(group).map_or(books.now, |orphan| orphan.since);
        let before = self.orphans.remove(group).and_then(|orphan| orphan.refusal);
        let waits = before.as_ref().map_or(since + SPARED, |refusal| refusal.retry_at);
        if books.now < waits || books.dry_run {
            self.orphans.insert(group.clone(), Orphan { since, refusal: before });
            return (!books.dry_run).then_some(waits);
        }
        let why = self.remove(group, books).err()?;
        let path = format!("{ROOT}/{group}");
        let refusal = refuse(before.as_ref(), &path, "removal", why, books);
        let next = refusal.retry_at;
        self.orphans.insert(group.clone(), Orphan { since, refusal: Some(refusal) });
        Some(next)
    }

    /// Removes a group; false if it was gone.
    pub(super) fn remove(&self, group: &ResctrlGroup, books: &mut Books<'_>) -> Result<bool, String> {
        if books.dry_run {
            return Ok(false);
        }
        let was_there = match self.tree.remove(group) {
            Ok(()) => true,
            Err(error) if is_gone(&error) => false,
            Err(error) => return Err(self.with_status(&error)),
        };
        let owner = books.ledger.made(&made_by_us(group)).map(|entry| entry.owner);
        forget(group, books);
        if was_there {
            count(&books.stats.restored);
            books.tell(WriteRecord {
                subject: WriteSubject::Resctrl(None),
                path: format!("{ROOT}/{group}"),
                value: "removed".to_owned(),
                was: "a group".to_owned(),
                owner,
                why: "no longer claimed: its tasks are the root group's again".to_owned(),
            });
        }
        Ok(was_there)
    }

    /// The kernel's answer with what it says about it.
    pub(super) fn with_status(&self, error: &io::Error) -> String {
        let status = self.tree.last_status();
        if status.is_empty() { answer(error) } else { format!("{} ({status})", answer(error)) }
    }
}

pub(super) fn made_by_us(group: &ResctrlGroup) -> Made {
    Made::ResctrlGroup(group.clone())
}

fn record(group: &ResctrlGroup, owner: Owner, was: &str, books: &mut Books<'_>) -> Result<(), String> {
    let entry =
        MadeEntry { made: made_by_us(group), boot: books.boot.to_owned(), owner, was: was.to_owned() };
    let failed = |error| format!("the ledger cannot be written ({error}), so the group is not made either");
    books.ledger.record_made(entry).map_err(failed)
}

fn forget(group: &ResctrlGroup, books: &mut Books<'_>) {
    if let Err(error) = books.ledger.forget_made(&made_by_us(group)) {
        tracing::warn!(%group, %error, "cannot note in the ledger that a group is gone");
    }
}

/// A pod's group that was there already is from before a restart, or from the agent that we replace.
fn adopt(group: &ResctrlGroup, owner: Owner, books: &mut Books<'_>) -> Result<(), String> {
    if group.pod_uid().is_none() || books.dry_run || books.ledger.made(&made_by_us(group)).is_some() {
        return Ok(());
    }
    record(group, owner, "a group of that name", books)
}
