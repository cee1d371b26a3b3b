//! The one file with unsafe code: what neither the standard library, nix, aya nor tokio offers safely.
//!
//! Each item's interface is safe; each block says why.

#![expect(unsafe_code, reason = "this is the one place for it")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

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

/// Gives free heap pages back to the kernel: reading the kernel's type information takes tens of MiB for a
/// moment, once, at start.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}
