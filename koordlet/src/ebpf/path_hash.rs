//! A cheap hash for cgroup paths: a figure is looked up for every container at every sample, and the standard
//! hash, which withstands chosen keys, takes most of that time. Paths are made of UIDs and container ids, which
//! no tenant chooses.

use std::hash::{BuildHasherDefault, Hasher};

/// State of a `HashMap` keyed by paths.
pub(crate) type PathHash = BuildHasherDefault<PathHasher>;

/// Multiplies and folds eight bytes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathHasher(u64);

/// An odd number with its bits well mixed (2^64 divided by the golden ratio).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl PathHasher {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word).wrapping_mul(u128::from(MIX));
        let (high, low) = ((product >> 64) as u64, (product & u128::from(u64::MAX)) as u64);
        self.0 = high ^ low.rotate_left(23);
    }
}

impl Hasher for PathHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        // The length tells a short rest from one with zeros at its end.
        self.add(u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_left(56));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn the_paths_of_a_full_node_spread_well() {
        let path =
            |n: u32| format!("kubepods/burstable/pod{:08x}-0000-1111-2222-333344445555/{n:064x}", n / 10);
        let hashes: Vec<u64> = (0..10_000).map(|n| PathHash::default().hash_one(path(n))).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        // A table takes its bucket from the low bits and its tag from the high ones.
        for shift in [0, 57] {
            let mut buckets = [0u32; 128];
            for hash in &hashes {
                buckets[usize::try_from((hash >> shift) & 127).unwrap()] += 1;
            }
            assert!(buckets.iter().all(|count| (30..140).contains(count)), "{buckets:?}");
        }
    }

    #[test]
    fn length_and_order_count() {
        let hash = |text: &str| PathHash::default().hash_one(text);
        assert_ne!(hash("a"), hash("a\0"));
        assert_ne!(hash("aaaaaaaabbbbbbbb"), hash("bbbbbbbbaaaaaaaa"));
    }
}
