//! Sets of CPU numbers in the kernel's list form (`0-3,8`), collection.md 3.7.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest end of a range that is accepted; a single number is not limited.
const MAX_RANGE_END: u32 = 4096;

/// A set of logical CPU numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(BTreeSet<u32>);

/// Text that is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a CPU list: {what}")]
pub struct CpuSetError {
    text: String,
    what: &'static str,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Whether there is no CPU in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds one CPU.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// CPUs in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// Empty text is the empty set; `a > b` in `a-b` yields nothing; blanks, empty elements and
    /// signs are errors; a range must not end above 4096.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |what| CpuSetError { text: text.chars().take(80).collect(), what };
        let number = |part: &str| {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(error("a CPU number has digits only"));
            }
            part.parse::<u32>().map_err(|_| error("the CPU number is too large"))
        };
        let mut cpus = BTreeSet::new();
        if text.is_empty() {
            return Ok(Self(cpus));
        }
        for part in text.split(',') {
            match part.split_once('-') {
                None => {
                    cpus.insert(number(part)?);
                }
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if last > MAX_RANGE_END {
                        return Err(error("a range ends above 4096"));
                    }
                    cpus.extend(first..=last);
                }
            }
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&last.wrapping_add(1)) {
                last = next;
            }
            if last == first {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_print_in_runs_and_bad_text_is_refused() {
        for (text, printed) in [("", ""), ("0,0", "0"), ("0-0", "0"), ("3,0-1", "0-1,3"), ("2-1", "")] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), printed, "{text}");
        }
        for text in ["0-", "a", "-1", "0-3,", " 0", "0-4097", "1-2-3"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_give_the_same_set(cpus in prop::collection::btree_set(0u32..300, 0..60)) {
            let set = CpuSet(cpus);
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }
    }
}
