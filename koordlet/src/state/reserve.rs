//! Which CPUs are set aside when only their number is known (collection.md 10.3).
//!
//! Whole sockets first, then whole NUMA nodes, then whole cores, then single CPUs. Not the picker of
//! suppression, which spreads over sockets instead of filling them.

use std::collections::{BTreeMap, BTreeSet};

use super::topology::CpuInfo;
use crate::api::keys;
use crate::api::topology::NodeReservation;
use crate::cpuset::{CpuSet, CpuSetError};

/// A number of CPUs that the node does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} CPUs are to be reserved, the node has {online}")]
pub struct ReserveError {
    /// How many were asked for.
    pub wanted: usize,
    /// How many there are.
    pub online: usize,
}

/// A node reservation that names no CPUs of this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// Its list is none.
    #[error("reservedCPUs: {0}")]
    List(CpuSetError),
    /// Its amount is more than there is.
    #[error(transparent)]
    Amount(ReserveError),
}

/// The CPUs that a reservation names, collection.md 10.3: its list, else its amount rounded up to whole CPUs,
/// chosen by topology; none without either.
pub fn reservation_cpus(reservation: &NodeReservation, cpus: &[CpuInfo]) -> Result<CpuSet, ReservationError> {
    if !reservation.reserved_cpus.is_empty() {
        return reservation.reserved_cpus.parse().map_err(ReservationError::List);
    }
    let cores = reservation.resources.get(keys::CPU).map_or(0, |amount| amount.value());
    reserve_cpus(usize::try_from(cores).unwrap_or(0), cpus).map_err(ReservationError::Amount)
}

/// Chooses `count` of `cpus`, collection.md 10.3. At each level the candidates with the fewest free CPUs come
/// first, then those with the lowest id; a unit is taken only if all of it is free and all of it is still
/// needed.
pub fn reserve_cpus(count: usize, cpus: &[CpuInfo]) -> Result<CpuSet, ReserveError> {
    let mut free: BTreeMap<u32, CpuInfo> = cpus.iter().map(|info| (info.cpu, *info)).collect();
    if count > free.len() {
        return Err(ReserveError { wanted: count, online: free.len() });
    }
    let total = free.clone();
    let mut taken = CpuSet::new();
    for level in [Level::Socket, Level::Node, Level::Core, Level::Cpu] {
        for unit in whole_units(level, &free, &total) {
            if unit.len() > count - taken.len() {
                continue;
            }
            for cpu in unit {
                free.remove(&cpu);
                taken.insert(cpu);
            }
        }
    }
    Ok(taken)
}

/// What is taken as one.
#[derive(Clone, Copy)]
enum Level {
    Socket,
    Node,
    Core,
    Cpu,
}

impl Level {
    fn id(self, info: &CpuInfo) -> u32 {
        match self {
            Self::Socket => info.socket,
            Self::Node => info.node,
            Self::Core => info.core,
            Self::Cpu => info.cpu,
        }
    }
}

/// The units of `level` that are free as a whole, in the order in which they are offered. A single CPU is
/// offered in the order of its core.
fn whole_units(
    level: Level,
    free: &BTreeMap<u32, CpuInfo>,
    total: &BTreeMap<u32, CpuInfo>,
) -> Vec<BTreeSet<u32>> {
    let around = if matches!(level, Level::Cpu) { Level::Core } else { level };
    let (free_around, all) = (sizes(around, free), sizes(level, total));
    let mut units: BTreeMap<(usize, u32, u32), BTreeSet<u32>> = BTreeMap::new();
    for info in free.values() {
        let around = around.id(info);
        let rank = (free_around.get(&around).copied().unwrap_or_default(), around, level.id(info));
        units.entry(rank).or_default().insert(info.cpu);
    }
    let is_whole = |((_, _, id), unit): &((usize, u32, u32), BTreeSet<u32>)| all.get(id) == Some(&unit.len());
    units.into_iter().filter(is_whole).map(|(_, unit)| unit).collect()
}

/// Number of CPUs in each unit of `level`.
fn sizes(level: Level, cpus: &BTreeMap<u32, CpuInfo>) -> BTreeMap<u32, usize> {
    let mut sizes = BTreeMap::new();
    for info in cpus.values() {
        *sizes.entry(level.id(info)).or_default() += 1;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::state::topology::machine;

    #[test]
    fn reserved_cpus_fill_sockets_then_nodes_then_cores() {
        for (count, want) in
            [(0, ""), (1, "0"), (2, "0,8"), (3, "0-1,8"), (8, "0-3,8-11"), (9, "0-4,8-11"), (16, "0-15")]
        {
            assert_eq!(reserve_cpus(count, &machine()).unwrap().to_string(), want, "{count}");
        }
        let error = reserve_cpus(17, &machine()).unwrap_err();
        assert_eq!(error, ReserveError { wanted: 17, online: 16 });
    }

    proptest! {
        #[test]
        fn as_many_as_wanted_are_chosen_and_all_exist(
            cpus in prop::collection::btree_map(0u32..64, (0u32..16, 0u32..3, 0u32..4), 0..40),
            count in 0usize..48,
        ) {
            let cpus: Vec<CpuInfo> = cpus
                .into_iter()
                .map(|(cpu, (core, socket, node))| CpuInfo { cpu, core, socket, node })
                .collect();
            match reserve_cpus(count, &cpus) {
                Ok(set) => {
                    prop_assert_eq!(set.len(), count);
                    prop_assert!(set.iter().all(|cpu| cpus.iter().any(|info| info.cpu == cpu)));
                }
                Err(_) => prop_assert!(count > cpus.len()),
            }
        }
    }
}
