//! The readers that are on their way through the log, by token: few of them, each for a while.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::reader::Reader;

/// How long a reader lives after its last use.
const LIFE: Duration = Duration::from_mins(10);

/// A reader that requests share.
pub type SharedReader = Arc<Mutex<Reader>>;

#[derive(Debug)]
struct Entry {
    token: String,
    used: Instant,
    reader: SharedReader,
}

/// See the module's text.
#[derive(Debug)]
pub struct ReaderTable {
    /// The oldest first.
    entries: Vec<Entry>,
    max: usize,
}

impl ReaderTable {
    /// A table for `max` readers.
    pub fn new(max: usize) -> Self {
        Self { entries: Vec::new(), max: max.max(1) }
    }

    /// Adds a reader of `dir`; where there are too many, the oldest ones go.
    pub fn add(&mut self, token: String, dir: &Path, now: Instant) -> SharedReader {
        self.sweep(now);
        let surplus = (self.entries.len() + 1).saturating_sub(self.max);
        self.entries.drain(..surplus);
        let reader = Arc::new(Mutex::new(Reader::new(dir)));
        self.entries.push(Entry { token, used: now, reader: Arc::clone(&reader) });
        reader
    }

    /// The reader of a token; `None` if there is none (any more).
    pub fn get(&mut self, token: &str, now: Instant) -> Option<SharedReader> {
        self.sweep(now);
        let entry = self.entries.iter_mut().find(|entry| entry.token == token)?;
        entry.used = now;
        Some(Arc::clone(&entry.reader))
    }

    /// Drops a reader: it is at its end, or failed.
    pub fn remove(&mut self, token: &str) {
        self.entries.retain(|entry| entry.token != token);
    }

    /// Drops all that were not used for their lifetime; how many are left.
    pub fn sweep(&mut self, now: Instant) -> usize {
        self.entries.retain(|entry| now.saturating_duration_since(entry.used) < LIFE);
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_reader_goes_first_and_all_expired_ones_go_at_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut table = ReaderTable::new(2);
        for (token, second) in [("a", 0), ("b", 1), ("c", 2)] {
            table.add(token.into(), Path::new("/nowhere"), at(second));
        }
        assert!(table.get("a", at(3)).is_none() && table.get("", at(3)).is_none());
        assert!(table.get("b", at(3)).is_some() && table.get("c", at(4)).is_some());
        assert_eq!(table.sweep(at(602)), 2);
        assert_eq!(table.sweep(at(603)), 1, "b was last used at 3 s");
        assert!(table.get("c", at(603)).is_some());
        table.add("d".into(), Path::new("/nowhere"), at(603));
        assert_eq!(table.sweep(at(1203)), 0);
        table.add("e".into(), Path::new("/nowhere"), at(1204));
        table.remove("e");
        assert!(table.get("e", at(1204)).is_none());
    }
}
