//! The directory in which models outlive a restart (collection.md 11.2): a file a key, written beside its place and
//! renamed into it, so that it is whole or not there.
//!
//! Nothing in the directory that is not certainly a checkpoint is removed: the flag may name a directory that others
//! use. Only names that are keys are opened, so no name leads elsewhere.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::state::predict::checkpoint::Checkpoint;
use crate::state::predict::model::ModelKey;

/// What a file being written is named beyond its key.
const TMP: &str = ".tmp";
/// What a file that cannot be read is named beyond its key.
const DAMAGED: &str = ".damaged";
/// How a checkpoint begins.
const BEGINNING: &[u8] = br#"{"UID":"#;
/// Bytes of a checkpoint at most; one with each bucket filled has 6,000.
const MAX_BYTES: u64 = 64 << 10;
/// Entries of the directory that are looked at.
const MAX_ENTRIES: usize = 10_000;
/// Damaged files that are kept for whoever wants to look at them.
const MAX_DAMAGED: usize = 16;

/// The directory.
#[derive(Clone, Debug)]
pub struct CheckpointDir(PathBuf);

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Nothing can be loaded or saved.
    #[error("cannot {what} the directory {path} of checkpoints", path = .path.display())]
    Dir {
        /// What was tried.
        what: &'static str,
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// One cannot.
    #[error("cannot {what} the checkpoint {path}", path = .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// What the directory held.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Checkpoints of what is still there.
    pub checkpoints: Vec<(ModelKey, Checkpoint)>,
    /// Checkpoints of what is gone, and files half written: removed.
    pub removed: usize,
    /// Files that should have been checkpoints, and are set aside under another name, each with the reason.
    pub damaged: Vec<(PathBuf, String)>,
    /// What could not be read or removed.
    pub errors: Vec<CheckpointError>,
}

impl CheckpointDir {
    /// The directory `path`, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Reads the checkpoints of all keys that are `wanted`, and clears away those of the others. Without a directory
    /// there are none.
    ///
    /// # Errors
    /// The directory is there and cannot be listed.
    pub fn load(&self, wanted: impl Fn(&ModelKey) -> bool) -> Result<Loaded, CheckpointError> {
        let failed = |source| CheckpointError::Dir { what: "list", path: self.0.clone(), source };
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::default()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries.take(MAX_ENTRIES) {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        names.sort();
        let mut loaded = Loaded::default();
        let mut room =
            MAX_DAMAGED.saturating_sub(names.iter().filter(|name| name.ends_with(DAMAGED)).count());
        for name in &names {
            if let Some(key) = ModelKey::from_text(name) {
                self.load_one(key, &wanted, &mut loaded, &mut room);
            } else if name.strip_suffix(TMP).is_some_and(|key| ModelKey::from_text(key).is_some()) {
                self.clear_unfinished(name, &mut loaded);
            }
        }
        Ok(loaded)
    }

    /// Writes a checkpoint, whole or not at all. Makes the directory if there is none. It is not forced to the disk:
    /// one that a power cut damaged is found out when it is loaded.
    ///
    /// # Errors
    /// The directory cannot be made, or the file not be written; the one before it stays then.
    pub fn save(&self, key: &ModelKey, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let Some(path) = self.path(key) else { return Ok(()) };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(|source| CheckpointError::Dir { what: "make", path: self.0.clone(), source })?;
        let tmp = path.with_extension(TMP.trim_start_matches('.'));
        let written = write(&tmp, checkpoint).and_then(|()| fs::rename(&tmp, &path));
        written.map_err(|source| {
            // What is half written is of no use; the error that is told is the first one.
            drop(fs::remove_file(&tmp));
            CheckpointError::File { what: "write", path, source }
        })
    }

    /// Removes the checkpoint of a key, if there is one.
    ///
    /// # Errors
    /// It is there and stays there.
    pub fn remove(&self, key: &ModelKey) -> Result<(), CheckpointError> {
        self.path(key).map_or(Ok(()), |path| remove(&path))
    }

    /// Where the checkpoint of a key is; none of a key that could not be read back.
    fn path(&self, key: &ModelKey) -> Option<PathBuf> {
        let name = key.to_string();
        (ModelKey::from_text(&name).as_ref() == Some(key)).then(|| self.0.join(name))
    }

    fn load_one(
        &self,
        key: ModelKey,
        wanted: &impl Fn(&ModelKey) -> bool,
        loaded: &mut Loaded,
        room: &mut usize,
    ) {
        let path = self.0.join(key.to_string());
        let parsed = match read(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return,
            Err(source) => {
                loaded.errors.push(CheckpointError::File { what: "read", path, source });
                return;
            }
            Ok(bytes) => parse(&key, &bytes),
        };
        match (wanted(&key), parsed) {
            (true, Ok(checkpoint)) => loaded.checkpoints.push((key, checkpoint)),
            (true, Err(why)) => set_aside(path, why, loaded, room),
            (false, Ok(_)) => clear(&path, loaded),
            // Perhaps somebody else's.
            (false, Err(_)) => {}
        }
    }

    /// Removes what an agent that was killed left: nothing yet, or the beginning of a checkpoint.
    fn clear_unfinished(&self, name: &str, loaded: &mut Loaded) {
        let path = self.0.join(name);
        match read(&path) {
            Ok(bytes) if BEGINNING.starts_with(&bytes) || bytes.starts_with(BEGINNING) => {
                clear(&path, loaded);
            }
            // Perhaps somebody else's, or gone.
            _ => {}
        }
    }
}

fn parse(key: &ModelKey, bytes: &[u8]) -> Result<Checkpoint, String> {
    let checkpoint: Checkpoint = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if checkpoint.uid == key.to_string() {
        Ok(checkpoint)
    } else {
        Err(format!("it is the checkpoint of {:.140?}", checkpoint.uid))
    }
}

fn set_aside(path: PathBuf, why: String, loaded: &mut Loaded, room: &mut usize) {
    if *room == 0 {
        clear(&path, loaded);
        return;
    }
    let aside = path.with_extension(DAMAGED.trim_start_matches('.'));
    match fs::rename(&path, &aside) {
        Ok(()) => {
            *room -= 1;
            loaded.damaged.push((aside, why));
        }
        Err(source) => loaded.errors.push(CheckpointError::File { what: "set aside", path, source }),
    }
}

fn clear(path: &Path, loaded: &mut Loaded) {
    match remove(path) {
        Ok(()) => loaded.removed += 1,
        Err(error) => loaded.errors.push(error),
    }
}

fn remove(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CheckpointError::File { what: "remove", path: path.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}

/// Opens an ordinary file: no link is followed, and no pipe is waited for.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not an ordinary file")) }
}

/// The bytes of a file, as far as a checkpoint can be long; a longer one is no JSON then.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(OpenOptions::new().read(true), path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write(path: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    let bytes = serde_json::to_vec(checkpoint)?;
    open(OpenOptions::new().write(true).create(true).truncate(true), path)?.write_all(&bytes)
}

#[cfg(test)]
mod tests;
