//! Where things lie in the mapped arrays.
//!
//! Both arrays have one row a CPU: a program writes its own CPU's row alone, so that a plain add is enough
//! and no cache line moves between CPUs.

use crate::loss::Loss;

/// Slots when nobody asks for another number: cgroups with CPU time of their own at one time.
pub const DEFAULT_SLOTS: u32 = 4096;

/// Bytes of the event ring when nobody asks for another number.
pub const DEFAULT_RING_BYTES: u32 = 512 * 1024;

/// Entries of the table of hints; a power of two. Cgroup ids count up, so that their low bits rarely collide.
pub const HINT_COUNT: u32 = 8192;

/// Set in a slot's owner when the owner has left the hash: no hint leads a charge there any more.
pub const FORGOTTEN: u64 = 1 << 63;

/// Index of a cgroup's hint.
#[expect(clippy::cast_possible_truncation, reason = "masked to fewer bits")]
#[inline]
pub const fn hint_index(id: u64) -> u32 {
    (id & (HINT_COUNT as u64 - 1)) as u32
}

/// Index of `slot`'s nanoseconds in the row of `cpu`; `slots` is the number of slots.
#[inline]
pub const fn time_index(cpu: u32, slots: u32, slot: u32) -> u32 {
    cpu.wrapping_mul(slots).wrapping_add(slot)
}

/// Index of the counter of `reason` in the row of `cpu`.
#[inline]
pub const fn loss_index(cpu: u32, reason: Loss) -> u32 {
    cpu.wrapping_mul(Loss::COUNT).wrapping_add(reason as u32)
}
