//! Counting what was lost, by reason.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use koordlet_common::layout::loss_index;
use koordlet_common::loss::Loss;

use crate::maps::LOSSES;

/// Adds one to the counter of `reason`. True if it was this CPU's first, so that the caller may say so once.
#[inline(always)]
pub fn lost(reason: Loss) -> bool {
    // SAFETY: the helper has no precondition.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u32;
    let Some(counter) = LOSSES.get_ptr_mut(loss_index(cpu, reason)) else { return false };
    // SAFETY: the map hands out valid, aligned pointers; this CPU alone writes this counter.
    unsafe {
        let before = counter.read_volatile();
        counter.write_volatile(before.wrapping_add(1));
        before == 0
    }
}
