//! Our table of nf_tables: a set of source addresses for each shared class, a map for pods with classes of their own,
//! and a chain that gives packets their class where the reference has rules of iptables and sets of ipset (hooks.md
//! 11.5). A table is its owner's alone, so it stands beside iptables of either kind. The kernel takes a change of it
//! whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::attributes::{Attributes, Read, u32_at};
use super::socket::{Message, Netlink, NetlinkError, flags};
use crate::claims::network::ClassId;

/// Name of the table, for IPv4.
pub(super) const TABLE: &str = "koordlet";
const CHAIN: &str = "postrouting";
/// Name of the map from addresses to classes of their own.
const OWN_CLASSES: &str = "pod_class";

/// The set of each shared class, hooks.md 11.5.
const SETS: [(&str, ClassId); 3] =
    [("system_class", ClassId::SYSTEM), ("ls_class", ClassId::LS), ("be_class", ClassId::BE)];

/// Addresses in one message: an attribute holds less than 64 KiB.
const CHUNK: usize = 1000;

/// `struct nfgenmsg`
const NFGENMSG: usize = 4;
const IPV4: u8 = 2;
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEWTABLE: u16 = 0;
const GETTABLE: u16 = 1;
const DELTABLE: u16 = 2;
const NEWCHAIN: u16 = 3;
const GETCHAIN: u16 = 4;
const NEWRULE: u16 = 6;
const GETRULE: u16 = 7;
const NEWSET: u16 = 9;
const GETSET: u16 = 10;
const NEWSETELEM: u16 = 12;
const GETSETELEM: u16 = 13;
const DELSETELEM: u16 = 14;

/// In the attributes of all objects but tables, the table's name is the first.
const OF_TABLE: u16 = 1;
const TABLE_NAME: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const CHAIN_NAME: u16 = 3;
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const ELEMENTS_SET: u16 = 2;
const ELEMENTS_LIST: u16 = 3;
const ELEMENT_KEY: u16 = 1;
const ELEMENT_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const LIST_ELEMENT: u16 = 1;

/// What the table says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packets {
    /// Addresses of the shared classes, in the order of `SETS`.
    shared: [BTreeSet<Ipv4Addr>; 3],
    /// Addresses with classes of their own.
    own: BTreeMap<Ipv4Addr, ClassId>,
}

impl Packets {
    /// Takes the addresses of a class.
    pub(super) fn take(&mut self, class: ClassId, addresses: &BTreeSet<Ipv4Addr>) {
        match SETS.iter().position(|(_, each)| *each == class).and_then(|place| self.shared.get_mut(place)) {
            Some(set) => set.extend(addresses),
            None => self.own.extend(addresses.iter().map(|address| (*address, class))),
        }
    }

    /// Key and, of the map, value of each element, as the kernel has them, by the name of set or map.
    fn elements(&self) -> [(&'static str, BTreeSet<Element>); 4] {
        let set = |place: usize| {
            let addresses = self.shared.get(place).into_iter().flatten();
            addresses.map(|address| (set_key(*address), None)).collect()
        };
        let [system, ls, be] = SETS.map(|(name, _)| name);
        let own = self.own.iter().map(|(address, class)| (set_key(*address), Some(class.raw())));
        [(system, set(0)), (ls, set(1)), (be, set(2)), (OWN_CLASSES, own.collect())]
    }
}

impl fmt::Display for Packets {
    /// How many addresses each class has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((name, _), addresses) in SETS.iter().zip(&self.shared) {
            write!(f, "{name} {}, ", addresses.len())?;
        }
        write!(f, "{OWN_CLASSES} {}", self.own.len())
    }
}

/// An element of a set or map.
type Element = ([u8; 4], Option<u32>);

/// An address as the key of a set: its bytes in the order of the network.
pub(super) fn set_key(address: Ipv4Addr) -> [u8; 4] {
    address.octets()
}

/// Our table as the kernel has it.
#[derive(Debug)]
pub(super) struct Table {
    /// Whether sets, chain and rules are those that we make, and no others.
    has_our_shape: bool,
    elements: BTreeMap<&'static str, BTreeSet<Element>>,
}

impl Table {
    /// Whether it says `wanted`.
    pub(super) fn says(&self, wanted: &Packets) -> bool {
        let same = |(name, elements)| self.elements.get(name) == Some(&elements);
        self.has_our_shape && wanted.elements().into_iter().all(same)
    }
}

fn object(command: u16, flags: u16, fill: impl FnOnce(&mut Attributes)) -> Message {
    let mut body = Attributes::after(&[IPV4, 0, 0, 0]);
    fill(&mut body);
    Message { kind: SUBSYSTEM << 8 | command, flags, body: body.bytes().to_vec() }
}

fn frame() -> [Message; 2] {
    let body = vec![0, 0, 0, SUBSYSTEM.to_be_bytes()[1]];
    [BATCH_BEGIN, BATCH_END].map(|kind| Message { kind, flags: 0, body: body.clone() })
}

/// Objects of one kind in our table. One that is not there has none.
fn dump(netlink: &mut Netlink, command: u16) -> Result<Vec<Vec<u8>>, NetlinkError> {
    let message = object(command, 0, |body| _ = body.text(OF_TABLE, TABLE));
    let bodies = match netlink.dump(&message) {
        Err(error) if error.is(libc::ENOENT) => Vec::new(),
        bodies => bodies?,
    };
    // Some kernels leave the choice of a table to us.
    let is_ours =
        |body: &Vec<u8>| body.first() == Some(&IPV4) && attributes(body).text(OF_TABLE) == Some(TABLE);
    Ok(bodies.into_iter().filter(is_ours).collect())
}

/// Our table; `None` if there is none.
pub(super) fn table(netlink: &mut Netlink) -> Result<Option<Table>, NetlinkError> {
    if dump(netlink, GETTABLE)?.is_empty() {
        return Ok(None);
    }
    let (sets, chains, rules) = (dump(netlink, GETSET)?, dump(netlink, GETCHAIN)?, dump(netlink, GETRULE)?);
    let in_order = |(found, wanted): (&Vec<u8>, &Message)| {
        let (found, wanted) = (attributes(found), attributes(&wanted.body));
        let steps = |rule: Read<'_>| rule.nested(RULE_EXPRESSIONS).map_or(0, |list| list.iter().count());
        found.shows(wanted) && steps(found) == steps(wanted)
    };
    let wanted_rules = rule_messages();
    let names: Vec<&str> = SETS.iter().map(|(name, _)| *name).chain([OWN_CLASSES]).collect();
    let sets_are_ours = sets.len() == names.len()
        && names.iter().all(|name| sets.iter().any(|set| is_our_set(attributes(set), name)));
    let has_our_shape = sets_are_ours
        && chains.len() == 1
        && chains.iter().zip(&[chain_message()]).all(in_order)
        && rules.len() == wanted_rules.len()
        && rules.iter().zip(&wanted_rules).all(in_order);
    let mut elements = BTreeMap::new();
    if has_our_shape {
        for name in names {
            elements.insert(name, set_elements(netlink, name)?);
        }
    }
    Ok(Some(Table { has_our_shape, elements }))
}

/// The attributes of an object.
fn attributes(body: &[u8]) -> Read<'_> {
    Read::after(body, NFGENMSG)
}

fn is_our_set(set: Read<'_>, name: &str) -> bool {
    let flags = set.get(SET_FLAGS).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    set.text(SET_NAME) == Some(name) && flags.unwrap_or_default() == set_flags(name)
}

fn set_elements(netlink: &mut Netlink, name: &'static str) -> Result<BTreeSet<Element>, NetlinkError> {
    let message = object(GETSETELEM, 0, |body| _ = body.text(OF_TABLE, TABLE).text(ELEMENTS_SET, name));
    let mut elements = BTreeSet::new();
    for body in netlink.dump(&message)? {
        let list = attributes(&body).nested(ELEMENTS_LIST);
        for (_, element) in list.into_iter().flat_map(Read::iter) {
            let value = |kind| Read(element).nested(kind)?.get(DATA_VALUE);
            let key = value(ELEMENT_KEY).and_then(|bytes| bytes.try_into().ok());
            let data = value(ELEMENT_DATA).and_then(|bytes| u32_at(bytes, 0));
            elements.extend(key.map(|key| (key, data)));
        }
    }
    Ok(elements)
}

/// Makes the table say `wanted`; of a table that has our shape only the elements that differ are touched.
pub(super) fn write(
    netlink: &mut Netlink,
    now: Option<&Table>,
    wanted: &Packets,
) -> Result<(), NetlinkError> {
    let mut messages = Vec::new();
    let known = now.filter(|table| table.has_our_shape);
    if known.is_none() {
        messages.extend(new_table());
    }
    let nothing = BTreeSet::new();
    for (name, elements) in wanted.elements() {
        let there = known.and_then(|table| table.elements.get(name)).unwrap_or(&nothing);
        let gone: Vec<Element> = there.difference(&elements).copied().collect();
        let new: Vec<Element> = elements.difference(there).copied().collect();
        messages.extend(gone.chunks(CHUNK).map(|part| element_message(DELSETELEM, name, part)));
        messages.extend(new.chunks(CHUNK).map(|part| element_message(NEWSETELEM, name, part)));
    }
    netlink.batch(frame(), &messages)
}

/// Removes the table with all that is in it.
pub(super) fn remove(netlink: &mut Netlink) -> Result<(), NetlinkError> {
    match netlink.batch(frame(), &[table_message(DELTABLE, 0)]) {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        answer => answer,
    }
}

fn table_message(command: u16, flags: u16) -> Message {
    object(command, flags, |body| _ = body.text(TABLE_NAME, TABLE))
}

/// The table anew, whatever was in one of its name: made if missing, so that it can be removed, and made again.
fn new_table() -> Vec<Message> {
    let mut messages = vec![
        table_message(NEWTABLE, flags::CREATE),
        table_message(DELTABLE, 0),
        table_message(NEWTABLE, flags::CREATE),
    ];
    let names = SETS.iter().map(|(name, _)| *name).chain([OWN_CLASSES]);
    messages.extend(names.zip(1..).map(|(name, id)| set_message(name, id)));
    messages.push(chain_message());
    messages.extend(rule_messages());
    messages
}

/// `NFT_SET_MAP` for the map.
fn set_flags(name: &str) -> u32 {
    if name == OWN_CLASSES { 0x8 } else { 0 }
}

/// A set of addresses, or the map from addresses to classes.
fn set_message(name: &str, id: u32) -> Message {
    /// The numbers by which `nft` knows what kind of keys and values to show.
    const IPV4_ADDRESS: u32 = 7;
    const CLASS: u32 = 23;
    object(NEWSET, flags::CREATE, |body| {
        body.text(OF_TABLE, TABLE).text(SET_NAME, name);
        body.network_number(SET_FLAGS, set_flags(name));
        body.network_number(4, IPV4_ADDRESS).network_number(5, 4);
        if name == OWN_CLASSES {
            body.network_number(6, CLASS).network_number(7, 4);
        }
        body.put(13, &byte_orders());
        body.network_number(10, id);
    })
}

/// What `nft` keeps beside a set so that it shows keys in the order of the network and values in the machine's.
fn byte_orders() -> Vec<u8> {
    const OF_KEYS: u8 = 0;
    const OF_VALUES: u8 = 1;
    const MACHINE: u32 = 1;
    const NETWORK: u32 = 2;
    let field = |what, order: u32| [what, 4].into_iter().chain(order.to_ne_bytes());
    field(OF_KEYS, NETWORK).chain(field(OF_VALUES, MACHINE)).collect()
}

/// `type filter hook postrouting priority mangle; policy accept`
fn chain_message() -> Message {
    /// `NF_INET_POST_ROUTING`, `NF_IP_PRI_MANGLE`, `NF_ACCEPT`
    const HOOK: u32 = 4;
    const PRIORITY: i32 = -150;
    const ACCEPT: u32 = 1;
    object(NEWCHAIN, flags::CREATE, |body| {
        body.text(OF_TABLE, TABLE).text(CHAIN_NAME, CHAIN);
        body.nested(4, |hook| {
            hook.network_number(1, HOOK).network_number(2, PRIORITY.cast_unsigned());
        });
        body.network_number(5, ACCEPT).text(7, "filter");
    })
}

/// The rules in their order: `ip saddr @<set> meta priority set <class>` for each shared class, and
/// `meta priority set ip saddr map @pod_class`, which has the last word.
fn rule_messages() -> Vec<Message> {
    let shared = SETS.map(|(name, class)| {
        rule_message(|list| {
            load_source_address(list);
            expression(list, "lookup", |body| _ = body.text(1, name).network_number(2, REGISTER));
            expression(list, "immediate", |body| {
                body.network_number(1, REGISTER);
                body.nested(2, |data| _ = data.number(DATA_VALUE, class.raw()));
            });
            set_priority(list);
        })
    });
    let own = rule_message(|list| {
        load_source_address(list);
        expression(list, "lookup", |body| {
            body.text(1, OWN_CLASSES).network_number(2, REGISTER).network_number(3, REGISTER);
        });
        set_priority(list);
    });
    shared.into_iter().chain([own]).collect()
}

/// The register that expressions hand values on in.
const REGISTER: u32 = 1;

fn rule_message(fill: impl FnOnce(&mut Attributes)) -> Message {
    object(NEWRULE, flags::CREATE | flags::APPEND, |body| {
        body.text(OF_TABLE, TABLE).text(RULE_CHAIN, CHAIN).nested(RULE_EXPRESSIONS, fill);
    })
}

fn expression(list: &mut Attributes, name: &str, fill: impl FnOnce(&mut Attributes)) {
    list.nested(LIST_ELEMENT, |expression| _ = expression.text(1, name).nested(2, fill));
}

fn load_source_address(list: &mut Attributes) {
    /// `NFT_PAYLOAD_NETWORK_HEADER`, and where IPv4 has the source address.
    const NETWORK_HEADER: u32 = 1;
    const SOURCE: u32 = 12;
    expression(list, "payload", |body| {
        body.network_number(1, REGISTER).network_number(2, NETWORK_HEADER);
        body.network_number(3, SOURCE).network_number(4, 4);
    });
}

fn set_priority(list: &mut Attributes) {
    /// `NFT_META_PRIORITY`
    const PRIORITY: u32 = 2;
    expression(list, "meta", |body| _ = body.network_number(2, PRIORITY).network_number(3, REGISTER));
}

fn element_message(command: u16, set: &str, elements: &[Element]) -> Message {
    let flags = if command == NEWSETELEM { flags::CREATE } else { 0 };
    object(command, flags, |body| {
        body.text(OF_TABLE, TABLE).text(ELEMENTS_SET, set).nested(ELEMENTS_LIST, |list| {
            for (key, data) in elements {
                list.nested(LIST_ELEMENT, |element| {
                    element.nested(ELEMENT_KEY, |value| _ = value.put(DATA_VALUE, key));
                    if let Some(data) = data {
                        element.nested(ELEMENT_DATA, |value| _ = value.number(DATA_VALUE, *data));
                    }
                });
            }
        });
    })
}
