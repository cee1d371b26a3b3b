//! The node's network, hooks.md 11.5: classes of traffic on the device of the default route, and the packet table that
//! gives packets their class. The kernel tells nobody of changes here, so all is looked at once a minute: a route that
//! moved, and what others changed, is put right then. Only what differs is written.
//!
//! A qdisc that somebody set up is never replaced: on such a device nothing is shaped, and a notice says so. What was
//! there is the kernel's own default, therefore, and comes back by itself when ours is removed.

mod attributes;
mod kernel;
mod packets;
mod routes;
mod settle;
mod socket;
mod traffic;
mod wanted;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use self::kernel::Kernel;
use self::wanted::{Part, Wanted};
use super::keeper::{Books, Keeper};
use super::ledger::{Ledger, Made};
use super::refusal::Refusal;
use super::report::{RestoreReport, Stand, TargetReport, TargetState};
use super::stats::count;
use crate::claims::network::{ClassId, NetworkTarget};
use crate::claims::plan::{Decision, Desired, Plan};
use crate::units::Nanos;

/// Everything is looked at once in this time.
const LOOK: Nanos = Nanos(60_000_000_000);

/// An address as the key of a set in the packet table.
pub fn set_key(address: Ipv4Addr) -> [u8; 4] {
    packets::set_key(address)
}

/// Keeps the network as the plan says.
#[derive(Debug, Default)]
pub(super) struct Network {
    plan: Arc<Plan>,
    wanted: Wanted,
    kernel: Kernel,
    parts: BTreeMap<Part, Standing>,
    refusals: BTreeMap<Part, Refusal>,
    /// Name of the device that is shaped.
    device: Option<String>,
    /// When to look again.
    due: Option<Nanos>,
    released: bool,
}

/// How a part stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Held,
    Refused(String),
    DryRun,
}

impl Network {
    fn has_part_in(ledger: &Ledger) -> bool {
        ledger.all_made().any(|entry| is_of_network(&entry.made))
    }

    fn explain_one(
        &self,
        target: NetworkTarget,
        desired: &Desired<NetworkTarget>,
        ledger: &Ledger,
    ) -> TargetReport {
        let (state, detail) = match self.parts.get(&Part::of(target)) {
            _ if self.released => (TargetState::Left, Some("everything was put back".to_owned())),
            Some(Standing::Held) => (TargetState::Held, None),
            Some(Standing::Refused(why)) => (TargetState::Refused, Some(why.clone())),
            Some(Standing::DryRun) => (TargetState::DryRun, None),
            None => (TargetState::Pending, None),
        };
        let value = match &desired.decision {
            Decision::Hold(value) if !self.released => Some(value.to_string()),
            _ => None,
        };
        let device = self.device.clone();
        let is_root = target == NetworkTarget::Class(ClassId::ROOT);
        let replaced = device
            .clone()
            .filter(|_| is_root)
            .and_then(|device| Some(ledger.made(&Made::Qdisc(device))?.was.clone()));
        let path = match (device, target) {
            (Some(device), NetworkTarget::Class(_) | NetworkTarget::CgroupFilters) => {
                format!("{target} of {device}")
            }
            _ => target.to_string(),
        };
        let stand = Stand { path, cgroup_id: None, value, state, replaced, detail };
        stand.report(desired, ToString::to_string)
    }
}

/// Whether a thing that we made is a part of the network.
fn is_of_network(made: &Made) -> bool {
    matches!(made, Made::Qdisc(_) | Made::PacketTable)
}

impl Keeper for Network {
    fn apply(&mut self, plan: &Arc<Plan>, books: &mut Books<'_>) {
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        let wanted = Wanted::of(plan);
        let is_judged_anew = old.synced != plan.synced && Self::has_part_in(books.ledger);
        if wanted == self.wanted && !is_judged_anew {
            return;
        }
        self.wanted = wanted;
        // Another wish is another question.
        self.refusals.clear();
        self.settle(false, books);
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

    fn explain(&self, ledger: &Ledger) -> Vec<TargetReport> {
        let targets = self.plan.network.iter();
        targets.map(|(target, desired)| self.explain_one(*target, desired, ledger)).collect()
    }

    fn restore(&mut self, books: &mut Books<'_>, report: &mut RestoreReport) {
        self.released = true;
        let all: Vec<Made> = books.ledger.all_made().map(|entry| entry.made.clone()).collect();
        for made in all.into_iter().filter(is_of_network).rev() {
            match self.remove(&made, books) {
                Ok(()) => report.restored.push(made.to_string()),
                Err(why) => report.failed.push((made.to_string(), why)),
            }
        }
    }
}
