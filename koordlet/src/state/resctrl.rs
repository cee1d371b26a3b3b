//! What resctrl offers on this host, as far as decisions depend on it: what the CPU can do, and, once it is mounted, its
//! caches, masks and steps.

use std::collections::BTreeSet;

use crate::resctrl::bandwidth::CpuVendor;
use crate::resctrl::schemata::{Schemata, SchemataResource};

/// Facts about resctrl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResctrlFacts {
    /// Who made the CPU.
    pub vendor: CpuVendor,
    /// Whether the CPU can divide its last-level cache (flag `cat_l3`).
    pub cat_l3: bool,
    /// Whether it can limit memory bandwidth (flag `mba`).
    pub mba: bool,
    /// What the file system says; `None` while it is not mounted.
    pub tree: Option<ResctrlTree>,
}

/// What the mounted file system says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResctrlTree {
    /// The last-level cache, if it can be divided.
    pub l3: Option<L3Cache>,
    /// Whether code and data have lines of their own (mounted with `cdp`).
    pub code_and_data: bool,
    /// Whether memory bandwidth can be limited.
    pub bandwidth: bool,
    /// Ids of the last-level caches, from the root group. They have holes (C089).
    pub caches: BTreeSet<u32>,
    /// The root group's lines: what tasks have without a group of their own.
    pub root: Schemata,
}

/// A last-level cache; all of a host are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct L3Cache {
    /// The mask of the whole cache as its file has it, to be checked by whoever calculates with it.
    pub cbm_mask: String,
    /// Bits that a mask must have at least.
    pub min_cbm_bits: u32,
    /// Ways that devices use too, hexadecimal; for people.
    pub shareable_bits: String,
}

impl ResctrlFacts {
    /// Whether the CPU has what the reference asks for, qos.md 5.6: both kinds of limits.
    pub fn is_offered(&self) -> bool {
        self.cat_l3 && self.mba
    }
}

impl ResctrlTree {
    /// The lines in which masks of the last-level cache are written.
    pub fn mask_lines(&self) -> &'static [SchemataResource] {
        match (&self.l3, self.code_and_data) {
            (None, _) => &[],
            (Some(_), false) => &[SchemataResource::L3],
            (Some(_), true) => &[SchemataResource::L3Code, SchemataResource::L3Data],
        }
    }
}
