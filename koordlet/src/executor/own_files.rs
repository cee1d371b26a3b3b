//! Files of our own making that other programs read: whole content, put in place by a rename so that a reader never
//! sees half a file. The folder is made where it is missing. Each is looked at once a minute.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backend::{answer, is_gone};
use super::keeper::{Books, Keeper};
use super::ledger::{Ledger, Made, MadeEntry};
use super::observer::{WriteRecord, WriteSubject};
use super::refusal::Refusal;
use super::report::{NoticeKind, RestoreReport, Stand, TargetReport, TargetState};
use super::stats::count;
use crate::claims::own_file::{OwnContent, OwnFile};
use crate::claims::plan::{Decision, Desired, Plan};
use crate::host::text_file;
use crate::units::Nanos;

/// Every file is looked at once in this time.
const LOOK: Nanos = Nanos(60_000_000_000);

/// Keeps the files as the plan says.
pub(super) struct OwnFiles {
    folder: PathBuf,
    plan: Arc<Plan>,
    standing: BTreeMap<OwnFile, Standing>,
    refusals: BTreeMap<OwnFile, Refusal>,
    due: Option<Nanos>,
    released: bool,
}

/// How a file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Held,
    Refused(String),
    DryRun,
}

impl OwnFiles {
    /// Nothing held yet; the files lie in `folder`.
    pub(super) fn new(folder: PathBuf) -> Self {
        let (standing, refusals) = (BTreeMap::new(), BTreeMap::new());
        Self { folder, plan: Arc::default(), standing, refusals, due: None, released: false }
    }

    fn path(&self, file: OwnFile) -> PathBuf {
        self.folder.join(file.name())
    }

    /// Looks at all files that are wanted or left.
    fn settle(&mut self, again: bool, books: &mut Books<'_>) {
        if self.released {
            return;
        }
        for file in OwnFile::ALL {
            self.settle_one(file, again, books);
        }
        let retry = self.refusals.values().map(|refusal| refusal.retry_at).min();
        let look = (!self.plan.own_files.is_empty()).then_some(books.now + LOOK);
        self.due = look.into_iter().chain(retry).min();
    }

    fn settle_one(&mut self, file: OwnFile, again: bool, books: &mut Books<'_>) {
        let entry = books.ledger.made(&Made::File(file));
        let wish = match self.plan.own_files.get(&file).map(|desired| &desired.decision) {
            Some(Decision::Hold(content)) => content.clone(),
            Some(Decision::Leave | Decision::Release(_)) => return,
            // Nobody's any more: gone, once whoever wanted it has had its say.
            None if entry.is_some_and(|entry| self.plan.synced.contains(&entry.owner)) => OwnContent::Absent,
            None => {
                self.standing.remove(&file);
                return;
            }
        };
        let was_held = again && self.standing.get(&file) == Some(&Standing::Held);
        match self.hold(file, &wish, was_held, books) {
            Ok(standing) => {
                self.refusals.remove(&file);
                self.standing.insert(file, standing);
            }
            Err(error) => self.refuse(file, &wish, answer(&error), books),
        }
    }

    fn hold(
        &self,
        file: OwnFile,
        wish: &OwnContent,
        was_held: bool,
        books: &mut Books<'_>,
    ) -> io::Result<Standing> {
        let path = self.path(file);
        let was = match text_file::read(&path) {
            Ok(text) => Some(text),
            Err(error) if is_gone(&error) => None,
            Err(error) => return Err(error),
        };
        let is_same = match wish {
            OwnContent::Text(text) => was.as_deref() == Some(&**text),
            OwnContent::Absent => was.is_none(),
        };
        if books.dry_run {
            return Ok(if is_same { Standing::Held } else { Standing::DryRun });
        }
        // Before the write, and also of a file that is right already: it is ours to remove.
        if let (OwnContent::Text(_), Some(desired)) = (wish, self.plan.own_files.get(&file)) {
            let (boot, was) = (books.boot.to_owned(), String::new());
            let entry = MadeEntry { made: Made::File(file), boot, owner: desired.owner, was };
            books.ledger.record_made(entry)?;
        }
        if !is_same {
            write(&path, wish)?;
            self.tell(file, wish, was, was_held, books);
        }
        if *wish == OwnContent::Absent {
            books.ledger.forget_made(&Made::File(file))?;
        }
        Ok(Standing::Held)
    }

    fn tell(
        &self,
        file: OwnFile,
        wish: &OwnContent,
        was: Option<String>,
        was_held: bool,
        books: &mut Books<'_>,
    ) {
        count(&books.stats.written);
        let path = self.path(file).display().to_string();
        if was_held {
            count(&books.stats.foreign);
            count(&books.stats.repaired);
            let text = "somebody wrote it; put right".to_owned();
            books.notify(NoticeKind::ForeignWrite, path.clone(), text);
        }
        let desired = self.plan.own_files.get(&file);
        let owner = desired.map(|desired| desired.owner);
        let why = desired.map_or("no longer claimed".to_owned(), |desired| desired.reason.text.clone());
        let (value, was) = (wish.to_string(), was.unwrap_or_default());
        books.tell(WriteRecord { subject: WriteSubject::Host, path, value, was, owner, why });
    }

    fn refuse(&mut self, file: OwnFile, wish: &OwnContent, why: String, books: &mut Books<'_>) {
        count(&books.stats.refused);
        let known = self.refusals.get(&file);
        let refusal = Refusal::after(known, &wish.to_string(), why.clone(), books.now);
        if refusal.is_new() {
            books.notify(NoticeKind::Refused, self.path(file).display().to_string(), why.clone());
        }
        self.refusals.insert(file, refusal);
        self.standing.insert(file, Standing::Refused(why));
    }

    fn explain_one(&self, file: OwnFile, desired: &Desired<OwnFile>) -> TargetReport {
        let (state, detail) = match self.standing.get(&file) {
            _ if self.released => (TargetState::Left, Some("everything was put back".to_owned())),
            Some(Standing::Held) => (TargetState::Held, None),
            Some(Standing::Refused(why)) => (TargetState::Refused, Some(why.clone())),
            Some(Standing::DryRun) => (TargetState::DryRun, None),
            None => (TargetState::Pending, None),
        };
        let value = match &desired.decision {
            Decision::Hold(content) if !self.released => Some(content.to_string()),
            _ => None,
        };
        let path = self.path(file).display().to_string();
        let stand = Stand { path, cgroup_id: None, value, state, replaced: None, detail };
        stand.report(desired, ToString::to_string)
    }
}

impl Keeper for OwnFiles {
    fn apply(&mut self, plan: &Arc<Plan>, books: &mut Books<'_>) {
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        let is_judged_anew = old.synced != plan.synced
            && books.ledger.all_made().any(|entry| matches!(entry.made, Made::File(_)));
        let decisions = |plan: &Plan| -> Vec<_> {
            plan.own_files.iter().map(|(file, desired)| (*file, desired.decision.clone())).collect()
        };
        if is_judged_anew || decisions(&old) != decisions(plan) {
            self.settle(false, books);
        }
    }

    fn tick(&mut self, books: &mut Books<'_>) {
        if self.due.is_some_and(|due| due <= books.now) {
            count(&books.stats.rechecked);
            self.settle(true, books);
        }
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due.filter(|_| !self.released)
    }

    fn explain(&self, _: &Ledger) -> Vec<TargetReport> {
        self.plan.own_files.iter().map(|(file, desired)| self.explain_one(*file, desired)).collect()
    }

    fn restore(&mut self, books: &mut Books<'_>, report: &mut RestoreReport) {
        self.released = true;
        for file in OwnFile::ALL {
            let made = Made::File(file);
            if books.ledger.made(&made).is_none() {
                continue;
            }
            let path = self.path(file);
            let removed = if books.dry_run { Ok(()) } else { write(&path, &OwnContent::Absent) };
            match removed.and_then(|()| books.ledger.forget_made(&made)) {
                Ok(()) => report.restored.push(path.display().to_string()),
                Err(error) => report.failed.push((path.display().to_string(), answer(&error))),
            }
        }
    }
}

/// Puts the content in place, or removes the file.
fn write(path: &Path, content: &OwnContent) -> io::Result<()> {
    let OwnContent::Text(text) = content else {
        return match fs::remove_file(path) {
            Err(error) if is_gone(&error) => Ok(()),
            answer => answer,
        };
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("koordlet-new");
    // What is in the way can only be left from a crash; a link would lead the write elsewhere.
    match fs::remove_file(&new) {
        Err(error) if !is_gone(&error) => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    options.open(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests;
