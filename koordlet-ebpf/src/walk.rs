//! From a kernel object to the cgroup it belongs to.
//!
//! Rust objects carry no CO-RE relocations: user space looks the offsets up in the kernel's BTF and sets the
//! globals here before the verifier sees them. They lie in read-only data, so each is a known constant to the
//! verifier, which checks every step against the kernel's types and lets plain loads through; a load through
//! a null pointer yields 0.

use core::ffi::c_void;

use aya_ebpf::Global;

macro_rules! offsets {
    ($($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        static $name: Global<u32> = Global::new(0);
    )*};
}

offsets!(
    TASK_CGROUPS,
    CSS_SET_LINK,
    LINK_IS_CSS,
    CSS_CGROUP,
    CGROUP_KN,
    CGROUP_ROOT,
    CGROUP_LEVEL,
    ROOT_HIERARCHY_ID,
    KN_ID,
);

/// Id of the task's cgroup in the usage hierarchy.
#[inline(always)]
pub fn usage_cgroup_id(task: *const c_void) -> u64 {
    let css_set = pointer(task, &TASK_CGROUPS);
    let mut cgroup = pointer(css_set, &CSS_SET_LINK);
    if LINK_IS_CSS.load() != 0 {
        cgroup = pointer(cgroup, &CSS_CGROUP);
    }
    cgroup_id(cgroup)
}

/// Id of a cgroup in its hierarchy.
#[inline(always)]
pub fn cgroup_id(cgroup: *const c_void) -> u64 {
    load(pointer(cgroup, &CGROUP_KN), &KN_ID)
}

/// Id of the hierarchy that a cgroup is in.
#[inline(always)]
pub fn hierarchy_id(cgroup: *const c_void) -> u32 {
    load(pointer(cgroup, &CGROUP_ROOT), &ROOT_HIERARCHY_ID)
}

/// Levels of a cgroup below its hierarchy's root.
#[inline(always)]
pub fn level(cgroup: *const c_void) -> u32 {
    load(cgroup, &CGROUP_LEVEL)
}

#[inline(always)]
fn pointer(base: *const c_void, offset: &Global<u32>) -> *const c_void {
    load(base, offset)
}

#[inline(always)]
fn load<T: Copy>(base: *const c_void, offset: &Global<u32>) -> T {
    // SAFETY: `base` is a kernel pointer whose type the verifier knows; it refuses the program if there is no
    // field of this size at this offset, and a fault while reading gives 0.
    unsafe { base.cast::<u8>().wrapping_add(offset.load() as usize).cast::<T>().read_volatile() }
}
