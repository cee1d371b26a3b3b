//! A cheap hash for cgroup paths: a figure is looked up for every container at every sample, and the standard
//! hash, which withstands chosen keys, takes most of that time. Paths are made of UIDs and container ids, which
//! no tenant chooses.

use std::hash::{BuildHasherDefault, Hasher};

/// State of a `HashMap` keyed by paths.
pub(crate) type PathHash = BuildHasherDefault<PathHasher>;

/// Multiplies and folds sixteen bytes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathHasher(u64);

/// Odd numbers with their bits well mixed: the golden ratio's and pi's.
const MIX: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x2439_86d3_1319_8a2f];

/// Both halves of the product, so that every bit of the result hangs on every bit of both words.
fn fold(a: u64, b: u64) -> u64 {
    let (high, low) = halves(u128::from(a) * u128::from(b));
    high ^ low
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn halves(both: u128) -> (u64, u64) {
    ((both >> 64) as u64, both as u64)
}

impl Hasher for PathHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (pairs, rest) = bytes.as_chunks::<16>();
        // Two chains side by side: one alone waits for each multiplication.
        let (mut one, mut other) = (self.0 ^ bytes.len() as u64, MIX[1]);
        for pair in pairs {
            (one, other) = (other, fold_pair(one, *pair));
        }
        let mut last = [0; 16];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.0 = fold_pair(fold(one ^ MIX[0], other.rotate_left(32) ^ MIX[1]), last);
    }

    fn write_u8(&mut self, byte: u8) {
        // The end mark that follows every text.
        self.0 = self.0.wrapping_add(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn fold_pair(state: u64, pair: [u8; 16]) -> u64 {
    let (high, low) = halves(u128::from_le_bytes(pair));
    fold(state ^ high ^ MIX[0], low ^ MIX[1])
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
