//! CPU time from cgroup files: the fall-back where eBPF does not count, with the same numbers.
//!
//! Descriptors are kept between samples, a bounded number of them: a read on a kept one takes a quarter of the
//! time of open, read and close. One is dropped with its directory: the kernel answers ENODEV from then on.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::cgroup::held_file::{HeldFile, ReadBuffer};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::path_hash::PathHash;
use crate::cgroup::resource::{Controller, Resource};
use crate::host::clock::monotonic;
use crate::state::usage::{CpuReading, CpuTime};
use crate::units::Nanos;

/// Opens and reads the CPU time files of directories.
#[derive(Clone, Debug)]
pub struct UsageFiles {
    layout: Arc<Layout>,
    /// Directories whose file failed when it was last tried, which has been told.
    failing: HashSet<CgroupDir>,
}

/// As many failing directories are remembered; beyond that all are told anew.
const MAX_FAILING: usize = 1024;

/// The open CPU time file of one directory.
#[derive(Debug)]
pub struct UsageFile {
    file: HeldFile,
    dir: CgroupDir,
    /// Cgroup id of the directory when it was opened.
    pub id: u64,
}

impl UsageFiles {
    /// Files of these hierarchies.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { layout, failing: HashSet::new() }
    }

    /// Opens a directory's file; `None` if there is no such directory, or it cannot be read, which is told once.
    pub fn open(&mut self, dir: &CgroupDir) -> Option<UsageFile> {
        let file = match self.layout.open(dir, Resource::CpuUsage) {
            Ok(file) => file,
            Err(error) => {
                self.tell(dir, &error);
                None
            }
        }?;
        let root = self.layout.hierarchy_root(Controller::Cpuacct)?;
        let id = std::fs::metadata(root.join(dir.as_str())).ok()?.ino();
        Some(UsageFile { file, dir: dir.clone(), id })
    }

    /// Says that a directory's file cannot be used, once until it can.
    fn tell(&mut self, dir: &CgroupDir, error: &dyn std::error::Error) {
        if self.failing.contains(dir) {
            return;
        }
        if self.failing.len() >= MAX_FAILING {
            self.failing.clear();
        }
        self.failing.insert(dir.clone());
        tracing::warn!(%dir, %error, "no CPU time from a file");
    }

    /// Whether there is such a directory; true if that cannot be told.
    fn exists(&self, dir: &CgroupDir) -> bool {
        let root = self.layout.hierarchy_root(Controller::Cpuacct);
        root.is_none_or(|root| root.join(dir.as_str()).try_exists().unwrap_or(true))
    }

    /// Reads an open file, collection.md 3.7; `None` if its directory is gone, or it cannot be used, which is told
    /// once.
    pub fn read(&mut self, file: &UsageFile, buffer: &mut ReadBuffer) -> Option<Nanos> {
        let read = file.file.read(buffer).and_then(|text| match text {
            Some(text) => self.layout.parse_cpu_time(text).map(Some).map_err(io::Error::other),
            None => Ok(None),
        });
        match read {
            Ok(total) => {
                if !self.failing.is_empty() {
                    self.failing.remove(&file.dir);
                }
                total
            }
            Err(error) => {
                self.tell(&file.dir, &error);
                None
            }
        }
    }
}

/// [`CpuTime`] from files. Which directories are sampled follows from which are asked for.
#[derive(Debug)]
pub struct FileCpuTime {
    files: UsageFiles,
    entries: HashMap<CgroupDir, Entry, PathHash>,
    held: usize,
    capacity: usize,
    buffer: ReadBuffer,
    /// Number of the present sample.
    sample: u64,
    /// Directories that were asked for and not there: what appears in one has been born since.
    absent: HashMap<CgroupDir, u64>,
}

#[derive(Debug)]
struct Entry {
    /// `None` when there are more directories than descriptors: opened for each read.
    file: Option<UsageFile>,
    id: u64,
    total: Nanos,
    asked: u64,
    born: Option<Nanos>,
}

/// A directory that nobody has asked for in so many samples is no longer sampled.
const FORGET_AFTER: u64 = 3;

impl FileCpuTime {
    /// Keeps at most `capacity` descriptors.
    pub fn new(files: UsageFiles, capacity: usize) -> Self {
        let (entries, absent) = (HashMap::default(), HashMap::new());
        Self { files, entries, held: 0, capacity, buffer: ReadBuffer::default(), sample: 0, absent }
    }

    /// Number of descriptors kept.
    pub fn held(&self) -> usize {
        self.held
    }

    fn read_anew(&mut self, dir: &CgroupDir) -> Option<Entry> {
        let Some(file) = self.files.open(dir) else {
            if !self.files.exists(dir) {
                self.absent.insert(dir.clone(), self.sample);
            }
            return None;
        };
        let (total, id) = (self.files.read(&file, &mut self.buffer)?, file.id);
        let file = (self.held < self.capacity).then_some(file);
        self.held += usize::from(file.is_some());
        // Absent at the sample before, or even at this one: it is younger than that.
        let born = self.absent.remove(dir).map(|_| monotonic());
        Some(Entry { file, id, total, asked: self.sample, born })
    }

    /// Reads an entry again; false if its directory is gone.
    fn refresh(files: &mut UsageFiles, dir: &CgroupDir, entry: &mut Entry, buffer: &mut ReadBuffer) -> bool {
        let read = if let Some(file) = &entry.file {
            files.read(file, buffer)
        } else {
            let file = files.open(dir).filter(|file| file.id == entry.id);
            file.and_then(|file| files.read(&file, buffer))
        };
        if let Some(total) = read {
            entry.total = entry.total.max(total);
        }
        read.is_some()
    }
}

impl CpuTime for FileCpuTime {
    fn sample(&mut self) {
        self.sample += 1;
        let (sample, files, buffer) = (self.sample, &mut self.files, &mut self.buffer);
        let mut closed = 0;
        self.entries.retain(|dir, entry| {
            let keep = sample - entry.asked <= FORGET_AFTER && Self::refresh(files, dir, entry, buffer);
            closed += usize::from(!keep && entry.file.is_some());
            keep
        });
        self.held -= closed;
        self.absent.retain(|_, seen| sample - *seen <= 1);
    }

    fn reading(&mut self, dir: &CgroupDir) -> Option<CpuReading> {
        if !self.entries.contains_key(dir) {
            let entry = self.read_anew(dir)?;
            self.entries.insert(dir.clone(), entry);
        }
        let entry = self.entries.get_mut(dir)?;
        entry.asked = self.sample;
        Some(CpuReading { total: entry.total, identity: Some(entry.id), born: entry.born })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn put(path: &Path, text: &str) {
        use std::io::Write;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn dir(path: &str) -> CgroupDir {
        CgroupDir::new(path).unwrap()
    }

    fn reader(root: &Path, capacity: usize) -> FileCpuTime {
        FileCpuTime::new(UsageFiles::new(Arc::new(Layout::of_folder(root).unwrap())), capacity)
    }

    #[test]
    fn a_sample_reads_what_is_asked_for_within_the_descriptor_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join("cpuacct").join(name).join("cpuacct.usage");
        for (name, text) in [("kubepods/a", "1\n"), ("kubepods/b", "2\n"), ("kubepods/c", "3\n")] {
            put(&file(name), text);
        }
        let mut usage = reader(folder.path(), 2);
        let names = ["kubepods/a", "kubepods/b", "kubepods/c"];
        let totals = |usage: &mut FileCpuTime| names.map(|n| usage.total(&dir(n)).map(|t| t.0));
        assert_eq!(totals(&mut usage), [Some(1), Some(2), Some(3)]);
        assert_eq!(usage.held(), 2);
        put(&file("kubepods/a"), "10\n");
        put(&file("kubepods/c"), "30\n");
        assert_eq!(totals(&mut usage), [Some(1), Some(2), Some(3)], "figures are those of the last sample");
        usage.sample();
        assert_eq!(totals(&mut usage), [Some(10), Some(2), Some(30)]);
        put(&file("kubepods/a"), "7\n");
        usage.sample();
        assert_eq!(totals(&mut usage)[0], Some(10), "never a step back");
        for _ in 0..=FORGET_AFTER {
            usage.sample();
        }
        assert_eq!((usage.held(), usage.entries.len()), (0, 0));
    }

    #[test]
    fn a_missing_directory_is_unknown_and_no_error() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join("cpuacct/x/cpuacct.usage"), "1\n");
        let mut usage = reader(folder.path(), 2);
        assert_eq!(usage.total(&dir("kubepods/a")), None);
        assert_eq!(usage.total(&dir("x")), Some(Nanos(1)));
        std::fs::remove_dir_all(folder.path().join("cpuacct/x")).unwrap();
        assert!(usage.identity(&dir("x")).is_some());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_once_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cpuacct/kubepods/a/cpuacct.usage");
        put(&file, "nonsense\n");
        let mut usage = reader(folder.path(), 2);
        let mut ask = || {
            usage.sample();
            (usage.total(&dir("kubepods/a")).is_some(), usage.files.failing.len())
        };
        // Each look at it is one more failure, and no more news.
        assert_eq!([ask(), ask()], [(false, 1), (false, 1)]);
        put(&file, "5\n");
        assert_eq!(ask(), (true, 0));
    }

    #[test]
    fn what_is_remembered_of_failures_has_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join("cpuacct/x/cpuacct.usage"), "1\n");
        let mut files = reader(folder.path(), 2).files;
        for number in 0..3 * MAX_FAILING {
            files.tell(&dir(&format!("kubepods/{number}")), &io::Error::other("no"));
        }
        assert!(files.failing.len() <= MAX_FAILING);
    }

    #[test]
    fn a_directory_that_was_not_there_at_the_sample_before_is_known_to_be_new() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| put(&folder.path().join("cpuacct").join(name).join("cpuacct.usage"), "5\n");
        put("old");
        let mut usage = reader(folder.path(), 2);
        let born =
            |usage: &mut FileCpuTime, name: &str| usage.reading(&dir(name)).map(|read| read.born.is_some());
        usage.sample();
        let names = ["old", "new", "late"];
        assert_eq!(names.map(|name| born(&mut usage, name)), [Some(false), None, None]);
        put("new");
        usage.sample();
        assert_eq!(["old", "new"].map(|name| born(&mut usage, name)), [Some(false), Some(true)]);
        put("late");
        usage.sample();
        assert_eq!(born(&mut usage, "late"), Some(false), "nobody asked at the sample before");
        assert_eq!(born(&mut usage, "new"), Some(true));
        assert!(usage.absent.is_empty());
    }
}
