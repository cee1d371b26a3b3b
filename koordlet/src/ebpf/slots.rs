//! The slots of the CPU time map: who owns each, how much it holds, and how one is given back.
//!
//! The program takes a slot at a cgroup's first charge; this side alone frees. Reading all of them is a pass
//! over mapped memory.

use std::sync::atomic::Ordering;

use aya::maps::{HashMap as BpfHashMap, MapData, MapError, Stack};
use koordlet_common::layout::FORGOTTEN;

use crate::sys::MappedWords;

/// One slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number.
    pub number: u32,
    /// Cgroup id of its owner.
    pub id: u64,
    /// Nanoseconds of CPU time charged to the owner itself since it took the slot.
    pub nanos: u64,
}

/// The maps behind the slots.
pub struct SlotTable {
    owners: MappedWords,
    time: MappedWords,
    ids: BpfHashMap<MapData, u64, u32>,
    free: Stack<MapData, u32>,
    slots: usize,
    sums: Vec<u64>,
}

impl SlotTable {
    /// Takes the maps and declares every slot free. Called before the program is attached.
    pub(super) fn new(
        owners: MappedWords,
        time: MappedWords,
        ids: BpfHashMap<MapData, u64, u32>,
        free: Stack<MapData, u32>,
        slots: u32,
    ) -> Result<Self, MapError> {
        let mut table = Self { owners, time, ids, free, slots: slots as usize, sums: Vec::new() };
        // Last in, first out: low numbers are taken first, which keeps the used part short.
        for slot in (0..slots).rev() {
            table.free.push(slot, 0)?;
        }
        Ok(table)
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.slots
    }

    /// Reads all slots in use into `into`, in order of their numbers.
    pub fn read(&mut self, into: &mut Vec<Slot>) {
        into.clear();
        let owners = self.owners.words();
        let mut used = 0;
        for (number, owner) in (0..).zip(owners) {
            let id = owner.load(Ordering::Acquire) & !FORGOTTEN;
            if id != 0 {
                into.push(Slot { number, id, nanos: 0 });
                used = number as usize + 1;
            }
        }
        self.sums.clear();
        self.sums.resize(used, 0);
        for row in self.time.words().chunks_exact(self.slots) {
            for (sum, time) in self.sums.iter_mut().zip(row) {
                *sum = sum.wrapping_add(time.load(Ordering::Relaxed));
            }
        }
        for slot in into {
            slot.nanos = self.sums.get(slot.number as usize).copied().unwrap_or(0);
        }
    }

    /// Takes a dead cgroup's id out of the hash and off the hints: no charge finds the slot any more. The slot
    /// keeps its figure until [`release`](Self::release), which has to come a while later, when no program still runs with it.
    /// False if it could not be done now.
    pub fn forget(&mut self, id: u64) -> bool {
        match self.ids.remove(&id) {
            Ok(()) => {}
            // Most cgroups come and go without ever having run.
            Err(error) if is_absent(&error) => {}
            Err(error) => {
                tracing::warn!(%error, id, "a dead cgroup stays in the usage map for now");
                return false;
            }
        }
        for owner in self.owners.words().iter().filter(|owner| owner.load(Ordering::Relaxed) == id) {
            owner.store(id | FORGOTTEN, Ordering::Relaxed);
        }
        true
    }

    /// Whether a cgroup is in the hash: a late charge may have entered a forgotten one again.
    pub fn knows(&self, id: u64) -> bool {
        self.ids.get(&id, 0).is_ok()
    }

    /// Clears a forgotten slot and makes it free. Its figure must have been taken over before.
    pub fn release(&mut self, number: u32) {
        for row in self.time.words().chunks_exact(self.slots) {
            if let Some(time) = row.get(number as usize) {
                time.store(0, Ordering::Relaxed);
            }
        }
        if let Some(owner) = self.owners.words().get(number as usize) {
            owner.store(0, Ordering::Release);
        }
        if let Err(error) = self.free.push(number, 0) {
            tracing::warn!(%error, slot = number, "a slot of the usage map is lost");
        }
    }
}

/// Whether a map has no such key: a look-up says so by itself, a removal hands on the kernel's ENOENT.
fn is_absent(error: &MapError) -> bool {
    match error {
        MapError::KeyNotFound => true,
        MapError::SyscallError(call) => call.io_error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use aya::sys::SyscallError;

    use super::*;

    #[test]
    fn a_key_that_is_not_there_is_told_from_a_failure() {
        let said = |errno| {
            let call = "bpf_map_delete_elem";
            MapError::SyscallError(SyscallError { call, io_error: Error::from_raw_os_error(errno) })
        };
        assert!(is_absent(&said(libc::ENOENT)) && is_absent(&MapError::KeyNotFound));
        assert!(!is_absent(&said(libc::EBUSY)) && !is_absent(&said(libc::EPERM)));
    }
}
