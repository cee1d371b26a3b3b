use std::collections::VecDeque;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;
use crate::report::audit::files::{LogFiles, Room};
use crate::report::audit::stats::AuditStats;

/// A log whose events are numbered.
struct Rig {
    folder: tempfile::TempDir,
    files: LogFiles,
    count: usize,
}

impl Rig {
    fn new(room: Room) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = LogFiles::new(folder.path().to_owned(), room, Arc::new(AuditStats::default()));
        Self { folder, files, count: 0 }
    }

    fn put(&mut self, events: usize) {
        let mut lines = VecDeque::new();
        for _ in 0..events {
            lines.push_back(Event { name: self.count.to_string().into(), ..Event::default() }.line());
            self.count += 1;
        }
        self.files.append(&mut lines, UNIX_EPOCH).unwrap();
    }

    fn reader(&self) -> Reader {
        Reader::new(self.folder.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        use std::io::Write;
        OpenOptions::new().append(true).create(true).open(self.path(name)).unwrap().write_all(bytes).unwrap();
    }
}

fn numbers(page: &Page) -> Vec<usize> {
    let name = |line: &Vec<u8>| serde_json::from_slice::<Event>(line).unwrap().name.parse().unwrap();
    page.lines.iter().map(name).collect()
}

/// Files of some 8 events, and room for all.
const TINY: Room = Room { file: 120, files: 10_000 };

#[test]
fn an_empty_or_absent_log_is_one_empty_page() {
    let rig = Rig::new(TINY);
    let empty = Page { lines: Vec::new(), is_last: true };
    assert_eq!(rig.reader().page(10).unwrap(), empty);
    assert_eq!(Reader::new(&rig.path("absent")).page(10).unwrap(), empty);
    rig.append(CURRENT, b"");
    assert_eq!(rig.reader().page(10).unwrap(), empty);
}

#[test]
fn the_last_page_says_so() {
    let mut rig = Rig::new(TINY);
    rig.put(30);
    let mut reader = rig.reader();
    let pages: Vec<_> = (0..3).map(|_| reader.page(10).unwrap()).collect();
    assert_eq!(pages.iter().map(|page| page.is_last).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(pages.iter().flat_map(numbers).collect::<Vec<_>>(), (0..30).rev().collect::<Vec<_>>());
    assert_eq!(reader.page(0).unwrap(), Page { lines: Vec::new(), is_last: true });
    assert!(!rig.reader().page(0).unwrap().is_last);
}

#[test]
fn lines_that_are_no_events_count_and_are_left_out() {
    let mut rig = Rig::new(Room { file: 1 << 20, files: 2 });
    rig.put(1);
    rig.append(CURRENT, b"{cut\n\xff\xfe\n\n[1]\n");
    rig.put(1);
    rig.append(CURRENT, b"{\"name\":\"being writ");
    let mut reader = rig.reader();
    assert_eq!(numbers(&reader.page(3).unwrap()), [1]);
    let last = reader.page(3).unwrap();
    assert_eq!((numbers(&last), last.is_last), (vec![0], true));
}

#[test]
fn a_page_is_bounded_in_bytes_and_goes_on_with_the_next_one() {
    let mut rig = Rig::new(Room { file: 64 << 20, files: 2 });
    let text = "x".repeat(4000);
    let line = |n: usize| {
        let name = n.to_string().into();
        Event { name, message: text.clone().into(), ..Event::default() }.line()
    };
    rig.files.append(&mut (0..1000).map(line).collect(), UNIX_EPOCH).unwrap();
    let mut reader = rig.reader();
    let mut seen = Vec::new();
    loop {
        let page = reader.page(2000).unwrap();
        assert!(page.lines.iter().map(Vec::len).sum::<usize>() <= MAX_PAGE + 5000);
        seen.extend(numbers(&page));
        if page.is_last {
            break;
        }
    }
    assert_eq!(seen, (0..1000).rev().collect::<Vec<_>>());
}

#[test]
fn files_that_are_removed_between_pages_leave_a_gap_and_no_error() {
    let mut rig = Rig::new(TINY);
    rig.put(60);
    let mut reader = rig.reader();
    let first = numbers(&reader.page(2).unwrap());
    let names = rotated_names(rig.folder.path()).unwrap();
    let gone = &names[names.len() - 2];
    std::fs::remove_file(rig.path(&gone.to_string())).unwrap();
    std::fs::remove_file(rig.path(CURRENT)).unwrap();
    let rest = numbers(&reader.page(1000).unwrap());
    let seen: Vec<usize> = first.into_iter().chain(rest).collect();
    assert!(seen.windows(2).all(|pair| pair[0] > pair[1]) && seen.contains(&0), "{seen:?}");
    assert!((51..60).contains(&seen.len()), "{seen:?}");
    // The current file is another one by now.
    std::os::unix::fs::symlink(rig.path(&names[0].to_string()), rig.path(CURRENT)).unwrap();
    assert!(!numbers(&rig.reader().page(1).unwrap()).contains(&0), "a link is not followed");
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize),
    Page(usize),
    /// By others, as logrotate does.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..40_usize).prop_map(Step::Put),
        3 => (0..25_usize).prop_map(Step::Page),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_event_is_seen_exactly_once_newest_first(
        before in 0..200_usize,
        steps in prop::collection::vec(step(), 0..20),
        file in 30..400_u64,
    ) {
        let room = Room { file, files: 10_000 };
        let mut rig = Rig::new(room);
        rig.put(before);
        let mut reader = rig.reader();
        let mut seen = Vec::new();
        // A reader begins at its first page.
        let first = reader.page(1).unwrap();
        seen.extend(numbers(&first));
        let mut ended = first.is_last;
        for step in steps {
            match step {
                Step::Put(events) => rig.put(events),
                Step::Page(size) => {
                    let page = reader.page(size).unwrap();
                    prop_assert!(page.lines.len() <= size);
                    prop_assert!(!ended || (page.is_last && page.lines.is_empty()));
                    ended = page.is_last;
                    seen.extend(numbers(&page));
                }
                Step::Restart => {
                    let stats = Arc::new(AuditStats::default());
                    rig.files = LogFiles::new(rig.folder.path().to_owned(), room, stats);
                }
            }
        }
        seen.extend(numbers(&reader.page(usize::MAX).unwrap()));
        prop_assert_eq!(seen, (0..before).rev().collect::<Vec<_>>());
        let all = numbers(&rig.reader().page(usize::MAX).unwrap());
        prop_assert_eq!(all, (0..rig.count).rev().collect::<Vec<_>>());
    }
}
