//! When a changed file may be read: not while somebody is writing it, and not once for each of a burst of
//! events. Pure; the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

/// How long a finished change must have been left alone.
const QUIET: Duration = Duration::from_millis(30);
/// How long a file that is open for writing may stay silent before it is read all the same.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longest time from the first event to reading, however busy the file is.
const LONGEST: Duration = Duration::from_millis(600);

/// What an event says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Somebody is writing; a close should follow.
    Writing,
    /// It is complete: closed, renamed, linked or removed.
    Done,
}

#[derive(Debug)]
struct Unsettled {
    first: Instant,
    last: Instant,
    touch: Touch,
}

impl Unsettled {
    fn ready_at(&self) -> Instant {
        let wait = match self.touch {
            Touch::Writing => PATIENCE,
            Touch::Done => QUIET,
        };
        (self.last + wait).min(self.first + LONGEST)
    }
}

/// The names that changed and were not read yet.
#[derive(Debug, Default)]
pub struct Settle {
    names: BTreeMap<OsString, Unsettled>,
}

impl Settle {
    /// Notes an event.
    pub fn note(&mut self, name: &OsStr, touch: Touch, now: Instant) {
        let fresh = Unsettled { first: now, last: now, touch };
        let entry = self.names.entry(name.to_owned()).or_insert(fresh);
        (entry.last, entry.touch) = (now, touch);
    }

    /// When the next name is ready; `None` when there is none.
    pub fn due(&self) -> Option<Instant> {
        self.names.values().map(Unsettled::ready_at).min()
    }

    /// The names that are ready; they are forgotten.
    pub fn take_ready(&mut self, now: Instant) -> BTreeSet<OsString> {
        let names = std::mem::take(&mut self.names);
        let (ready, rest): (BTreeMap<_, _>, _) =
            names.into_iter().partition(|(_, unsettled)| unsettled.ready_at() <= now);
        self.names = rest;
        ready.into_keys().collect()
    }

    /// Whether `name` must not be read yet.
    pub fn is_unsettled(&self, name: &OsStr) -> bool {
        self.names.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_file_is_read_after_its_writer_closed_it() {
        let (start, mut settle) = (Instant::now(), Settle::default());
        let name = OsStr::new("a.yaml");
        settle.note(name, Touch::Writing, start);
        settle.note(name, Touch::Writing, start + ms(100));
        assert!(settle.take_ready(start + ms(200)).is_empty());
        assert!(settle.is_unsettled(name));
        settle.note(name, Touch::Done, start + ms(200));
        assert_eq!(settle.due(), Some(start + ms(230)));
        assert!(settle.take_ready(start + ms(220)).is_empty());
        assert_eq!(settle.take_ready(start + ms(230)).len(), 1);
        assert_eq!((settle.due(), settle.is_unsettled(name)), (None, false));
    }

    #[test]
    fn a_file_that_never_rests_is_read_in_time() {
        let (start, mut settle) = (Instant::now(), Settle::default());
        for at in (0..2000).step_by(10) {
            settle.note(OsStr::new("a.yaml"), Touch::Writing, start + ms(at));
            if !settle.take_ready(start + ms(at)).is_empty() {
                assert_eq!(at, 600);
                return;
            }
        }
        panic!("it was never read");
    }
}
