//! One look at the directory: which files changed, reading those, joining all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tracing::{error, info, warn};

use super::bounds::MAX_FILE_BYTES;
use super::merge::{FileSet, ManifestUpdate};
use super::parse::parse_file;
use crate::sys::trim_heap;

/// Most manifest files that are followed.
const MAX_FILES: usize = 4096;

/// How often in a row a file may change while it is read before it is taken as it is.
const MAX_UNSTABLE: u8 = 10;

/// A file from this size on leaves so much free memory behind that it is given back to the system at once: a
/// parse takes several times the file, and most of that is fragments which nothing uses again.
const LARGE_FILE: usize = 1 << 20;

/// Which files to read although they look unchanged: two writes within one tick of the file system's clock
/// leave the same times.
#[derive(Debug)]
pub enum Force {
    /// These.
    Names(BTreeSet<OsString>),
    /// All.
    All,
}

impl Force {
    fn covers(&self, name: &OsStr) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.contains(name),
        }
    }
}

/// What tells two versions of a file apart without reading it.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

fn stamp(meta: &Metadata) -> Stamp {
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    (meta.dev(), meta.ino(), meta.size(), times.0, times.1, times.2, times.3)
}

#[derive(Debug, Default)]
struct Seen {
    stamp: Option<Stamp>,
    content: Option<u64>,
    /// The last failure to read, so that it is logged once.
    failure: Option<io::ErrorKind>,
    /// How often in a row it changed while it was read.
    unstable: u8,
}

/// What a look at the directory found, beside the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Some file changed while it was read, or has to be seen twice before it is: look again soon.
    pub again: bool,
    /// Some manifest is a link to a place outside the directory, whose changes no event tells.
    pub links_elsewhere: bool,
}

/// Follows the files of one directory.
#[derive(Debug)]
pub struct Scanner {
    directory: PathBuf,
    node_name: String,
    seen: BTreeMap<OsString, Seen>,
    files: FileSet,
    told_lost: Vec<String>,
    told_many: bool,
}

impl Scanner {
    /// A scanner that has seen nothing.
    pub fn new(directory: PathBuf, node_name: String) -> Self {
        let (seen, files) = (BTreeMap::new(), FileSet::default());
        Self { directory, node_name, seen, files, told_lost: Vec::new(), told_many: false }
    }

    /// Looks at every manifest of the directory and reads those that changed, except those for which `skip`
    /// holds. With `twice`, a changed file is read only when two looks find it alike (there is no event that
    /// says when a writer is done). An error means that the directory cannot be listed: nothing is changed.
    pub fn look(&mut self, force: &Force, skip: impl Fn(&OsStr) -> bool, twice: bool) -> io::Result<Look> {
        let names = self.list()?;
        let mut look = Look::default();
        for name in self.seen.keys().filter(|name| !names.contains(*name)).cloned().collect::<Vec<_>>() {
            self.forget(&name);
        }
        for name in &names {
            let path = self.directory.join(name);
            look.links_elsewhere |= fs::read_link(&path).is_ok_and(|target| !target.starts_with("..data"));
            if skip(name) {
                continue;
            }
            match self.look_at(name, &path, force.covers(name), twice) {
                Ok(again) => look.again |= again,
                Err(failure) if failure.kind() == io::ErrorKind::NotFound => self.forget(name),
                Err(failure) => self.keep_unreadable(name, &failure),
            }
        }
        Ok(look)
    }

    /// All objects in force.
    pub fn update(&mut self) -> ManifestUpdate {
        let (update, lost) = self.files.join();
        if lost != self.told_lost {
            for line in &lost {
                warn!("manifests: {line}");
            }
            self.told_lost = lost;
        }
        update
    }

    fn list(&mut self) -> io::Result<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            if is_manifest(&name) {
                names.insert(name);
            }
        }
        let many = names.len() > MAX_FILES;
        if many && !self.told_many {
            error!(directory = %self.directory.display(), "only the first {MAX_FILES} manifest files are followed");
        }
        self.told_many = many;
        Ok(names.into_iter().take(MAX_FILES).collect())
    }

    /// Reads one file if it changed. Whether it has to be looked at again.
    fn look_at(&mut self, name: &OsStr, path: &Path, force: bool, twice: bool) -> io::Result<bool> {
        let before = fs::metadata(path)?;
        if !before.is_file() {
            self.forget(name);
            return Ok(false);
        }
        let now = stamp(&before);
        let seen = self.seen.entry(name.to_owned()).or_default();
        if seen.stamp == Some(now) && !force && !(twice && seen.content.is_none()) {
            return Ok(false);
        }
        if twice && seen.stamp != Some(now) {
            seen.stamp = Some(now);
            seen.content = None;
            return Ok(true);
        }
        let (bytes, after) = read(path)?;
        seen.failure = None;
        if stamp(&after) != now && seen.unstable < MAX_UNSTABLE {
            seen.unstable += 1;
            seen.stamp = None;
            return Ok(true);
        }
        seen.unstable = 0;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let content = Some(hasher.finish());
        seen.stamp = Some(now);
        if seen.content != content {
            seen.content = content;
            self.take(name, path, &bytes);
            if bytes.len() >= LARGE_FILE {
                drop(bytes);
                trim_heap();
            }
        }
        Ok(false)
    }

    fn take(&mut self, name: &OsStr, path: &Path, bytes: &[u8]) {
        let parsed = parse_file(path, bytes, &self.node_name);
        for error in &parsed.errors {
            error!("{error}");
        }
        let file = path.display();
        if let Some(first) = parsed.ignored.first() {
            info!(%file, objects = parsed.ignored.len(), first, "objects are left out");
        }
        let is_bad = !parsed.errors.is_empty();
        let objects = parsed.objects.len();
        let kept = self.files.put(name, parsed);
        if is_bad {
            warn!(%file, kept, objects, "the file has errors; its last good objects stay in force");
        } else {
            info!(%file, objects, "manifest file read");
        }
    }

    fn forget(&mut self, name: &OsStr) {
        if self.seen.remove(name).is_some_and(|seen| seen.content.is_some()) {
            info!(file = %self.directory.join(name).display(), "manifest file removed");
        }
        self.files.remove(name);
    }

    fn keep_unreadable(&mut self, name: &OsStr, failure: &io::Error) {
        let seen = self.seen.entry(name.to_owned()).or_default();
        if seen.failure != Some(failure.kind()) {
            let file = self.directory.join(name);
            warn!(file = %file.display(), %failure, "cannot read; its last good objects stay in force");
        }
        seen.failure = Some(failure.kind());
        seen.stamp = None;
    }
}

/// `*.yaml`, `*.yml` and `*.json`; hidden files are editors' and ConfigMaps' business.
pub fn is_manifest(name: &OsStr) -> bool {
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    !is_hidden && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// The file's bytes, one more than allowed at most, and its state after reading. Never waits, whatever the
/// name has become.
fn read(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let mut options = OpenOptions::new();
    let file: File = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    let mut bytes = Vec::new();
    (&file).take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, file.metadata()?))
}
