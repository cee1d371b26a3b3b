//! All maps. User space sets the number of entries of each when it loads the object; the numbers here are
//! what one CPU needs. `names::map` in `koordlet-common` says what each is for.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{Array, HashMap, RingBuf, Stack};
use aya_ebpf::macros::btf_map;
use koordlet_common::layout::{DEFAULT_RING_BYTES, DEFAULT_SLOTS, HINT_COUNT};
use koordlet_common::loss::Loss;
use koordlet_common::record::CgroupRecord;

const SLOT_MAX: usize = DEFAULT_SLOTS as usize;
const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Births and deaths.
#[btf_map]
pub static EVENTS: RingBuf<CgroupRecord, { DEFAULT_RING_BYTES as usize }> = RingBuf::new();

/// Cgroup id -> slot.
#[btf_map]
pub static SLOTS: HashMap<u64, u32, SLOT_MAX> = HashMap::new();

/// Free slots.
#[btf_map]
pub static FREE: Stack<u32, SLOT_MAX> = Stack::new();

/// Slot -> cgroup id.
#[btf_map]
pub static OWNERS: Array<u64, SLOT_MAX, MMAPABLE> = Array::new();

/// Low bits of a cgroup id -> the slot that a cgroup with these bits had last.
#[btf_map]
pub static HINTS: Array<u32, { HINT_COUNT as usize }> = Array::new();

/// Nanoseconds by CPU and slot.
#[btf_map]
pub static CPU_TIME: Array<u64, SLOT_MAX, MMAPABLE> = Array::new();

/// Counters by CPU and reason.
#[btf_map]
pub static LOSSES: Array<u64, { Loss::COUNT as usize }, MMAPABLE> = Array::new();
