//! Makes one part of the network true: reads what the kernel has, and writes what differs.

use std::collections::BTreeMap;

use super::packets::{self, Packets, Table};
use super::routes::{self, Device};
use super::socket::{Netlink, NetlinkError};
use super::traffic::{self, HtbClass, RootQdisc, Tree};
use crate::claims::network::{ClassId, ClassShare, NetworkValue};

const NETLINK_ROUTE: isize = 0;
const NETLINK_NETFILTER: isize = 12;

/// Why a part is not as it is to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    /// Nothing can be done until there is one.
    #[error("there is no IPv4 default route, so no device to shape")]
    NoDefaultRoute,
    /// Somebody chose another way of sending.
    #[error(
        "{device} sends through {qdisc}, which somebody set up and which stays: remove it there, or the policy here"
    )]
    ForeignQdisc {
        /// Name of the device.
        device: String,
        /// What is there.
        qdisc: RootQdisc,
    },
    /// The kernel cannot find classes by cgroup.
    #[error(
        "this kernel has no classifier by cgroup (cls_cgroup): pods on the node's own network stay in class 1:2"
    )]
    NoCgroupFilters(#[source] NetlinkError),
    /// The kernel said no.
    #[error("cannot {doing}")]
    Kernel {
        /// What was tried.
        doing: &'static str,
        /// Its answer.
        #[source]
        source: NetlinkError,
    },
}

/// Says what was tried when something failed.
pub(super) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, NetworkError>;
}

impl<T> Doing<T> for Result<T, NetlinkError> {
    fn doing(self, what: &'static str) -> Result<T, NetworkError> {
        self.map_err(|source| NetworkError::Kernel { doing: what, source })
    }
}

/// One thing that was changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// E.g. `network class 1:3 of eth0`.
    pub(super) what: String,
    /// What it is now.
    pub(super) value: String,
    /// What it was.
    pub(super) was: String,
}

/// The kernel's network, in the namespace of the thread that first uses it.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    route: Option<Netlink>,
    netfilter: Option<Netlink>,
}

impl Kernel {
    fn route(&mut self) -> Result<&mut Netlink, NetworkError> {
        open(&mut self.route, NETLINK_ROUTE)
    }

    fn netfilter(&mut self) -> Result<&mut Netlink, NetworkError> {
        open(&mut self.netfilter, NETLINK_NETFILTER)
    }

    /// Starts anew with the sockets after a failure: an answer that comes late belongs to no request.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The device of the default route.
    pub(super) fn default_device(&mut self) -> Result<Device, NetworkError> {
        let netlink = self.route()?;
        let index = routes::default_device(netlink).doing("read the routes")?;
        let devices = routes::devices(netlink).doing("read the network devices")?;
        let device = devices.into_iter().find(|device| Some(device.index) == index);
        device.ok_or(NetworkError::NoDefaultRoute)
    }

    /// The device of that name; `None` if it is gone.
    pub(super) fn device(&mut self, name: &str) -> Result<Option<Device>, NetworkError> {
        let devices = routes::devices(self.route()?).doing("read the network devices")?;
        Ok(devices.into_iter().find(|device| device.name == name))
    }

    /// What stands at the root of a device; an error if it is somebody's.
    pub(super) fn root(&mut self, device: &Device) -> Result<Option<RootQdisc>, NetworkError> {
        let root = traffic::root_qdisc(self.route()?, device.index).doing("read the device's qdisc")?;
        match root {
            Some(qdisc) if !qdisc.is_default() && !qdisc.is_ours() => {
                Err(NetworkError::ForeignQdisc { device: device.name.clone(), qdisc })
            }
            root => Ok(root),
        }
    }

    /// The classes and filters of a device whose root is ours.
    pub(super) fn tree(&mut self, device: &Device) -> Result<Tree, NetworkError> {
        traffic::tree(self.route()?, device.index).doing("read the device's classes")
    }

    /// Makes our tree the root of a device.
    pub(super) fn add_tree(&mut self, device: &Device) -> Result<(), NetworkError> {
        traffic::add_tree(self.route()?, device.index).doing("make the qdisc htb 1:")
    }

    /// Removes the tree of a device, if it is ours.
    pub(super) fn remove_tree(&mut self, device: &Device) -> Result<bool, NetworkError> {
        let netlink = self.route()?;
        let root = traffic::root_qdisc(netlink, device.index).doing("read the device's qdisc")?;
        if !root.is_some_and(|root| root.is_ours()) {
            return Ok(false);
        }
        traffic::remove_tree(netlink, device.index).doing("remove the qdisc htb 1:")?;
        Ok(true)
    }

    /// Gives the tree `wanted` classes and no others; tells what changed, also before a failure.
    pub(super) fn write_classes(
        &mut self,
        device: &Device,
        now: &Tree,
        wanted: &BTreeMap<ClassId, ClassShare>,
        changes: &mut Vec<Change>,
    ) -> Result<(), NetworkError> {
        let netlink = self.route()?;
        for (class, share) in wanted {
            let was = now.classes.get(class);
            if was == Some(&HtbClass::with(*class, *share)) {
                continue;
            }
            traffic::put_class(netlink, device.index, *class, *share).doing("set a class")?;
            changes.push(class_change(device, *class, was, Some(*share)));
        }
        for (class, was) in now.classes.iter().filter(|(class, _)| !wanted.contains_key(class)) {
            traffic::remove_class(netlink, device.index, *class).doing("remove a class")?;
            changes.push(class_change(device, *class, Some(was), None));
        }
        Ok(())
    }

    /// Adds the filters by cgroup.
    pub(super) fn add_filters(&mut self, device: &Device, now: &Tree) -> Result<(), NetworkError> {
        match traffic::add_filters(self.route()?, device.index, now) {
            Err(error) if traffic::is_unsupported(&error) => Err(NetworkError::NoCgroupFilters(error)),
            answer => answer.doing("add the filters by cgroup"),
        }
    }

    /// Our packet table.
    pub(super) fn table(&mut self) -> Result<Option<Table>, NetworkError> {
        packets::table(self.netfilter()?).doing("read the packet table")
    }

    /// Makes the packet table say `wanted`.
    pub(super) fn write_table(&mut self, now: Option<&Table>, wanted: &Packets) -> Result<(), NetworkError> {
        packets::write(self.netfilter()?, now, wanted).doing("write the packet table")
    }

    /// Removes the packet table.
    pub(super) fn remove_table(&mut self) -> Result<(), NetworkError> {
        packets::remove(self.netfilter()?).doing("remove the packet table")
    }
}

fn open(slot: &mut Option<Netlink>, protocol: isize) -> Result<&mut Netlink, NetworkError> {
    let opened = match slot.take() {
        Some(netlink) => netlink,
        None => Netlink::open(protocol).doing("open a netlink socket")?,
    };
    Ok(slot.insert(opened))
}

/// Whether the classes are `wanted`, and no others are there.
pub(super) fn classes_are(now: &Tree, wanted: &BTreeMap<ClassId, ClassShare>) -> bool {
    let is = |(class, share): (&ClassId, &ClassShare)| {
        now.classes.get(class) == Some(&HtbClass::with(*class, *share))
    };
    now.classes.len() == wanted.len() && wanted.iter().all(is)
}

fn class_change(device: &Device, class: ClassId, was: Option<&HtbClass>, now: Option<ClassShare>) -> Change {
    let text = |share: Option<ClassShare>| match share {
        Some(share) => NetworkValue::Share(share).to_string(),
        None => "none".to_owned(),
    };
    Change {
        what: format!("network class {class} of {}", device.name),
        value: text(now),
        was: text(was.map(traffic::share_of)),
    }
}
