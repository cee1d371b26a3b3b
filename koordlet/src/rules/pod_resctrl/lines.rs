//! A pod's annotation -> the lines of its group, hooks.md 11.1. What the annotation leaves open for a cache is as in
//! the root group (qos.md 12, Q37).

use crate::api::keys;
use crate::api::pod_resctrl::{BandwidthWish, CacheWish, PodResctrl};
use crate::resctrl::bandwidth::{CpuVendor, pod_bandwidth};
use crate::resctrl::group::GroupNameError;
use crate::resctrl::l3_mask::{MaskError, l3_mask, parse_cbm, range_mask};
use crate::resctrl::schemata::{CacheValues, SchemataLine, SchemataResource};
use crate::state::resctrl::{L3Cache, ResctrlFacts, ResctrlTree};

/// A part of the annotation that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResctrlFault {
    /// A range of the cache.
    #[error("annotation {key}: a part of llc cannot be used, nor any after it", key = keys::RESCTRL)]
    Range(#[source] MaskError),
    /// A cache that the node does not have.
    #[error("annotation {key}: llc is not used, since there is no cache {0}", key = keys::RESCTRL)]
    NoSuchCache(i64),
    /// A range that is empty on this node, or bandwidth that comes to nothing.
    #[error("annotation {key}: {what} comes to nothing for cache {cache} and is not used", key = keys::RESCTRL)]
    Nothing {
        /// `llc` or `mb`.
        what: &'static str,
        /// The cache.
        cache: u32,
    },
    /// The pod's UID.
    #[error(transparent)]
    Group(#[from] GroupNameError),
}

/// What an annotation comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLines {
    /// The lines of the pod's group; none if it needs no group.
    pub lines: Vec<SchemataLine>,
    /// Parts that could not be used.
    pub faults: Vec<ResctrlFault>,
}

/// The lines of a pod's group on a host with these facts; none while resctrl is not mounted.
pub fn pod_lines(wish: &PodResctrl, facts: &ResctrlFacts) -> PodLines {
    let mut found = PodLines::default();
    let Some(tree) = &facts.tree else { return found };
    if let Some(cache) = &tree.l3 {
        let values = masks(&wish.llc, cache, tree, &mut found.faults);
        for resource in tree.mask_lines() {
            found.push(*resource, values.clone(), tree);
        }
    }
    if tree.bandwidth {
        let values = bandwidths(&wish.mb, facts.vendor, tree);
        found.push(SchemataResource::Mb, values, tree);
    }
    found
}

impl PodLines {
    /// Adds a line if each cache has a value.
    fn push(&mut self, resource: SchemataResource, mut values: CacheValues, tree: &ResctrlTree) {
        if values.is_empty() {
            return;
        }
        for (cache, value) in tree.root.values(resource).into_iter().flatten() {
            values.entry(*cache).or_insert(*value);
        }
        match values.iter().find(|(_, value)| **value == 0) {
            None => self.lines.push(SchemataLine { resource, values }),
            Some((cache, _)) => {
                let what = if resource.is_mask() { "llc" } else { "mb" };
                let fault = ResctrlFault::Nothing { what, cache: *cache };
                if !self.faults.contains(&fault) {
                    self.faults.push(fault);
                }
            }
        }
    }
}

/// The mask of each cache that the annotation speaks of; zero where its range is within one way. A range that is none
/// ends the search, a cache that is not there makes all of it void.
fn masks(
    wish: &CacheWish,
    cache: &L3Cache,
    tree: &ResctrlTree,
    faults: &mut Vec<ResctrlFault>,
) -> CacheValues {
    let mut values = CacheValues::new();
    let common = wish.schemata.iter().map(|schemata| (None, &schemata.range));
    let single = wish.schemata_per_cache.iter().map(|single| (Some(single.cache_id), &single.range));
    for (id, range) in common.chain(single) {
        let [start, end] = range[..] else { continue };
        let mask = match mask(cache, start, end) {
            Ok(mask) => u64::from(mask),
            Err(error) => {
                faults.push(ResctrlFault::Range(error));
                break;
            }
        };
        match id {
            None => values.extend(tree.caches.iter().map(|cache| (*cache, mask))),
            Some(id) => {
                let Some(cache) = known(id, tree) else {
                    faults.push(ResctrlFault::NoSuchCache(id));
                    return CacheValues::new();
                };
                values.insert(cache, mask);
            }
        }
    }
    values
}

/// As many bits as the kernel wants, but none where the range is within one way.
fn mask(cache: &L3Cache, start: i64, end: i64) -> Result<u32, MaskError> {
    let cbm = parse_cbm(&cache.cbm_mask)?;
    match range_mask(cbm, start, end)? {
        0 => Ok(0),
        _ => l3_mask(cbm, start, end, cache.min_cbm_bits),
    }
}

/// The bandwidth of each cache that the annotation speaks of. What it says of caches that are not there is nothing.
fn bandwidths(wish: &BandwidthWish, vendor: CpuVendor, tree: &ResctrlTree) -> CacheValues {
    let mut values = CacheValues::new();
    let figure = |percent| pod_bandwidth(vendor, percent).unwrap_or(0);
    if let Some(common) = &wish.schemata {
        values.extend(tree.caches.iter().map(|cache| (*cache, figure(common.percent))));
    }
    for single in &wish.schemata_per_cache {
        if let Some(cache) = known(single.cache_id, tree) {
            values.insert(cache, figure(single.percent));
        }
    }
    values
}

/// One of the node's own caches, H30.
fn known(id: i64, tree: &ResctrlTree) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| tree.caches.contains(id))
}
