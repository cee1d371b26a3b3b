//! The one file with unsafe code: what neither the standard library, nix, aya nor tokio offers safely.
//!
//! Each item's interface is safe; each block says why.

#![expect(unsafe_code, reason = "this is the one place for it")]

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The words of a BPF array of `u64` made with `BPF_F_MMAPABLE`, mapped into this process: reading one is a
/// load, not a system call. Unmapped on drop; the mapping keeps the kernel's map alive by itself.
#[derive(Debug)]
pub struct MappedWords {
    start: NonNull<AtomicU64>,
    words: usize,
    bytes: usize,
}

impl MappedWords {
    /// Maps the first `words` words of the array behind `map`, readable and writable.
    pub fn of_map(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(size_of::<AtomicU64>()).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours; the kernel
        // refuses a length beyond the map, rounded up to pages.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, words, bytes })
    }

    /// The words. The kernel's programs write them at any time.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, at least this long and lives as long as `self`; any bits are a
        // valid AtomicU64, and shared changes by the kernel are what atomics allow.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `of_map` with this length, and no borrow outlives `self`.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(result, 0, "munmap of our own mapping");
    }
}

// SAFETY: the pointer is owned, and is used for atomic access alone.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}

/// Registers `source` with the running tokio runtime, for readability. Must be called inside a runtime.
///
/// # Errors
/// What epoll answered.
pub fn readable<T: AsFd + AsRawFd>(source: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: `T: AsFd` owns or borrows its descriptor for its whole life, and AsyncFd owns `source`; the types
    // it is called with (aya's ring buffer and logger) never swap the descriptor.
    unsafe { AsyncFd::register_with_interest(source, Interest::READABLE) }.map_err(io::Error::from)
}

/// What can be done with core scheduling cookies, `PR_SCHED_CORE` (Linux 5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CoreSchedCall {
    /// `PR_SCHED_CORE_CREATE` for all threads of a process.
    Create,
    /// `PR_SCHED_CORE_SHARE_TO` all threads of a process.
    ShareTo,
    /// `PR_SCHED_CORE_SHARE_FROM` a thread to the calling one.
    ShareFrom,
}

/// The core scheduling cookie of the thread `pid`, 0 if it has none; of the calling thread without a `pid`.
///
/// # Errors
/// EINVAL or ENODEV where the kernel has no core scheduling, ESRCH where the thread is gone.
pub fn core_sched_cookie(pid: Option<Pid>) -> io::Result<u64> {
    /// `PR_SCHED_CORE_GET`, and the scope of one thread, `PIDTYPE_PID`.
    const GET_OF_THREAD: (libc::c_ulong, libc::c_ulong) = (0, 0);
    let pid = pid.map_or(Ok(0), raw_pid)?;
    let mut cookie: u64 = 0;
    let (get, scope) = GET_OF_THREAD;
    // SAFETY: the kernel writes one u64 to the last argument, which is one of ours and live; it keeps nothing.
    match unsafe { libc::prctl(libc::PR_SCHED_CORE, get, pid, scope, &raw mut cookie) } {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives all threads of the process `pid` a cookie that nobody else has.
///
/// # Errors
/// What the kernel answered.
pub fn create_core_sched_cookie(pid: Pid) -> io::Result<()> {
    core_sched_call(CoreSchedCall::Create, pid)
}

/// Gives all threads of the process `pid` the calling thread's cookie.
///
/// # Errors
/// What the kernel answered.
pub fn share_core_sched_cookie_to(pid: Pid) -> io::Result<()> {
    core_sched_call(CoreSchedCall::ShareTo, pid)
}

/// Gives the calling thread the cookie of the thread `pid`.
///
/// # Errors
/// What the kernel answered.
pub fn share_core_sched_cookie_from(pid: Pid) -> io::Result<()> {
    core_sched_call(CoreSchedCall::ShareFrom, pid)
}

fn core_sched_call(call: CoreSchedCall, pid: Pid) -> io::Result<()> {
    /// Scopes: `PIDTYPE_PID` and `PIDTYPE_TGID`.
    const THREAD: libc::c_ulong = 0;
    const THREAD_GROUP: libc::c_ulong = 1;
    let (operation, scope): (libc::c_ulong, _) = match call {
        CoreSchedCall::Create => (1, THREAD_GROUP),
        CoreSchedCall::ShareTo => (2, THREAD_GROUP),
        CoreSchedCall::ShareFrom => (3, THREAD),
    };
    let pid = raw_pid(pid)?;
    // SAFETY: numbers alone; without `GET` the kernel wants no address.
    match unsafe { libc::prctl(libc::PR_SCHED_CORE, operation, pid, scope, 0 as libc::c_ulong) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// To the kernel, 0 would be the calling thread.
fn raw_pid(pid: Pid) -> io::Result<libc::c_ulong> {
    let raw = libc::c_ulong::try_from(pid.as_raw()).ok().filter(|raw| *raw > 0);
    raw.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Gives free heap pages back to the kernel, after something that took much for a moment: reading the kernel's type
/// information, a large manifest, many pods that are gone.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has all threads share one heap. glibc would give each of the first few a heap of its own, each with free room that
/// no other thread gets. For the start, before there are threads.
pub fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets a number that malloc reads, and there is no precondition.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Lets go of the pages of the program and its libraries: most have served the start alone. Whoever needs one again
/// finds it in the page cache.
pub fn trim_program() {
    // Without it they stay, which harms nobody.
    let Ok(smaps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for range in unchanged_code(&smaps) {
        let start = std::ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: these are private, read-only mappings of files that hold code, and no page of them differs from its
        // file, so the next access finds the same bytes again. Nothing unloads code here, so that what lies at the
        // range is what the kernel has just listed.
        unsafe {
            libc::madvise(start, range.len(), libc::MADV_DONTNEED);
        }
    }
}

/// Address ranges in the text of `smaps` that map files with code, cannot be written, and hold no page that differs
/// from its file (as relocated data does, or code with a debugger's breakpoint).
fn unchanged_code(smaps: &str) -> Vec<Range<usize>> {
    /// A file, by device and inode.
    type File<'a> = (&'a str, &'a str);
    let mut code: HashSet<File<'_>> = HashSet::new();
    let mut unchanged = Vec::new();
    let mut mapping: Option<(Range<usize>, File<'_>)> = None;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match *words {
            [range, rights, _, device, inode, ..] if range.contains('-') => {
                let file = (device, inode);
                if rights.contains('x') && inode != "0" {
                    code.insert(file);
                }
                let is_kept = rights.starts_with('r') && !rights.contains('w') && rights.ends_with('p');
                mapping = is_kept.then(|| addresses(range)).flatten().map(|range| (range, file));
            }
            ["Anonymous:", "0", "kB"] => unchanged.extend(mapping.take()),
            _ => {}
        }
    }
    unchanged.into_iter().filter(|(_, file)| code.contains(file)).map(|(range, _)| range).collect()
}

fn addresses(range: &str) -> Option<Range<usize>> {
    let (start, end) = range.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// A moment on the calendar of the machine's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Year, e.g. 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// 0 to 23.
    pub hour: i32,
    /// 0 to 59.
    pub minute: i32,
    /// 0 to 60.
    pub second: i32,
    /// Seconds east of UTC, at that moment.
    pub offset: i64,
}

/// Local time of `seconds` since 1970; `None` where the year is beyond what the C library counts.
pub fn local_time(seconds: i64) -> Option<LocalTime> {
    let time: libc::time_t = seconds;
    // SAFETY: a plain struct of numbers and a pointer, for which all zeros are valid.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types; the call keeps neither. It reads the
    // environment's TZ, which this process never changes.
    let filled = unsafe { libc::localtime_r(&raw const time, &raw mut parts) };
    (!filled.is_null()).then_some(LocalTime {
        year: parts.tm_year.saturating_add(1900),
        month: parts.tm_mon.saturating_add(1),
        day: parts.tm_mday,
        hour: parts.tm_hour,
        minute: parts.tm_min,
        second: parts.tm_sec,
        offset: parts.tm_gmtoff,
    })
}

/// What a performance event counts: `type` and `config` of `struct perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfEventType {
    /// `PERF_TYPE_*`
    pub kind: u32,
    /// `PERF_COUNT_*` of that type.
    pub config: u64,
}

/// `struct perf_event_attr` as far as its first version goes, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `PERF_ATTR_SIZE_VER0`
const PERF_ATTR_SIZE: u32 = 64;
const _: () = assert!(size_of::<PerfEventAttr>() == PERF_ATTR_SIZE as usize);

/// Opens a counter of `event` on one CPU, for the tasks of `cgroup` (a directory of the hierarchy that has
/// `perf_event`) and of the groups beneath it. Without a `leader` it leads a group of its own and stands still
/// until [`start_perf_counters`]; with one it runs and stops with it.
///
/// Reading a leader gives 64-bit words: how many counters, time enabled and time running in nanoseconds, then the
/// figure of each counter in the order of opening.
///
/// # Errors
/// What the kernel answered.
pub fn open_perf_counter(
    event: PerfEventType,
    cgroup: BorrowedFd<'_>,
    cpu: u32,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_GROUP`
    const READ_FORMAT: u64 = 1 | 2 | 8;
    /// The first of the flags that C declares as bit fields.
    const DISABLED: u64 = if cfg!(target_endian = "big") { 1 << 63 } else { 1 };
    /// `PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC`
    const FLAGS: libc::c_ulong = 4 | 8;
    let mut attr = PerfEventAttr {
        kind: event.kind,
        size: PERF_ATTR_SIZE,
        config: event.config,
        read_format: READ_FORMAT,
        flags: if leader.is_none() { DISABLED } else { 0 },
        ..PerfEventAttr::default()
    };
    let cpu = libc::c_int::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let group = leader.map_or(-1, |leader| leader.as_raw_fd());
    // SAFETY: `attr` is laid out as the kernel's first version of it and says so in `size`; the kernel reads it,
    // may write `size`, and keeps no reference. The descriptors are open for the whole call.
    let answer = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw mut attr, cgroup.as_raw_fd(), cpu, group, FLAGS)
    };
    match i32::try_from(answer) {
        // SAFETY: a fresh descriptor that nobody else knows.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets a group of counters that [`open_perf_counter`] opened run.
///
/// # Errors
/// What the kernel answered.
pub fn start_perf_counters(leader: BorrowedFd<'_>) -> io::Result<()> {
    /// `PERF_EVENT_IOC_ENABLE`
    const ENABLE: libc::Ioctl = libc::_IO(b'$' as u32, 0);
    /// `PERF_IOC_FLAG_GROUP`
    const GROUP: libc::c_ulong = 1;
    // SAFETY: the request takes a number and touches no memory of ours.
    match unsafe { libc::ioctl(leader.as_raw_fd(), ENABLE, GROUP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_what_lies_beside_it_unchanged_is_let_go() {
        let mapping = |range: &str, rights: &str, inode: u32, anonymous: u32| {
            format!(
                "{range} {rights} 00000000 fe:00 {inode} {}\nSize:  8 kB\nAnonymous:  {anonymous} kB\n\
                 VmFlags: rd mr\n",
                if inode == 0 { "" } else { "/a file" }
            )
        };
        let smaps = [
            mapping("1000-3000", "r--p", 7, 0),
            mapping("3000-5000", "r-xp", 7, 0),
            mapping("5000-6000", "r--p", 7, 4),
            mapping("6000-7000", "rw-p", 7, 0),
            mapping("7000-8000", "r-xp", 8, 4),
            mapping("8000-9000", "r--p", 9, 0),
            mapping("9000-a000", "r--s", 7, 0),
            mapping("a000-b000", "r-xp", 0, 0),
        ]
        .concat();
        assert_eq!(unchanged_code(&smaps), [0x1000..0x3000, 0x3000..0x5000]);
        assert!(unchanged_code("nonsense\n1-2 r-xp\n\n").is_empty());
    }

    #[test]
    fn the_program_runs_on_without_its_pages() {
        let smaps = || std::fs::read_to_string("/proc/self/smaps").unwrap();
        let before = unchanged_code(&smaps());
        trim_program();
        let after = unchanged_code(&smaps());
        assert!(!before.is_empty() && before == after, "{before:?} {after:?}");
    }
}
