//! Traffic control of one device through rtnetlink: the root qdisc, HTB's classes, and the filters by cgroup.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::{Attributes, Read, u32_at};
use super::socket::{Message, Netlink, NetlinkError, flags};
use crate::claims::network::{ClassId, ClassShare};
use crate::units::BitRate;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;

/// `struct tcmsg`
const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const HTB_VERSION: u32 = 3;
/// The divisor of a rate that gives a quantum where none is set; ours always are.
const HTB_RATE_TO_QUANTUM: u32 = 10;
/// `TC_H_ROOT`
const AT_ROOT: u32 = u32::MAX;

/// The filters' handles, hooks.md 11.5; each is also the filter's priority.
const FILTERS: [u32; 3] = [2, 3, 4];

/// What a device sends through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootQdisc {
    /// E.g. `fq_codel`.
    pub(super) kind: String,
    /// 0 for what the kernel put there by itself.
    pub(super) handle: u32,
    /// HTB's class for packets of which nothing else is said.
    default_class: Option<u32>,
}

impl RootQdisc {
    /// Whether the kernel put it there by itself.
    pub(super) fn is_default(&self) -> bool {
        self.handle == 0
    }

    /// Whether it is a tree as we make it.
    pub(super) fn is_ours(&self) -> bool {
        self.handle == ClassId::TREE.raw() && self.default_class == Some(ClassId::SYSTEM.raw() & 0xffff)
    }
}

impl std::fmt::Display for RootQdisc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:x}:", self.kind, self.handle >> 16)
    }
}

/// One HTB class as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HtbClass {
    pub(super) parent: u32,
    options: HtbOptions,
}

/// What HTB is told of a class: rates in bytes a second, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HtbOptions {
    rate: u64,
    ceil: u64,
    burst: u32,
    ceil_burst: u32,
    quantum: u32,
    priority: u32,
}

/// The class that a class lies in: all in the root, so that each is a leaf and may hold packets.
fn parent(class: ClassId) -> ClassId {
    if class == ClassId::ROOT { ClassId::TREE } else { ClassId::ROOT }
}

impl HtbClass {
    /// A class with a share.
    pub(super) fn with(class: ClassId, share: ClassShare) -> Self {
        let parent = if class == ClassId::ROOT { AT_ROOT } else { parent(class).raw() };
        Self { parent, options: HtbOptions::of(class, share) }
    }
}

impl HtbOptions {
    fn of(class: ClassId, share: ClassShare) -> Self {
        /// Between one packet and what the kernel warns of, bytes.
        const QUANTUM: (u64, u64) = (1514, 60_000);
        let rate = share.rate.bytes_per_second().max(1);
        let ceil = share.ceil.bytes_per_second().max(rate);
        let quantum = match class {
            // Once it has classes in it the kernel takes no other, and uses none.
            ClassId::ROOT => QUANTUM.1,
            _ => (rate / u64::from(HTB_RATE_TO_QUANTUM)).clamp(QUANTUM.0, QUANTUM.1),
        };
        Self {
            rate,
            ceil,
            burst: ticks(rate),
            ceil_burst: ticks(ceil),
            quantum: u32::try_from(quantum).unwrap_or(u32::MAX),
            priority: share.priority.min(7),
        }
    }

    fn read(options: Read<'_>) -> Option<Self> {
        let parms = options.get(TCA_HTB_PARMS)?;
        let rate = |at, long| Some(options.long(long).unwrap_or(u64::from(u32_at(parms, at)?)));
        Some(Self {
            rate: rate(8, TCA_HTB_RATE64)?,
            ceil: rate(20, TCA_HTB_CEIL64)?,
            burst: u32_at(parms, 24)?,
            ceil_burst: u32_at(parms, 28)?,
            quantum: u32_at(parms, 32)?,
            priority: u32_at(parms, 40)?,
        })
    }

    fn put(&self, options: &mut Attributes) {
        /// `TC_LINKLAYER_ETHERNET` in a `struct tc_ratespec` of otherwise zeros: a packet costs its length.
        const RATE_SPEC: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
        let short = |rate: u64| u32::try_from(rate).unwrap_or(u32::MAX);
        let mut parms = Vec::with_capacity(44);
        for rate in [self.rate, self.ceil] {
            parms.extend_from_slice(&RATE_SPEC);
            parms.extend_from_slice(&short(rate).to_ne_bytes());
        }
        for number in [self.burst, self.ceil_burst, self.quantum, 0, self.priority] {
            parms.extend_from_slice(&number.to_ne_bytes());
        }
        options.put(TCA_HTB_PARMS, &parms);
        for (kind, rate) in [(TCA_HTB_RATE64, self.rate), (TCA_HTB_CEIL64, self.ceil)] {
            if rate > u64::from(u32::MAX) {
                options.put(kind, &rate.to_ne_bytes());
            }
        }
    }
}

/// The time in which a class saves up a burst of a packet and a millisecond's worth, in the kernel's ticks of 64 ns.
fn ticks(bytes_per_second: u64) -> u32 {
    const PACKET: u128 = 1600;
    let rate = u128::from(bytes_per_second.max(1));
    let ticks = (PACKET + rate / 1000) * 1_000_000_000 / rate / 64;
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// A device's tree as the kernel has it.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) classes: BTreeMap<ClassId, HtbClass>,
    filters: BTreeSet<u32>,
}

impl Tree {
    /// Whether all filters by cgroup are there.
    pub(super) fn has_filters(&self) -> bool {
        FILTERS.iter().all(|filter| self.filters.contains(&(filter << 16)))
    }
}

/// The kernel's answer that it has no classifier of a kind, or no such object.
pub(super) fn is_unsupported(error: &NetlinkError) -> bool {
    error.is(libc::ENOENT) || error.is(libc::EOPNOTSUPP)
}

fn header(device: u32, handle: u32, parent: u32, info: u32) -> Attributes {
    let mut bytes = vec![0; 4];
    for number in [device, handle, parent, info] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    Attributes::after(&bytes)
}

fn message(kind: u16, flags: u16, body: &Attributes) -> Message {
    Message { kind, flags, body: body.bytes().to_vec() }
}

/// What the device sends through; `None` for a device without queues.
pub(super) fn root_qdisc(netlink: &mut Netlink, device: u32) -> Result<Option<RootQdisc>, NetlinkError> {
    let bodies = netlink.dump(&message(RTM_GETQDISC, 0, &header(device, 0, 0, 0)))?;
    Ok(bodies.iter().find_map(|body| {
        let is_root = u32_at(body, 4)? == device && u32_at(body, 12)? == AT_ROOT;
        let attributes = is_root.then(|| Read::after(body, TCMSG))?;
        let kind = attributes.text(TCA_KIND)?.to_owned();
        let init = attributes.nested(TCA_OPTIONS).filter(|_| kind == "htb");
        let default_class = init.and_then(|options| u32_at(options.get(TCA_HTB_INIT)?, 8));
        Some(RootQdisc { kind, handle: u32_at(body, 8)?, default_class })
    }))
}

/// The classes and filters of the device.
pub(super) fn tree(netlink: &mut Netlink, device: u32) -> Result<Tree, NetlinkError> {
    let mut tree = Tree::default();
    for body in netlink.dump(&message(RTM_GETTCLASS, 0, &header(device, 0, 0, 0)))? {
        let options = Read::after(&body, TCMSG).nested(TCA_OPTIONS).and_then(HtbOptions::read);
        if let (Some(class), Some(parent), Some(options)) = (u32_at(&body, 8), u32_at(&body, 12), options) {
            tree.classes.insert(ClassId::from_raw(class), HtbClass { parent, options });
        }
    }
    let filters = header(device, 0, ClassId::TREE.raw(), 0);
    for body in netlink.dump(&message(RTM_GETTFILTER, 0, &filters))? {
        if Read::after(&body, TCMSG).text(TCA_KIND) == Some("cgroup") {
            tree.filters.extend(u32_at(&body, 8));
        }
    }
    Ok(tree)
}

/// Makes our tree the root of the device. The kernel refuses where somebody else's is.
pub(super) fn add_tree(netlink: &mut Netlink, device: u32) -> Result<(), NetlinkError> {
    let mut body = header(device, ClassId::TREE.raw(), AT_ROOT, 0);
    body.text(TCA_KIND, "htb").nested(TCA_OPTIONS, |options| {
        let default_class = ClassId::SYSTEM.raw() & 0xffff;
        let init: Vec<u8> = [HTB_VERSION, HTB_RATE_TO_QUANTUM, default_class, 0, 0]
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        options.put(TCA_HTB_INIT, &init);
    });
    netlink.request(&message(RTM_NEWQDISC, flags::CREATE | flags::EXCLUSIVE, &body))
}

/// Removes our tree with all that is in it; the kernel's default takes its place.
pub(super) fn remove_tree(netlink: &mut Netlink, device: u32) -> Result<(), NetlinkError> {
    netlink.request(&message(RTM_DELQDISC, 0, &header(device, ClassId::TREE.raw(), AT_ROOT, 0)))
}

/// Makes a class, or gives it another share.
pub(super) fn put_class(
    netlink: &mut Netlink,
    device: u32,
    class: ClassId,
    share: ClassShare,
) -> Result<(), NetlinkError> {
    let mut body = header(device, class.raw(), parent(class).raw(), 0);
    body.text(TCA_KIND, "htb").nested(TCA_OPTIONS, |options| HtbOptions::of(class, share).put(options));
    netlink.request(&message(RTM_NEWTCLASS, flags::CREATE, &body))
}

/// Removes a class.
pub(super) fn remove_class(netlink: &mut Netlink, device: u32, class: ClassId) -> Result<(), NetlinkError> {
    netlink.request(&message(RTM_DELTCLASS, 0, &header(device, class.raw(), 0, 0)))
}

/// Adds the filters by cgroup that are missing.
pub(super) fn add_filters(netlink: &mut Netlink, device: u32, tree: &Tree) -> Result<(), NetlinkError> {
    /// `ETH_P_ALL` in the network's order.
    const ALL_PROTOCOLS: u32 = 0x0003u16.to_be() as u32;
    for filter in FILTERS.into_iter().filter(|filter| !tree.filters.contains(&(filter << 16))) {
        let mut body = header(device, filter << 16, ClassId::TREE.raw(), filter << 16 | ALL_PROTOCOLS);
        body.text(TCA_KIND, "cgroup").nested(TCA_OPTIONS, |_| {});
        netlink.request(&message(RTM_NEWTFILTER, flags::CREATE | flags::EXCLUSIVE, &body))?;
    }
    Ok(())
}

/// The share of a class as the kernel has it, for texts.
pub(super) fn share_of(class: &HtbClass) -> ClassShare {
    let HtbOptions { rate, ceil, priority, .. } = class.options;
    let bits = |bytes: u64| BitRate(bytes.saturating_mul(8));
    ClassShare { rate: bits(rate), ceil: bits(ceil), priority }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_back_also_beyond_32_bits() {
        for (rate, ceil) in [(1, 8), (8_000, 1_000_000_000), (100_000_000_000, 400_000_000_000)] {
            let share = ClassShare { rate: BitRate(rate), ceil: BitRate(ceil), priority: 3 };
            let options = HtbOptions::of(ClassId::LS, share);
            let mut made = Attributes::default();
            options.put(&mut made);
            assert_eq!(HtbOptions::read(Read(made.bytes())), Some(options), "{share:?}");
            assert!(options.ceil >= options.rate && options.rate > 0 && options.burst > 0);
            assert!((1000..=200_000).contains(&options.quantum));
        }
        assert_eq!(HtbOptions::read(Read(&[])), None);
    }

    #[test]
    fn a_burst_is_a_packet_and_a_millisecond() {
        // 1 Gbit/s: 126600 bytes at 125 MB/s are 1012800 ns.
        assert_eq!(ticks(125_000_000), 15_825);
        assert_eq!(ticks(0), ticks(1));
        assert_eq!(ticks(u64::MAX), 15_625, "a millisecond");
    }

    #[test]
    fn whose_root_it_is() {
        let root = |kind: &str, handle, default_class| RootQdisc { kind: kind.into(), handle, default_class };
        assert!(root("htb", 0x1_0000, Some(2)).is_ours());
        assert!(!root("htb", 0x1_0000, Some(30)).is_ours() && !root("htb", 0x2_0000, Some(2)).is_ours());
        assert!(root("fq_codel", 0, None).is_default() && !root("tbf", 0x8001_0000, None).is_default());
        assert_eq!(root("tbf", 0x8001_0000, None).to_string(), "tbf 8001:");
    }
}
