//! `resourceQOSStrategy`, qos.md 1.2: what each QoS class gets of CPU, memory, caches, block I/O and network. Typed by
//! what is driven, not by class, since each is one consumer's, and of each the last good value stays on its own.

pub mod blkio;
pub mod cpu;
pub mod memory;
pub mod network;
pub mod resctrl;

use serde_json::Value;

use super::fields::{Faults, Fields, SloNotice};
use super::merge::renew;
use crate::api::qos::QosClass;

use blkio::BlkioStrategy;
use cpu::CpuStrategy;
use memory::MemoryQos;
use network::NetworkStrategy;
use resctrl::ResctrlQos;

const SECTION: &str = "spec.resourceQOSStrategy";

/// The QoS of all classes, defaults and neutral values applied: a consumer may take each value as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct QosStrategy {
    /// `cpuQOS`, and what it drives.
    pub cpu: CpuStrategy,
    /// `memoryQOS`.
    pub memory: PerClass<MemoryQos>,
    /// `resctrlQOS`.
    pub resctrl: PerClass<ResctrlQos>,
    /// `blkioQOS`, also of the root group.
    pub blkio: BlkioStrategy,
    /// `networkQOS`, and who brings it about.
    pub network: NetworkStrategy,
}

/// A value for each QoS class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerClass<T> {
    /// LSR, and LSE.
    pub lsr: T,
    /// LS.
    pub ls: T,
    /// BE.
    pub be: T,
    /// SYSTEM.
    pub system: T,
}

impl<T> PerClass<T> {
    /// Of pods of that class.
    pub fn of(&self, class: QosClass) -> &T {
        match class {
            QosClass::Lse | QosClass::Lsr => &self.lsr,
            QosClass::Ls => &self.ls,
            QosClass::Be => &self.be,
            QosClass::System => &self.system,
        }
    }

    fn build(mut value: impl FnMut(QosClass) -> T) -> Self {
        Self {
            lsr: value(QosClass::Lsr),
            ls: value(QosClass::Ls),
            be: value(QosClass::Be),
            system: value(QosClass::System),
        }
    }
}

impl Default for QosStrategy {
    fn default() -> Self {
        let (section, faults) = (Section(None), &mut Faults::default());
        Self {
            cpu: CpuStrategy::read(section, faults),
            memory: MemoryQos::read_all(section, faults),
            resctrl: ResctrlQos::read_all(section, faults),
            blkio: BlkioStrategy::read(section, faults),
            network: NetworkStrategy::read(section, faults),
        }
    }
}

impl QosStrategy {
    /// Takes a new section. What a bad field belongs to stays as it was; a section or class that is no object leaves
    /// all as it was.
    pub(super) fn update(&mut self, value: Option<&Value>, notices: &mut Vec<SloNotice>) {
        let mut is_usable = false;
        renew(&mut is_usable, "QoS of the classes", notices, |faults| {
            check_shape(value, faults);
            true
        });
        if !is_usable {
            return;
        }
        let section = Section(value);
        let Self { cpu, memory, resctrl, blkio, network } = self;
        renew(cpu, "CPU QoS", notices, |faults| CpuStrategy::read(section, faults));
        renew(memory, "memory QoS", notices, |faults| MemoryQos::read_all(section, faults));
        renew(resctrl, "resctrl QoS", notices, |faults| ResctrlQos::read_all(section, faults));
        renew(blkio, "block I/O QoS", notices, |faults| BlkioStrategy::read(section, faults));
        renew(network, "network QoS", notices, |faults| NetworkStrategy::read(section, faults));
    }
}

/// The members of a class.
const MEMBERS: [&str; 5] = ["cpuQOS", "memoryQOS", "blkioQOS", "resctrlQOS", "networkQOS"];

/// Whether section and classes are objects, and what in them is not known. The members are looked at by their readers.
fn check_shape(value: Option<&Value>, faults: &mut Faults) {
    Fields::read(SECTION.to_owned(), value, faults, |section| {
        section.section("policies", |policies| policies.know(&["cpuPolicy", "netQOSPolicy"]));
        for class in ["lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot"] {
            section.section(class, |class| class.know(&MEMBERS));
        }
    });
}

/// The section, its shape checked.
#[derive(Clone, Copy)]
struct Section<'a>(Option<&'a Value>);

impl<'a> Section<'a> {
    /// Reads one member of a class, or the policies.
    fn read<T>(
        self,
        class: &str,
        member: &str,
        faults: &mut Faults,
        read: impl FnOnce(&mut Fields<'a, '_>) -> T,
    ) -> T {
        let value = self.0.and_then(|section| section.get(class)?.get(member));
        Fields::read(format!("{SECTION}.{class}.{member}"), value, faults, read)
    }

    /// Reads one member of each class.
    fn read_all<T>(
        self,
        member: &str,
        faults: &mut Faults,
        read: impl Fn(QosClass, &mut Fields<'a, '_>) -> T,
    ) -> PerClass<T> {
        PerClass::build(|class| self.read(name(class), member, faults, |fields| read(class, fields)))
    }

    /// The policies; the other one in there is known elsewhere.
    fn policies<'f>(self, faults: &'f mut Faults) -> Fields<'a, 'f> {
        let value = self.0.and_then(|section| section.get("policies"));
        Fields::at(format!("{SECTION}.policies"), value, faults)
    }
}

/// The member of the section that speaks of a class.
fn name(class: QosClass) -> &'static str {
    match class {
        QosClass::Lse | QosClass::Lsr => "lsrClass",
        QosClass::Ls => "lsClass",
        QosClass::Be => "beClass",
        QosClass::System => "systemClass",
    }
}

/// Whether a class gets neutral values where a member is off, collection.md 7.4. SYSTEM keeps what it was given.
fn is_neutralised(class: QosClass) -> bool {
    class != QosClass::System
}

#[cfg(test)]
mod tests;
