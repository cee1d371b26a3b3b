//! One birth or death of a cgroup, as it lies in the ring buffer.

use core::mem::{offset_of, size_of};

/// Bytes of a path in a record, with its closing NUL. A container's path under systemd takes about 200.
pub const PATH_CAPACITY: usize = 512;

/// [`CgroupRecord::kind`] of a birth.
pub const BORN: u32 = 1;
/// [`CgroupRecord::kind`] of a death.
pub const DIED: u32 = 2;

/// The record. Native byte order; written by the program into the ring, decoded with [`Decoded::from_bytes`].
#[repr(C)]
pub struct CgroupRecord {
    /// Cgroup id in its hierarchy.
    pub id: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at: u64,
    /// Id of the hierarchy; 0 is the unified one.
    pub hierarchy: u32,
    /// Levels below the hierarchy's root.
    pub level: u32,
    /// [`BORN`] or [`DIED`].
    pub kind: u32,
    /// Bytes of `path` that are used, without the NUL. A path that fills the field was cut.
    pub path_len: u32,
    /// The path from the hierarchy's root, with its leading slash.
    pub path: [u8; PATH_CAPACITY],
}

const _: () = assert!(size_of::<CgroupRecord>() == 32 + PATH_CAPACITY);
const _: () = assert!(align_of::<CgroupRecord>() == 8);

/// A record read back from bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Cgroup id in its hierarchy.
    pub id: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at: u64,
    /// Id of the hierarchy.
    pub hierarchy: u32,
    /// Levels below the hierarchy's root.
    pub level: u32,
    /// Whether it is a birth (else a death).
    pub born: bool,
    /// The path; cut if `truncated`.
    pub path: &'a [u8],
    /// The path did not fit.
    pub truncated: bool,
}

impl<'a> Decoded<'a> {
    /// Reads a record; `None` if the bytes are too few or name no known kind.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let born = match read_u32(bytes, offset_of!(CgroupRecord, kind))? {
            BORN => true,
            DIED => false,
            _ => return None,
        };
        let len = read_u32(bytes, offset_of!(CgroupRecord, path_len))? as usize;
        let path = bytes.get(offset_of!(CgroupRecord, path)..)?.get(..len.min(PATH_CAPACITY))?;
        Some(Self {
            id: read_u64(bytes, offset_of!(CgroupRecord, id))?,
            at: read_u64(bytes, offset_of!(CgroupRecord, at))?,
            hierarchy: read_u32(bytes, offset_of!(CgroupRecord, hierarchy))?,
            level: read_u32(bytes, offset_of!(CgroupRecord, level))?,
            born,
            path,
            truncated: len + 1 >= PATH_CAPACITY,
        })
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u32, path_len: u32) -> [u8; size_of::<CgroupRecord>()] {
        let mut bytes = [b'x'; size_of::<CgroupRecord>()];
        bytes[..8].copy_from_slice(&7u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&8u64.to_ne_bytes());
        for (at, value) in [(16, 3u32), (20, 2), (24, kind), (28, path_len)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_record_reads_back() {
        let bytes = bytes(DIED, 4);
        let record = Decoded::from_bytes(&bytes).expect("whole");
        assert_eq!((record.id, record.at, record.hierarchy, record.level), (7, 8, 3, 2));
        assert_eq!((record.born, record.path, record.truncated), (false, &b"xxxx"[..], false));
    }

    #[test]
    fn nonsense_is_none_and_a_full_path_is_marked_as_cut() {
        assert_eq!(Decoded::from_bytes(&[]), None);
        assert_eq!(Decoded::from_bytes(&bytes(9, 4)), None);
        assert_eq!(Decoded::from_bytes(&bytes(BORN, 4)[..33]), None);
        let long = bytes(BORN, u32::MAX);
        let record = Decoded::from_bytes(&long).expect("whole");
        assert!(record.truncated);
        assert_eq!(record.path.len(), PATH_CAPACITY);
    }
}
