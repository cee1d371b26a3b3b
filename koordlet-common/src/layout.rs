//! Where things lie in the mapped arrays.
//!
//! Both arrays have one row a CPU: a program writes its own CPU's row alone, so that a plain add is enough
//! and no cache line moves between CPUs.

use crate::loss::Loss;

/// Slots when nobody asks for another number: cgroups with CPU time of their own at one time.
pub const DEFAULT_SLOTS: u32 = 4096;

/// Bytes of the event ring when nobody asks for another number.
pub const DEFAULT_RING_BYTES: u32 = 512 * 1024;

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
