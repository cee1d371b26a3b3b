//! Settings of the whole host: sysctls and files of sysfs. Originals are in the ledger; nothing tells of foreign
//! writes here, so each held file is looked at once a minute.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::backend::{answer, is_gone};
use super::keeper::{Books, Keeper};
use super::ledger::{HostEntry, Ledger};
use super::observer::{WriteRecord, WriteSubject};
use super::refusal::Refusal;
use super::report::{NoticeKind, RestoreReport, Stand, TargetReport, TargetState};
use super::stats::count;
use crate::claims::claim::Owner;
use crate::claims::plan::{Decision, Desired, Plan};
use crate::claims::target::{HostFile, HostRoot};
use crate::ebpf::events::CgroupEvent;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::units::Nanos;

/// Every held file is looked at once in this time.
const LOOK: Nanos = Nanos(60_000_000_000);

/// Keeps host files as the plan says.
pub(super) struct HostFiles {
    roots: Roots,
    plan: Arc<Plan>,
    tracks: BTreeMap<HostFile, Track>,
    released: bool,
}

/// How a file stands.
#[derive(Debug, Default)]
struct Track {
    standing: Standing,
    /// When to look again.
    due: Option<Nanos>,
    refusal: Option<Refusal>,
}

#[derive(Debug, Default)]
enum Standing {
    #[default]
    Unseen,
    Held,
    Missing,
    Refused,
    DryRun,
    /// The owner of what the ledger holds has not had its say.
    Waiting,
}

/// What is to be done about a file.
enum Goal {
    Hold(String, Owner, String),
    Give(String),
    Wait,
    Nothing,
}

impl HostFiles {
    /// Nothing held yet.
    pub(super) fn new(roots: Roots) -> Self {
        Self { roots, plan: Arc::default(), tracks: BTreeMap::new(), released: false }
    }

    fn path(&self, file: &HostFile) -> PathBuf {
        let root = match file.root() {
            HostRoot::Proc => &self.roots.proc,
            HostRoot::Sys => &self.roots.sys,
        };
        root.join(file.path())
    }

    fn goal(&self, file: &HostFile, ledger: &Ledger) -> Goal {
        let entry = ledger.host_file(file);
        let original = |entry: &HostEntry| Goal::Give(entry.original.clone());
        let desired = self.plan.host_files.get(file);
        match desired.map(|desired| (&desired.decision, desired)) {
            Some((Decision::Hold(text), desired)) => {
                Goal::Hold(text.clone(), desired.owner, desired.reason.text.clone())
            }
            Some((Decision::Release(text), _)) if entry.is_some() => Goal::Give(text.clone()),
            Some((Decision::Leave | Decision::Release(_), _)) => Goal::Nothing,
            None => match entry {
                Some(entry) if self.plan.synced.contains(&entry.owner) => original(entry),
                Some(_) => Goal::Wait,
                None => Goal::Nothing,
            },
        }
    }

    /// Whether a file is about to hold anything but 0. Switches that exclude each other (group identity and core
    /// scheduling, hooks.md 8.1, 10.1) are first all turned off.
    fn switches_on(&self, file: &HostFile, ledger: &Ledger) -> bool {
        match self.goal(file, ledger) {
            Goal::Hold(text, ..) | Goal::Give(text) => !means_the_same(&text, "0"),
            Goal::Wait | Goal::Nothing => false,
        }
    }

    /// Makes one file what it is to be.
    fn settle(&mut self, file: &HostFile, books: &mut Books<'_>) {
        match self.goal(file, books.ledger) {
            Goal::Hold(text, owner, why) => self.hold(file, &text, owner, why, books),
            Goal::Give(text) => {
                if self.give(file, &text, books).is_ok() {
                    self.tracks.remove(file);
                }
            }
            Goal::Wait => self.stand(file, Standing::Waiting, None),
            Goal::Nothing => {
                self.tracks.remove(file);
                if books.ledger.host_file(file).is_some() {
                    forget(file, books);
                }
            }
        }
    }

    fn hold(&mut self, file: &HostFile, text: &str, owner: Owner, why: String, books: &mut Books<'_>) {
        let look = books.now + LOOK;
        let was = match self.present(file, text) {
            Ok(was) => was,
            Err(error) if is_gone(&error) => return self.stand(file, Standing::Missing, Some(look)),
            Err(error) => return self.refuse(file, text, answer(&error), books),
        };
        if means_the_same(&was, text) {
            return self.held(file, look);
        }
        if books.dry_run {
            return self.stand(file, Standing::DryRun, Some(look));
        }
        if self.tracks.get(file).is_some_and(|track| matches!(track.standing, Standing::Held)) {
            count(&books.stats.foreign);
            let said = format!("somebody wrote {was:?} over {text:?}; put right");
            books.notify(NoticeKind::ForeignWrite, file.to_string(), said);
        }
        let original =
            books.ledger.host_file(file).map_or_else(|| was.clone(), |entry| entry.original.clone());
        let entry = HostEntry { file: file.clone(), boot: books.boot.to_owned(), owner, original };
        if let Err(error) = books.ledger.record_host_file(entry) {
            let why = format!("the ledger cannot be written ({error}), so the value is not either");
            return self.refuse(file, text, why, books);
        }
        match self.write(file, text) {
            Ok(()) => {
                tell(file, text, was, Some(owner), why, books);
                self.held(file, look);
            }
            Err(why) => self.refuse(file, text, why, books),
        }
    }

    /// Gives an original or a baseline back and forgets the file.
    fn give(&mut self, file: &HostFile, text: &str, books: &mut Books<'_>) -> Result<(), String> {
        let owner = books.ledger.host_file(file).map(|entry| entry.owner);
        let was = match self.present(file, text) {
            Ok(was) => was,
            Err(error) if is_gone(&error) => {
                forget(file, books);
                return Ok(());
            }
            Err(error) => {
                self.refuse(file, text, answer(&error), books);
                return Err(answer(&error));
            }
        };
        if books.dry_run {
            return Ok(());
        }
        if !means_the_same(&was, text) {
            if let Err(why) = self.write(file, text) {
                self.refuse(file, text, why.clone(), books);
                return Err(why);
            }
            let why = "no longer claimed: back to the value found at first".to_owned();
            tell(file, text, was, owner, why, books);
        }
        count(&books.stats.restored);
        forget(file, books);
        Ok(())
    }

    /// Writes and looks whether the kernel kept it.
    fn write(&self, file: &HostFile, text: &str) -> Result<(), String> {
        let path = self.path(file);
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let written = options.open(&path).and_then(|mut opened| opened.write_all(text.as_bytes()));
        written.map_err(|error| answer(&error))?;
        match self.present(file, text) {
            Ok(now) if means_the_same(&now, text) => Ok(()),
            Ok(now) => Err(format!("the kernel keeps {now:?} instead")),
            Err(error) => Err(answer(&error)),
        }
    }

    /// What a file holds now, as far as `wished` is about it.
    fn present(&self, file: &HostFile, wished: &str) -> io::Result<String> {
        let text = read(&self.path(file))?;
        Ok(if is_feature_list(file) { features(&text, wished) } else { text })
    }

    fn held(&mut self, file: &HostFile, look: Nanos) {
        self.stand(file, Standing::Held, Some(look));
        if let Some(track) = self.tracks.get_mut(file) {
            track.refusal = None;
        }
    }

    fn stand(&mut self, file: &HostFile, standing: Standing, due: Option<Nanos>) {
        let track = self.tracks.entry(file.clone()).or_default();
        (track.standing, track.due) = (standing, due);
    }

    fn refuse(&mut self, file: &HostFile, text: &str, why: String, books: &mut Books<'_>) {
        count(&books.stats.refused);
        let track = self.tracks.entry(file.clone()).or_default();
        let refusal = Refusal::after(track.refusal.as_ref(), text, why, books.now);
        (track.standing, track.due) = (Standing::Refused, Some(refusal.retry_at));
        let news = refusal
            .is_new()
            .then(|| format!("{text:?} was refused: {}; tried again with back-off", refusal.answer));
        track.refusal = Some(refusal);
        if let Some(news) = news {
            books.notify(NoticeKind::Refused, file.to_string(), news);
        }
    }

    fn explain_one(&self, file: &HostFile, desired: &Desired<HostFile>, ledger: &Ledger) -> TargetReport {
        let track = self.tracks.get(file);
        let (state, detail) = match track.map(|track| &track.standing) {
            _ if self.released => (TargetState::Left, Some("everything was put back".to_owned())),
            Some(Standing::Held) => (TargetState::Held, None),
            Some(Standing::Missing) => (TargetState::Pending, Some("there is no such file".to_owned())),
            Some(Standing::Refused) => {
                let refusal = track.and_then(|track| track.refusal.as_ref());
                (TargetState::Refused, refusal.map(|refusal| refusal.answer.clone()))
            }
            Some(Standing::DryRun) => (TargetState::DryRun, None),
            Some(Standing::Unseen | Standing::Waiting) => (TargetState::Pending, None),
            None => (TargetState::Left, None),
        };
        let value = match &desired.decision {
            Decision::Hold(text) if !self.released => Some(text.clone()),
            _ => read(&self.path(file)).ok(),
        };
        let replaced = ledger.host_file(file).map(|entry| entry.original.clone());
        let stand = Stand { path: file.to_string(), cgroup_id: None, value, state, replaced, detail };
        stand.report(desired, String::clone)
    }
}

impl Keeper for HostFiles {
    fn apply(&mut self, plan: &Arc<Plan>, books: &mut Books<'_>) {
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        let mut changed: Vec<HostFile> =
            old.host_files.keys().filter(|file| !plan.host_files.contains_key(*file)).cloned().collect();
        let is_new = |(file, desired): &(&HostFile, &Desired<HostFile>)| {
            old.host_files
                .get(*file)
                .is_none_or(|was| (&was.decision, was.owner) != (&desired.decision, desired.owner))
        };
        changed.extend(plan.host_files.iter().filter(is_new).map(|(file, _)| file.clone()));
        if old.synced != plan.synced {
            changed.extend(books.ledger.host_files().map(|entry| entry.file.clone()));
        }
        // Stable, so that files of a kind stay in the order of their paths.
        changed.sort_by_key(|file| self.switches_on(file, books.ledger));
        for file in changed {
            // Another decision is another question.
            if let Some(track) = self.tracks.get_mut(&file) {
                (track.standing, track.refusal) = (Standing::Unseen, None);
            }
            self.settle(&file, books);
        }
    }

    fn cgroup_event(&mut self, _: &CgroupEvent, _: &mut Books<'_>) {}

    fn tick(&mut self, books: &mut Books<'_>) {
        let now = books.now;
        let is_due = |track: &Track| track.due.is_some_and(|due| due <= now);
        let due: Vec<HostFile> =
            self.tracks.iter().filter(|(_, track)| is_due(track)).map(|(file, _)| file.clone()).collect();
        for file in due {
            count(&books.stats.rechecked);
            self.settle(&file, books);
        }
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.tracks.values().filter_map(|track| track.due).min().filter(|_| !self.released)
    }

    fn explain(&self, ledger: &Ledger) -> Vec<TargetReport> {
        let files = self.plan.host_files.iter();
        files.map(|(file, desired)| self.explain_one(file, desired, ledger)).collect()
    }

    fn restore(&mut self, books: &mut Books<'_>, report: &mut RestoreReport) {
        self.released = true;
        let entries: Vec<HostEntry> = books.ledger.host_files().cloned().collect();
        for HostEntry { file, original, .. } in entries {
            match self.give(&file, &original, books) {
                Ok(()) => report.restored.push(file.to_string()),
                Err(why) => report.failed.push((file.to_string(), why)),
            }
        }
    }
}

/// Tells of a write that the kernel took.
fn tell(file: &HostFile, text: &str, was: String, owner: Option<Owner>, why: String, books: &Books<'_>) {
    count(&books.stats.written);
    books.tell(WriteRecord {
        subject: WriteSubject::Host,
        path: file.to_string(),
        value: text.to_owned(),
        was,
        owner,
        why,
    });
}

fn forget(file: &HostFile, books: &mut Books<'_>) {
    if let Err(error) = books.ledger.forget_host_file(file) {
        tracing::warn!(%file, %error, "cannot note in the ledger that a setting is restored");
    }
}

fn read(path: &std::path::Path) -> io::Result<String> {
    Ok(text_file::read(path)?.trim_end_matches('\n').to_owned())
}

/// Whether a file takes one word at a time and shows all words that it knows, each as it stands or with a `NO_`.
fn is_feature_list(file: &HostFile) -> bool {
    file.path().rsplit('/').next() == Some("sched_features")
}

/// How the features of `wished` stand in such a list.
fn features(list: &str, wished: &str) -> String {
    let name = |word: &str| word.strip_prefix("NO_").unwrap_or(word).to_owned();
    let wished: Vec<String> = wished.split_whitespace().map(name).collect();
    let found: Vec<&str> = list.split_whitespace().filter(|word| wished.contains(&name(word))).collect();
    found.join(" ")
}

/// Whether two texts are the same setting: fields apart from the white space between them.
fn means_the_same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

#[cfg(test)]
mod tests;
