//! What was there before us: one line for each target that we changed, on disk before the first write, so
//! that a withdrawn claim can be undone also after a crash (design.md 2).
//!
//! A file of JSON lines in the run directory. It is only appended to: a line records a target (the last line
//! of a target counts) or forgets it. When too many lines are dead, the living ones are written to a new file
//! that is renamed over the old one. No `fsync`: after a crash of the machine the boot id differs and nothing
//! in it is of use, and after a crash of the agent the page cache is still there.

mod line;
pub mod lock;
pub mod made;
mod own_file;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

pub use self::made::{Made, MadeEntry};
use crate::claims::claim::Owner;
use crate::claims::target::{CgroupTarget, HostFile};

/// File name in the run directory.
pub const FILE: &str = "ledger";

/// Dead lines beyond the living ones that are put up with before the file is written anew.
const DEAD_LINES: usize = 256;

/// Largest ledger that is read. Our own is written anew long before that.
const MAX_BYTES: u64 = 64 << 20;

/// Names tried for damaged pieces: `ledger.damaged.0` and so on.
const SET_ASIDE_NAMES: u32 = 64;

/// What a target held before our first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Kernel text.
    pub value: String,
    /// CFS period that belongs to a quota, in microseconds.
    pub period: Option<u64>,
}

impl Original {
    /// The period as the kernel counts it.
    pub fn period_us(&self) -> Option<i64> {
        self.period.and_then(|us| i64::try_from(us).ok())
    }
}

/// One changed target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What.
    pub target: CgroupTarget,
    /// Cgroup id that it was changed in.
    pub id: u64,
    /// Boot in which that was.
    pub boot: String,
    /// Whose claim holds it, or held it last.
    pub owner: Owner,
    /// What was there.
    pub original: Original,
    /// The claimed target for whose sake this one was changed, if nobody claims it itself.
    pub cause: Option<CgroupTarget>,
}

/// One changed setting of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// What.
    pub file: HostFile,
    /// Boot in which that was.
    pub boot: String,
    /// Whose claim holds it, or held it last.
    pub owner: Owner,
    /// The text that was there.
    pub original: String,
}

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file could not be read or made.
    #[error("cannot {doing} the ledger {path}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A damaged piece that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it is now; `None` if it could not be kept.
    pub kept_as: Option<PathBuf>,
    /// Number of lines.
    pub lines: usize,
    /// What was wrong with the first of them.
    pub what: String,
}

/// The ledger in memory and on disk.
#[derive(Debug)]
pub struct Ledger {
    entries: BTreeMap<CgroupTarget, Entry>,
    host_files: BTreeMap<HostFile, HostEntry>,
    made: BTreeMap<Made, MadeEntry>,
    disk: Option<Disk>,
}

#[derive(Debug)]
struct Disk {
    path: PathBuf,
    file: File,
    lines: usize,
    /// The last write failed, maybe half-way.
    torn: bool,
}

impl Ledger {
    /// A ledger that leaves no trace, for dry runs.
    pub fn in_memory() -> Self {
        Self { entries: BTreeMap::new(), host_files: BTreeMap::new(), made: BTreeMap::new(), disk: None }
    }

    /// A ledger whose file takes nothing, as on a full disk.
    #[cfg(test)]
    pub fn unwritable() -> io::Result<Self> {
        let path = PathBuf::from("/dev/null");
        let disk = Disk { file: File::open(&path)?, path, lines: 0, torn: false };
        Ok(Self { disk: Some(disk), ..Self::in_memory() })
    }

    /// Reads the ledger of `run_dir`, or starts one. Lines that cannot be understood are set aside under
    /// another name; the others count.
    pub fn open(run_dir: &Path) -> Result<(Self, Option<Damage>), LedgerError> {
        let path = run_dir.join(FILE);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(LedgerError::File { doing: "read", path, source }),
        };
        let read = line::read_all(&bytes);
        let damage = (!read.damaged.is_empty()).then(|| Damage {
            kept_as: set_aside(run_dir, &read.damaged),
            lines: read.damaged_lines,
            what: read.what,
        });
        let file = append_to(&path).map_err(|source| LedgerError::File {
            doing: "open",
            path: path.clone(),
            source,
        })?;
        let mut ledger = Self {
            entries: read.entries,
            host_files: read.host_files,
            made: read.made,
            disk: Some(Disk { path: path.clone(), file, lines: read.lines, torn: false }),
        };
        if damage.is_some() {
            ledger.rewrite().map_err(|source| LedgerError::File { doing: "rewrite", path, source })?;
        }
        Ok((ledger, damage))
    }

    /// The entry of a target.
    pub fn get(&self, target: &CgroupTarget) -> Option<&Entry> {
        self.entries.get(target)
    }

    /// All entries, in tree order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The entry of a setting of the host.
    pub fn host_file(&self, file: &HostFile) -> Option<&HostEntry> {
        self.host_files.get(file)
    }

    /// All entries of settings of the host.
    pub fn host_files(&self) -> impl Iterator<Item = &HostEntry> {
        self.host_files.values()
    }

    /// Records a setting of the host, as [`Self::record`] does a cgroup file. What is recorded already costs no write.
    pub fn record_host_file(&mut self, entry: HostEntry) -> io::Result<()> {
        if self.host_files.get(&entry.file) == Some(&entry) {
            return Ok(());
        }
        self.append(&line::record_host_file(&entry))?;
        self.host_files.insert(entry.file.clone(), entry);
        self.compact();
        Ok(())
    }

    /// Forgets a setting of the host, as [`Self::forget`] does a cgroup file.
    pub fn forget_host_file(&mut self, file: &HostFile) -> io::Result<()> {
        if self.host_files.remove(file).is_none() {
            return Ok(());
        }
        self.append(&line::forget_host_file(file))?;
        self.compact();
        Ok(())
    }

    /// The entry of a thing that we made.
    pub fn made(&self, made: &Made) -> Option<&MadeEntry> {
        self.made.get(made)
    }

    /// All things that we made.
    pub fn all_made(&self) -> impl Iterator<Item = &MadeEntry> {
        self.made.values()
    }

    /// Records a thing that is about to be made, as [`Self::record`] does a cgroup file. What is recorded already costs
    /// no write.
    pub fn record_made(&mut self, entry: MadeEntry) -> io::Result<()> {
        if self.made.get(&entry.made) == Some(&entry) {
            return Ok(());
        }
        self.append(&line::record_made(&entry))?;
        self.made.insert(entry.made.clone(), entry);
        self.compact();
        Ok(())
    }

    /// Forgets a thing that is gone, as [`Self::forget`] does a cgroup file.
    pub fn forget_made(&mut self, made: &Made) -> io::Result<()> {
        if self.made.remove(made).is_none() {
            return Ok(());
        }
        self.append(&line::forget_made(made))?;
        self.compact();
        Ok(())
    }

    /// Number of entries of all kinds.
    pub fn len(&self) -> usize {
        self.entries.len() + self.host_files.len() + self.made.len()
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records a target. On disk when it returns without an error; after an error nothing is recorded and
    /// the target must not be written.
    pub fn record(&mut self, entry: Entry) -> io::Result<()> {
        self.append(&line::record(&entry))?;
        self.entries.insert(entry.target.clone(), entry);
        self.compact();
        Ok(())
    }

    /// Forgets a target. If that cannot be written, the entry comes back at the next start, where it is
    /// judged again.
    pub fn forget(&mut self, target: &CgroupTarget) -> io::Result<()> {
        if self.entries.remove(target).is_none() {
            return Ok(());
        }
        self.append(&line::forget(target))?;
        self.compact();
        Ok(())
    }

    /// Forgets all entries of other boots, but for things that outlive one, and those of cgroup files for which `keep` is false.
    pub fn retain(&mut self, boot: &str, keep: impl Fn(&Entry) -> bool) -> io::Result<()> {
        let before = self.len();
        self.entries.retain(|_, entry| entry.boot == boot && keep(entry));
        self.host_files.retain(|_, entry| entry.boot == boot);
        self.made.retain(|made, entry| entry.boot == boot || made.outlives_boot());
        if self.len() == before { Ok(()) } else { self.rewrite() }
    }

    /// Whether the file is where the next start looks for it.
    pub fn is_in_place(&self) -> bool {
        self.disk.as_ref().is_none_or(|disk| own_file::is_at(&disk.file, &disk.path))
    }

    /// Writes the file anew from memory, wherever the old one went. The run directory has to be there.
    pub fn put_in_place(&mut self) -> io::Result<()> {
        self.rewrite()
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        // What a failed write has left must not become the start of a good line.
        let text = if disk.torn { format!("\n{line}") } else { line.to_owned() };
        disk.torn = true;
        disk.file.write_all(text.as_bytes())?;
        disk.torn = false;
        disk.lines += 1;
        Ok(())
    }

    /// Writes the file anew if it is mostly dead lines. A failure is no loss: the old file is complete.
    fn compact(&mut self) {
        let alive = self.len();
        if self.disk.as_ref().is_some_and(|disk| disk.lines > 2 * alive + DEAD_LINES)
            && let Err(error) = self.rewrite()
        {
            tracing::warn!(%error, "cannot compact the ledger");
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let cgroup_files = self.entries.values().map(line::record);
        let host_files = self.host_files.values().map(line::record_host_file);
        let made = self.made.values().map(line::record_made);
        let text: String = cgroup_files.chain(host_files).chain(made).collect();
        let new = disk.path.with_extension("new");
        let mut file = own_file::open(OpenOptions::new().write(true).create(true).truncate(true), &new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &disk.path)?;
        disk.file = append_to(&disk.path)?;
        disk.lines = self.entries.len() + self.host_files.len() + self.made.len();
        disk.torn = false;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    own_file::open(OpenOptions::new().append(true).create(true), path)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    own_file::open(OpenOptions::new().read(true), path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

/// Keeps damaged bytes under the first free name.
fn set_aside(run_dir: &Path, bytes: &[u8]) -> Option<PathBuf> {
    (0..SET_ASIDE_NAMES).map(|n| run_dir.join(format!("{FILE}.damaged.{n}"))).find(|path| {
        let file = own_file::open(OpenOptions::new().write(true).create_new(true), path);
        file.is_ok_and(|mut file| file.write_all(bytes).is_ok())
    })
}

#[cfg(test)]
mod tests;
