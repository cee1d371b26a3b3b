//! One look at the network: what is there, what is to be there, and the steps between.

use super::super::keeper::Books;
use super::super::ledger::{Made, MadeEntry};
use super::super::observer::{WriteRecord, WriteSubject};
use super::super::refusal::Refusal;
use super::super::report::NoticeKind;
use super::super::stats::count;
use super::kernel::{Change, Doing as _, NetworkError, classes_are};
use super::routes::Device;
use super::socket::NetlinkError;
use super::traffic::RootQdisc;
use super::wanted::Part;
use super::{LOOK, Network, Standing, is_of_network};
use crate::claims::claim::Owner;
use crate::error_chain::chain;

/// What a step of a part has come to.
enum Outcome {
    /// It is as it is to be.
    Held,
    /// It would be written.
    DryRun,
}

type Step = Result<Outcome, NetworkError>;

impl Network {
    /// Makes everything what it is to be; `again` if the wish is no new one, so that whatever differs is others' doing.
    pub(super) fn settle(&mut self, again: bool, books: &mut Books<'_>) {
        if self.released || (self.wanted.is_empty() && !Self::has_part_in(books.ledger)) {
            (self.due, self.device) = (None, None);
            self.parts.clear();
            return;
        }
        if self.wanted.packets.is_none() {
            self.parts.remove(&Part::Packets);
            self.withdraw(&Made::PacketTable, books);
        }
        self.settle_tree(again, books);
        if self.wanted.packets.is_some() {
            let step = self.hold_packets(again, books);
            self.note(Part::Packets, step, books);
        }
        let retries = self.refusals.values().map(|refusal| refusal.retry_at);
        let is_left = !self.wanted.is_empty() || Self::has_part_in(books.ledger);
        self.due = is_left.then(|| retries.fold(books.now + LOOK, Ord::min));
    }

    fn settle_tree(&mut self, again: bool, books: &mut Books<'_>) {
        let device = if self.wanted.classes.is_empty() {
            self.parts.remove(&Part::Tree);
            self.parts.remove(&Part::Filters);
            None
        } else {
            match self.kernel.default_device() {
                Ok(device) => Some(device),
                Err(error) => return self.note(Part::Tree, Err(error), books),
            }
        };
        let others: Vec<Made> = books
            .ledger
            .all_made()
            .map(|entry| &entry.made)
            .filter(|made| match made {
                Made::Qdisc(name) => device.as_ref().is_none_or(|device| device.name != *name),
                _ => false,
            })
            .cloned()
            .collect();
        for made in others {
            self.withdraw(&made, books);
        }
        // The first look at another device finds nothing of ours, which is nobody's doing.
        let again = again && self.device == device.as_ref().map(|device| device.name.clone());
        self.device = device.as_ref().map(|device| device.name.clone());
        let Some(device) = device else { return };
        let step = self.hold_tree(&device, again, books);
        let is_held = matches!(step, Ok(Outcome::Held));
        self.note(Part::Tree, step, books);
        if self.wanted.filters && is_held {
            let step = self.hold_filters(&device, books);
            self.note(Part::Filters, step, books);
        }
    }

    fn hold_tree(&mut self, device: &Device, again: bool, books: &mut Books<'_>) -> Step {
        let root = self.kernel.root(device)?;
        let made = Made::Qdisc(device.name.clone());
        let is_there = root.as_ref().is_some_and(RootQdisc::is_ours);
        if !is_there && books.dry_run {
            return Ok(Outcome::DryRun);
        }
        let was_held = again && self.parts.get(&Part::Tree) == Some(&Standing::Held);
        if books.ledger.made(&made).is_none() {
            // A tree of ours that no ledger knows is an earlier agent's: what it took the place of is gone with it.
            let was = root.as_ref().filter(|_| !is_there).map_or("none".to_owned(), ToString::to_string);
            self.record(made, was, books)?;
        }
        let mut changes = Vec::new();
        if !is_there {
            self.kernel.add_tree(device)?;
            let was = root.map_or("none".to_owned(), |root| root.to_string());
            changes.push(Change {
                what: format!("root qdisc of {}", device.name),
                value: "htb 1:".to_owned(),
                was,
            });
        }
        let now = self.kernel.tree(device)?;
        if books.dry_run {
            let is_same = classes_are(&now, &self.wanted.classes);
            return Ok(if is_same { Outcome::Held } else { Outcome::DryRun });
        }
        let result = self.kernel.write_classes(device, &now, &self.wanted.classes, &mut changes);
        self.tell(changes, was_held, books);
        result.map(|()| Outcome::Held)
    }

    fn hold_filters(&mut self, device: &Device, books: &mut Books<'_>) -> Step {
        let now = self.kernel.tree(device)?;
        if now.has_filters() {
            return Ok(Outcome::Held);
        }
        if books.dry_run {
            return Ok(Outcome::DryRun);
        }
        self.kernel.add_filters(device, &now)?;
        let what = format!("network filters by cgroup of {}", device.name);
        self.tell(vec![Change { what, value: "present".to_owned(), was: "none".to_owned() }], false, books);
        Ok(Outcome::Held)
    }

    fn hold_packets(&mut self, again: bool, books: &mut Books<'_>) -> Step {
        let Some(wanted) = self.wanted.packets.clone() else { return Ok(Outcome::Held) };
        let now = self.kernel.table()?;
        if now.as_ref().is_some_and(|table| table.says(&wanted)) {
            if books.ledger.made(&Made::PacketTable).is_none() && !books.dry_run {
                self.record(Made::PacketTable, "none".to_owned(), books)?;
            }
            return Ok(Outcome::Held);
        }
        if books.dry_run {
            return Ok(Outcome::DryRun);
        }
        let was_held = again && self.parts.get(&Part::Packets) == Some(&Standing::Held);
        self.record(Made::PacketTable, "none".to_owned(), books)?;
        self.kernel.write_table(now.as_ref(), &wanted)?;
        let was = if now.is_some() { "other addresses or rules" } else { "none" }.to_owned();
        let change = Change { what: Made::PacketTable.to_string(), value: wanted.to_string(), was };
        self.tell(vec![change], was_held, books);
        Ok(Outcome::Held)
    }

    /// Removes what nobody wants any more, once whoever wanted it has had its say.
    fn withdraw(&mut self, made: &Made, books: &mut Books<'_>) {
        let Some(owner) = books.ledger.made(made).map(|entry| entry.owner) else { return };
        let is_moved = matches!(made, Made::Qdisc(_)) && !self.wanted.classes.is_empty();
        if !is_moved && !self.plan.synced.contains(&owner) {
            return;
        }
        if let Err(why) = self.remove(made, books) {
            tracing::warn!(%made, why, "cannot be removed; tried again in a minute");
        }
    }

    /// Removes a thing that we made, and forgets it.
    pub(super) fn remove(&mut self, made: &Made, books: &mut Books<'_>) -> Result<(), String> {
        if books.dry_run || !is_of_network(made) {
            return Ok(());
        }
        let removed = self.take_away(made);
        if removed.is_err() {
            self.kernel.reset();
        }
        if removed.map_err(|error| chain(&error))? {
            let change = Change { what: made.to_string(), value: "none".to_owned(), was: "ours".to_owned() };
            self.tell(vec![change], false, books);
            count(&books.stats.restored);
        }
        if let Err(error) = books.ledger.forget_made(made) {
            tracing::warn!(%made, %error, "cannot note in the ledger that a thing of ours is gone");
        }
        Ok(())
    }

    /// Whether there was something to remove.
    fn take_away(&mut self, made: &Made) -> Result<bool, NetworkError> {
        match made {
            Made::Qdisc(name) => match self.kernel.device(name)? {
                Some(device) => self.kernel.remove_tree(&device),
                None => Ok(false),
            },
            Made::PacketTable => self.kernel.remove_table().map(|()| true),
            Made::File(_) | Made::ResctrlGroup(_) => Ok(false),
        }
    }

    fn record(&self, made: Made, was: String, books: &mut Books<'_>) -> Result<(), NetworkError> {
        if books.dry_run {
            return Ok(());
        }
        let owner = self.owner();
        let entry = MadeEntry { made, boot: books.boot.to_owned(), owner, was };
        let recorded = books.ledger.record_made(entry).map_err(NetlinkError::Socket);
        recorded.doing("write the ledger, so nothing is made either")
    }

    fn owner(&self) -> Owner {
        self.plan.network.values().next().map_or(Owner::TcNetworkQos, |desired| desired.owner)
    }

    /// Notes how a part stands; a new refusal is told once.
    fn note(&mut self, part: Part, step: Step, books: &mut Books<'_>) {
        let standing = match step {
            Ok(Outcome::Held) => Standing::Held,
            Ok(Outcome::DryRun) => Standing::DryRun,
            Err(error) => {
                if matches!(error, NetworkError::Kernel { .. }) {
                    self.kernel.reset();
                }
                count(&books.stats.refused);
                let why = chain(&error);
                let refusal = Refusal::after(self.refusals.get(&part), part.name(), why.clone(), books.now);
                if refusal.is_new() {
                    books.notify(NoticeKind::Refused, part.name().to_owned(), why.clone());
                }
                self.refusals.insert(part, refusal);
                self.parts.insert(part, Standing::Refused(why));
                return;
            }
        };
        self.refusals.remove(&part);
        self.parts.insert(part, standing);
    }

    /// Tells of what was written. What differed though it was held is others' doing.
    fn tell(&self, changes: Vec<Change>, was_held: bool, books: &mut Books<'_>) {
        for Change { what, value, was } in changes {
            count(&books.stats.written);
            if was_held {
                count(&books.stats.foreign);
                count(&books.stats.repaired);
                let text = format!("somebody changed it to {was}; put right");
                books.notify(NoticeKind::ForeignWrite, what.clone(), text);
            }
            let why = self.plan.network.values().next();
            let why = why.map_or("no longer claimed".to_owned(), |desired| desired.reason.text.clone());
            let owner = Some(self.owner());
            let record = WriteRecord { subject: WriteSubject::Host, path: what, value, was, owner, why };
            books.tell(record);
        }
    }
}
