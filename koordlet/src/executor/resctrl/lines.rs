//! Lines of a group: compared by what they mean, written one at a time, and read back.

use std::collections::BTreeMap;
use std::time::Instant;

use super::groups::{GroupTrack, made_by_us};
use super::{Books, NoticeKind, ROOT, Refusal, Resctrl, Standing, WriteRecord, WriteSubject, count, refuse};
use crate::executor::backend::is_gone;
use crate::resctrl::group::ResctrlGroup;
use crate::resctrl::schemata::{Schemata, SchemataLine, SchemataResource};

/// How one line stands.
#[derive(Debug, Default)]
pub(super) struct LineTrack {
    pub(super) standing: Standing,
    /// What it was last made to hold, and what the kernel made of that: it rounds bandwidth to its steps.
    pub(super) held: Option<(SchemataLine, SchemataLine)>,
    pub(super) refusal: Option<Refusal>,
}

impl Resctrl {
    /// Writes the lines that differ. One that fails does not stop the others.
    pub(super) fn settle_lines(
        &self,
        group: &ResctrlGroup,
        present: &Schemata,
        track: &mut GroupTrack,
        books: &mut Books<'_>,
    ) {
        let wanted = self.lines_of(group, present, books);
        track.lines.retain(|resource, _| wanted.contains_key(resource));
        let mut written = Vec::new();
        for line in wanted.values() {
            let known = track.lines.entry(line.resource).or_default();
            let rounded = known.held.as_ref().filter(|(wished, _)| wished == line).map(|(_, kept)| kept);
            if present.holds(line) || rounded.is_some_and(|kept| present.holds(kept)) {
                let kept = rounded.unwrap_or(line).clone();
                *known =
                    LineTrack { standing: Standing::Held, held: Some((line.clone(), kept)), refusal: None };
                continue;
            }
            if books.dry_run {
                known.standing = Standing::DryRun;
                continue;
            }
            if known.refusal.as_ref().is_some_and(|refusal| refusal.retry_at > books.now) {
                continue;
            }
            let was = present.line(line.resource).map(|was| was.to_string()).unwrap_or_default();
            if rounded.is_some() {
                count(&books.stats.foreign);
                let said = format!("somebody wrote {was:?} over {:?}; put right", line.to_string());
                books.notify(NoticeKind::ForeignWrite, schemata_path(group), said);
            }
            match self.write_line(group, line, books) {
                Ok(()) => written.push((line.clone(), was)),
                Err(why) => line_refused(group, line, why, known, books),
            }
        }
        self.read_back(group, written, track, books);
    }

    /// What a group is to hold: what is claimed, and of a group of ours in each other line what the root group has.
    fn lines_of(
        &self,
        group: &ResctrlGroup,
        present: &Schemata,
        books: &Books<'_>,
    ) -> BTreeMap<SchemataResource, SchemataLine> {
        let mut lines = self.wanted.groups.get(group).map(|wish| wish.lines.clone()).unwrap_or_default();
        let is_ours = group.pod_uid().is_some() || books.ledger.made(&made_by_us(group)).is_some();
        if is_ours && present.lines().any(|line| !lines.contains_key(&line.resource)) {
            let root = self.tree.schemata(None).ok().and_then(|text| Schemata::parse(&text).ok());
            for line in root.iter().flat_map(Schemata::lines) {
                if present.values(line.resource).is_some() {
                    lines.entry(line.resource).or_insert(line);
                }
            }
        }
        lines
    }

    fn write_line(&self, group: &ResctrlGroup, line: &SchemataLine, books: &Books<'_>) -> Result<(), String> {
        let start = Instant::now();
        let outcome = self.tree.write_line(group, &line.text());
        if !outcome.as_ref().is_err_and(is_gone) {
            books.stats.resctrl_times.note(outcome.is_ok(), start.elapsed());
        }
        outcome.map_err(|error| self.with_status(&error))
    }

    /// Looks whether the kernel kept what was written. Bandwidth may be rounded, a mask may not.
    fn read_back(
        &self,
        group: &ResctrlGroup,
        written: Vec<(SchemataLine, String)>,
        track: &mut GroupTrack,
        books: &mut Books<'_>,
    ) {
        if written.is_empty() {
            return;
        }
        let now = self.tree.schemata(Some(group)).ok().and_then(|text| Schemata::parse(&text).ok());
        let now = now.unwrap_or_default();
        for (line, was) in written {
            let known = track.lines.entry(line.resource).or_default();
            let kept = now.line(line.resource);
            if let Some(kept) = kept.filter(|_| now.holds(&line) || !line.resource.is_mask()) {
                self.tell_line(group, &line, was, books);
                *known = LineTrack { standing: Standing::Held, held: Some((line, kept)), refusal: None };
            } else {
                let kept = now.line(line.resource).map(|kept| kept.to_string()).unwrap_or_default();
                let why = format!("the kernel keeps {kept:?} instead");
                line_refused(group, &line, why, known, books);
            }
        }
    }

    fn tell_line(&self, group: &ResctrlGroup, line: &SchemataLine, was: String, books: &Books<'_>) {
        count(&books.stats.written);
        let wish = self.wanted.groups.get(group);
        books.tell(WriteRecord {
            subject: WriteSubject::Resctrl(self.wanted.dir_of(group).cloned()),
            path: schemata_path(group),
            value: line.to_string(),
            was,
            owner: wish.map(|wish| wish.owner),
            why: wish.map(|wish| wish.why.clone()).unwrap_or_default(),
        });
    }
}

fn line_refused(
    group: &ResctrlGroup,
    line: &SchemataLine,
    why: String,
    known: &mut LineTrack,
    books: &mut Books<'_>,
) {
    let before = known.refusal.take();
    let refusal = refuse(before.as_ref(), &schemata_path(group), &line.to_string(), why, books);
    *known = LineTrack { standing: Standing::Refused, held: None, refusal: Some(refusal) };
}

fn schemata_path(group: &ResctrlGroup) -> String {
    format!("{ROOT}/{group}/schemata")
}
