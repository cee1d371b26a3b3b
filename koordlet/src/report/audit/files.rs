//! The log's files on disk: appended to, rotated, kept within their space, and found again after a restart or
//! after others removed or moved them. An error leaves everything so that the next attempt can succeed.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::file_name::{CURRENT, RotatedName, SET_ASIDE};
use super::stamp::file_time;
use super::stats::{AuditStats, add};

/// Size at which a file is rotated, collection.md 13.1.
const MAX_FILE: u64 = 2 << 20;
/// Most bytes of one write.
const MAX_CHUNK: usize = 64 << 10;
/// Names tried for what is set aside, the first one that can be taken.
const SET_ASIDE_NAMES: usize = 10;
/// Mode of the directory.
const DIR_MODE: u32 = 0o755;
/// Mode of a file.
const FILE_MODE: u32 = 0o640;
/// A directory that everybody may write to, such as `/tmp`: its mode is not ours to set.
const STICKY: u32 = 0o1000;

/// How much room the files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of one file.
    pub file: u64,
    /// Files, the current one among them.
    pub files: usize,
}

impl Room {
    /// The room within `mib` MiB: files of 2 MiB, and always one beside the current one.
    pub fn of_mib(mib: u64) -> Self {
        let bytes = mib.max(2).saturating_mul(1 << 20);
        let files = usize::try_from(bytes / MAX_FILE).unwrap_or(usize::MAX).max(2);
        Self { file: MAX_FILE.min(bytes / 2), files }
    }

    fn bytes(self) -> u64 {
        self.file.saturating_mul(self.files as u64)
    }
}

/// The files of one directory.
#[derive(Debug)]
pub struct LogFiles {
    dir: PathBuf,
    room: Room,
    open: Option<Current>,
    /// Whether it was told that an old file cannot be removed.
    told_stuck: bool,
    stats: Arc<AuditStats>,
}

#[derive(Debug)]
struct Current {
    file: File,
    len: u64,
}

impl LogFiles {
    /// The files in `dir`. Nothing is touched yet.
    pub fn new(dir: PathBuf, room: Room, stats: Arc<AuditStats>) -> Self {
        Self { dir, room, open: None, told_stuck: false, stats }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes lines, each with its line break, and takes them off the front of `lines`. What is left after an
    /// error is to be tried again later.
    pub fn append(&mut self, lines: &mut VecDeque<Vec<u8>>, now: SystemTime) -> io::Result<()> {
        while let Some(first) = lines.front().map(Vec::len) {
            let len = self.ready()?.len;
            if len > 0 && len.saturating_add(first as u64) > self.room.file {
                self.rotate(now)?;
                continue;
            }
            let (count, bytes) = chunk(lines, self.room.file.saturating_sub(len));
            self.write(&bytes)?;
            lines.drain(..count);
            add(&self.stats.written, count);
            add(&self.stats.bytes, bytes.len());
        }
        Ok(())
    }

    /// Opens what is not open, sees whether it is still in its place, and makes the directory.
    pub fn open(&mut self) -> io::Result<()> {
        self.ready().map(|_| ())
    }

    fn ready(&mut self) -> io::Result<&mut Current> {
        let path = self.dir.join(CURRENT);
        let held = self.open.take().and_then(|current| current.in_place(&path));
        let current = match held {
            Some(current) => current,
            None => self.open_current(&path)?,
        };
        Ok(self.open.insert(current))
    }

    fn open_current(&mut self, path: &Path) -> io::Result<Current> {
        self.make_dir()?;
        let (file, len) = match open_log(path) {
            Err(_) if is_no_file(path) => {
                self.set_aside(path, "it is not an ordinary file")?;
                open_log(path)?
            }
            Err(error) => return Err(error),
            Ok((file, len)) if len > 0 && byte_at(&file, 0)? != b'{' => {
                drop(file);
                self.set_aside(path, "it does not begin with an event")?;
                open_log(path)?
            }
            Ok(opened) => opened,
        };
        let mut current = Current { file, len };
        if current.len > 0 && byte_at(&current.file, current.len - 1)? != b'\n' {
            current.write(b"\n")?;
            add(&self.stats.damage, 1);
            tracing::info!(path = %path.display(), "the last line of the audit log was cut short; it is ended");
        }
        let rotated = rotated_names(&self.dir)?;
        self.prune(&rotated);
        Ok(current)
    }

    fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(&self.dir)?;
        let mode = fs::metadata(&self.dir)?.mode() & 0o7777;
        if mode != DIR_MODE && mode & STICKY == 0 {
            fs::set_permissions(&self.dir, Permissions::from_mode(DIR_MODE))?;
        }
        Ok(())
    }

    /// Keeps what is no log under another name: the newest one, so that it cannot fill the disk.
    fn set_aside(&self, path: &Path, why: &str) -> io::Result<()> {
        let names = (0..SET_ASIDE_NAMES).map(|n| match n {
            0 => SET_ASIDE.to_owned(),
            n => format!("{SET_ASIDE}.{n}"),
        });
        let mut failed = None;
        for aside in names.map(|name| self.dir.join(name)) {
            // A directory gives way to no file, and one with something in it to nothing.
            if let Err(error) = fs::rename(path, &aside) {
                failed.get_or_insert(error);
                continue;
            }
            add(&self.stats.damage, 1);
            tracing::warn!(path = %path.display(), kept_as = %aside.display(), "the audit log is set aside: {why}");
            return Ok(());
        }
        failed.map_or(Ok(()), Err)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(current) = &mut self.open else { return Err(io::Error::other("the file is not open")) };
        let written = current.write(bytes);
        if written.is_err() {
            // Opened again, its end is looked at, too.
            self.open = None;
        }
        written
    }

    fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        let mut names = rotated_names(&self.dir)?;
        let next = RotatedName::next(file_time(now), names.last());
        fs::rename(self.dir.join(CURRENT), self.dir.join(next.to_string()))?;
        self.open = None;
        add(&self.stats.rotations, 1);
        names.push(next);
        self.prune(&names);
        Ok(())
    }

    /// Removes the oldest of `rotated` until the rest fits beside a current file. One that cannot be removed is told of
    /// once and holds up nothing: the others still make room. What is no ordinary file is not ours.
    fn prune(&mut self, rotated: &[RotatedName]) {
        let (mut files, mut bytes) = (1, self.room.file);
        for name in rotated.iter().rev() {
            let path = self.dir.join(name.to_string());
            // One that is gone takes no space.
            let meta = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
            let Some(size) = meta.map(|meta| meta.len()) else { continue };
            files += 1;
            bytes = bytes.saturating_add(size);
            if (files > self.room.files || bytes > self.room.bytes())
                && let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
                && !std::mem::replace(&mut self.told_stuck, true)
            {
                tracing::warn!(path = %path.display(), %error, "an old audit log cannot be removed");
            }
        }
    }
}

impl Current {
    /// Itself with its present length, if the path still leads to it.
    fn in_place(mut self, path: &Path) -> Option<Self> {
        let (held, there) = (self.file.metadata().ok()?, fs::symlink_metadata(path).ok()?);
        self.len = held.len();
        ((held.dev(), held.ino()) == (there.dev(), there.ino())).then_some(self)
    }

    /// Writes all or nothing, as far as the disk lets us.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.len = self.len.saturating_add(bytes.len() as u64);
                Ok(())
            }
            Err(error) => {
                // Without it a line is cut short, which is mended when the file is opened again.
                if let Err(why) = self.file.set_len(self.len) {
                    tracing::debug!(%why, "a piece of the audit log stays");
                }
                Err(error)
            }
        }
    }
}

/// Opens a log for appending, with its length. Never follows a link and never waits.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(FILE_MODE);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() { Ok((file, meta.len())) } else { Err(io::Error::other("it is not an ordinary file")) }
}

fn is_no_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file())
}

fn byte_at(file: &File, at: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    Ok(byte[0])
}

/// The lines at the front that fit into `room` and one write, at least one, and how many they are.
fn chunk(lines: &VecDeque<Vec<u8>>, room: u64) -> (usize, Vec<u8>) {
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_CHUNK);
    let (mut count, mut bytes) = (0, Vec::new());
    for line in lines {
        if count > 0 && bytes.len() + line.len() > room {
            break;
        }
        bytes.extend_from_slice(line);
        count += 1;
    }
    (count, bytes)
}

/// Names of the rotated files in a directory, the oldest first; none if it is not there.
pub fn rotated_names(dir: &Path) -> io::Result<Vec<RotatedName>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().to_str().and_then(RotatedName::parse));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests;
