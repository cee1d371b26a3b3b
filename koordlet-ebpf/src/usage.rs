//! CPU time of each cgroup: the nanoseconds that the scheduler charges, added to the cgroup's slot.
//!
//! The same figure goes to `cpuacct.usage` (v1) and `cpu.stat` (v2). Only the group of the task is charged
//! here; user space adds the groups beneath a directory.

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::warn;
use koordlet_common::layout::{hint_index, time_index};
use koordlet_common::loss::Loss;

use crate::count::lost;
use crate::maps::{CPU_TIME, FREE, HINTS, OWNERS, SLOTS};
use crate::walk;

#[unsafe(no_mangle)]
static ROOT_ID: Global<u64> = Global::new(1);

#[unsafe(no_mangle)]
static SLOT_COUNT: Global<u32> = Global::new(0);

/// `sched_stat_runtime` fired: charges the task's cgroup. Tasks in the root group (kernel threads among
/// them) are not counted.
#[inline(always)]
pub fn charge(ctx: &BtfTracePointContext) {
    let id = walk::usage_cgroup_id(ctx.arg(0));
    if id == ROOT_ID.load() || id == 0 {
        return;
    }
    let Some(slot) = hinted_slot(id).or_else(|| find_slot(ctx, id)) else { return };
    // SAFETY: the helper has no precondition.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u32;
    let Some(time) = CPU_TIME.get_ptr_mut(time_index(cpu, SLOT_COUNT.load(), slot)) else { return };
    // SAFETY: the map hands out valid, aligned pointers. The tracepoint fires with interrupts off, so this
    // CPU's program is the only writer of this element; user space sees whole words.
    unsafe { time.write_volatile(time.read_volatile().wrapping_add(ctx.arg::<u64>(1))) };
}

/// The slot that the hint names, if this cgroup owns it: two array look-ups, which the kernel inlines, in place
/// of one in the hash.
#[inline(always)]
fn hinted_slot(id: u64) -> Option<u32> {
    let slot = *HINTS.get(hint_index(id))?;
    // SAFETY: the map hands out valid, aligned pointers; owners change, and so are read as volatile.
    let owner = unsafe { OWNERS.get_ptr(slot)?.read_volatile() };
    (owner == id).then_some(slot)
}

/// The slot by the hash, taken now if need be; the next charge finds it by its hint.
#[inline(never)]
fn find_slot(ctx: &BtfTracePointContext, id: u64) -> Option<u32> {
    // SAFETY: a slot is removed from the hash a grace period before it is used again, so that the value
    // behind the reference does not change while this program runs.
    let known = unsafe { SLOTS.get(id) }.copied();
    let slot = match known {
        Some(slot) => slot,
        None => take_slot(ctx, id)?,
    };
    if let Some(hint) = HINTS.get_ptr_mut(hint_index(id)) {
        // SAFETY: the map hands out valid, aligned pointers. CPUs may overwrite one another: it is a hint.
        unsafe { hint.write_volatile(slot) };
    }
    Some(slot)
}

/// A cgroup's first charge: takes a free slot for it.
#[inline(never)]
fn take_slot(ctx: &BtfTracePointContext, id: u64) -> Option<u32> {
    let slot = match FREE.pop() {
        Ok(Some(slot)) => slot,
        Ok(None) => {
            if lost(Loss::SlotsFull) {
                warn!(ctx, "no free slot for cgroup {}: its CPU time is read from files", id);
            }
            return None;
        }
        Err(_) => {
            lost(Loss::SlotBusy);
            return None;
        }
    };
    if SLOTS.insert(id, slot, u64::from(BPF_NOEXIST)).is_ok() {
        if let Some(owner) = OWNERS.get_ptr_mut(slot) {
            // SAFETY: the map hands out valid, aligned pointers; the slot is this program's alone until now.
            unsafe { owner.write_volatile(id) };
        }
        return Some(slot);
    }
    // Another CPU was first, or the hash is locked: give the slot back and use what is there.
    if FREE.push(slot, 0).is_err() {
        lost(Loss::SlotBusy);
    }
    // SAFETY: as in `find_slot`.
    let slot = unsafe { SLOTS.get(id) }.copied();
    if slot.is_none() {
        lost(Loss::SlotBusy);
    }
    slot
}
