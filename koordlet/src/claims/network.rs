//! Objects of the node's network that can be claimed: classes of traffic on the device of the default route, and the
//! addresses whose traffic belongs to them (hooks.md 11.5).

use core::net::Ipv4Addr;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::combine::Rank;
use super::target::Target;
use crate::units::BitRate;

/// A class of traffic control, `major:minor` in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    /// The major number of the tree that is ours.
    pub const MAJOR: u16 = 1;
    /// The tree itself.
    pub const TREE: Self = Self::ours(0);
    /// The class above all others.
    pub const ROOT: Self = Self::ours(1);
    /// Of class SYSTEM, and of all traffic that nothing else says anything of.
    pub const SYSTEM: Self = Self::ours(2);
    /// Of classes LSE, LSR and LS.
    pub const LS: Self = Self::ours(3);
    /// Of class BE.
    pub const BE: Self = Self::ours(4);

    /// A class of our tree.
    pub const fn ours(minor: u16) -> Self {
        Self(((Self::MAJOR as u32) << 16) | minor as u32)
    }

    /// A class as the kernel counts it.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// As the kernel counts it, also in `net_cls.classid`.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Whether it is one of the classes that pods of a QoS class share.
    pub fn is_shared(self) -> bool {
        [Self::SYSTEM, Self::LS, Self::BE].contains(&self)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// A text that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not MAJOR:MINOR in hexadecimal")]
pub struct ClassIdError(String);

impl FromStr for ClassId {
    type Err = ClassIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ClassIdError(text.chars().take(40).collect());
        let part = |text| u16::from_str_radix(text, 16).map(u32::from).map_err(|_| error());
        let (major, minor) = text.split_once(':').ok_or_else(error)?;
        Ok(Self(part(major)? << 16 | part(minor)?))
    }
}

/// An object of the node's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkTarget {
    /// A class of our tree. The tree is there for as long as its root class is claimed.
    Class(ClassId),
    /// The filters that find a packet's class by its task's cgroup (`net_cls.classid`).
    CgroupFilters,
    /// The source addresses whose packets belong to a class.
    Addresses(ClassId),
}

impl fmt::Display for NetworkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(class) => write!(f, "network class {class}"),
            Self::CgroupFilters => f.write_str("network filters by cgroup"),
            Self::Addresses(class) => write!(f, "network addresses of class {class}"),
        }
    }
}

/// What a class gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassShare {
    /// Promised; above 0.
    pub rate: BitRate,
    /// The most that it may borrow up to.
    pub ceil: BitRate,
    /// Who borrows first: 0 to 7, the least first.
    pub priority: u32,
}

/// What an object of the network is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkValue {
    /// A class with its share.
    Share(ClassShare),
    /// Filters that are there.
    Present,
    /// These addresses and no others.
    Addresses(BTreeSet<Ipv4Addr>),
}

impl fmt::Display for NetworkValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(ClassShare { rate, ceil, priority }) => {
                write!(f, "rate {rate}bit ceil {ceil}bit prio {priority}")
            }
            Self::Present => f.write_str("present"),
            Self::Addresses(addresses) => {
                for (place, address) in addresses.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{address}")?;
                }
                Ok(())
            }
        }
    }
}

impl Target for NetworkTarget {
    type Value = NetworkValue;

    fn precedence(&self) -> &'static [Rank] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_hexadecimal_as_traffic_control_writes_them() {
        // hooks.md 11.5
        assert_eq!([ClassId::SYSTEM, ClassId::LS, ClassId::BE].map(ClassId::raw), [65_538, 65_539, 65_540]);
        for (text, raw) in [("1:2", 65_538), ("1:100", 65_792), ("ffff:fffe", 0xffff_fffe)] {
            let class: ClassId = text.parse().unwrap();
            assert_eq!((class.raw(), class.to_string().as_str()), (raw, text));
        }
        for text in ["", "1", "1:", ":1", "1:10000", "1:2:3", "x:1"] {
            assert!(text.parse::<ClassId>().is_err(), "{text}");
        }
    }
}
