//! The eBPF programs: one a tracepoint, three lines each. What they do is in the files beside this one;
//! the border to user space is the crate `koordlet-common`.
//!
//! `lifecycle` sends births and deaths of cgroups, `usage` counts the run time that the scheduler charges,
//! `walk` follows kernel pointers, `count` counts what was lost, `maps` holds all maps.

#![no_std]
#![no_main]

mod count;
mod lifecycle;
mod maps;
mod usage;
mod walk;

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

/// `cgroup_mkdir(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_mkdir")]
pub fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    lifecycle::born(&ctx);
    0
}

/// `cgroup_rmdir(struct cgroup *cgrp, const char *path)`
#[btf_tracepoint(function = "cgroup_rmdir")]
pub fn cgroup_rmdir(ctx: BtfTracePointContext) -> i32 {
    lifecycle::died(&ctx);
    0
}

/// `sched_stat_runtime(struct task_struct *tsk, u64 runtime)`; older kernels have a third argument, which is
/// not looked at.
#[btf_tracepoint(function = "sched_stat_runtime")]
pub fn sched_stat_runtime(ctx: BtfTracePointContext) -> i32 {
    usage::charge(&ctx);
    0
}

/// The kernel offers some helpers to programs under the GPL only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";

/// Never reached: no code here can panic. The target wants a handler.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
