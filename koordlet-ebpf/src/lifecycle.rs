//! Births and deaths of cgroups: tracepoint -> record in the ring.

use core::ffi::c_void;

use aya_ebpf::Global;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::programs::BtfTracePointContext;
use koordlet_common::loss::Loss;
use koordlet_common::record::{BORN, CgroupRecord, DIED, PATH_CAPACITY};

use crate::count::lost;
use crate::maps::EVENTS;
use crate::walk;

#[unsafe(no_mangle)]
static WANTED_HIERARCHIES: Global<u64> = Global::new(u64::MAX);

/// `cgroup_mkdir` fired.
#[inline(always)]
pub fn born(ctx: &BtfTracePointContext) {
    send(ctx, BORN);
}

/// `cgroup_rmdir` fired.
#[inline(always)]
pub fn died(ctx: &BtfTracePointContext) {
    send(ctx, DIED);
}

#[inline(always)]
fn send(ctx: &BtfTracePointContext, kind: u32) {
    let cgroup: *const c_void = ctx.arg(0);
    let hierarchy = walk::hierarchy_id(cgroup);
    if hierarchy < 64 && WANTED_HIERARCHIES.load() & (1 << hierarchy) == 0 {
        return;
    }
    let Some(mut entry) = EVENTS.reserve(0) else {
        lost(Loss::RingFull);
        return;
    };
    let record: *mut CgroupRecord = entry.as_mut_ptr();
    // SAFETY: the ring lends room for one whole record, 8-byte aligned; each field is written before it is
    // submitted, and of `path` only what `path_len` counts is ever read.
    let path_bytes = unsafe {
        (&raw mut (*record).id).write(walk::cgroup_id(cgroup));
        (&raw mut (*record).at).write(bpf_ktime_get_ns());
        (&raw mut (*record).hierarchy).write(hierarchy);
        (&raw mut (*record).level).write(walk::level(cgroup));
        (&raw mut (*record).kind).write(kind);
        let path = (&raw mut (*record).path).cast::<c_void>();
        bpf_probe_read_kernel_str(path, PATH_CAPACITY as u32, ctx.arg::<*const c_void>(1))
    };
    if path_bytes <= 0 {
        lost(Loss::PathUnreadable);
        entry.discard(0);
        return;
    }
    // SAFETY: as above. The helper counts the closing NUL.
    unsafe { (&raw mut (*record).path_len).write(path_bytes as u32 - 1) };
    entry.submit(0);
}
