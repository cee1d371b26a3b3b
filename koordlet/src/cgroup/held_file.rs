//! A cgroup file that is kept open and read again with `pread` into a buffer that is used again: one system
//! call a reading, no allocation. Who holds how many is the reader's affair.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::layout::Layout;
use super::path::CgroupDir;
use super::resource::Resource;
use super::value::{Value, ValueError};
use crate::host::text_file;

/// First size of a buffer; the longest statistics of a group fit.
const FIRST_SIZE: usize = 8192;

/// Whether an error only says that the group or task is gone: ENOENT on open, ENODEV on a held file, ESRCH
/// for a task (C053).
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ENODEV | Errno::ESRCH | Errno::ENOTDIR)
    )
}

/// Whether an error says that the kernel has the file without the feature: pressure with `psi=0` (C072).
pub fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw) == Some(Errno::EOPNOTSUPP)
}

/// Memory that readings share.
#[derive(Debug, Default)]
pub struct ReadBuffer(Vec<u8>);

/// An open file.
#[derive(Debug)]
pub struct HeldFile(File);

impl HeldFile {
    /// Opens for reading; `None` if it is not there.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        match text_file::open(path) {
            Err(error) if is_gone(&error) => Ok(None),
            other => other.map(|file| Some(Self(file))),
        }
    }

    /// The whole text of a file that the kernel shows in one piece (every statistic and setting); `None` if
    /// the group is gone. One system call, unless the text is longer than the buffer.
    pub fn read<'b>(&self, buffer: &'b mut ReadBuffer) -> io::Result<Option<&'b str>> {
        // Such a text ends with a line break, and a piece that fills its buffer is grown before it is shown.
        read_until(&self.0, buffer, |text| text.ends_with(b"\n"))
    }

    /// The whole text of a list that the kernel shows in pieces (tasks, processes); `None` if the group is
    /// gone. A short piece is not the end (C067).
    pub fn read_list<'b>(&self, buffer: &'b mut ReadBuffer) -> io::Result<Option<&'b str>> {
        read_until(&self.0, buffer, |_| false)
    }
}

/// Reads from the start until the end of file, or until a piece did not fill the buffer and `is_whole` holds.
fn read_until<'b>(
    file: &impl FileExt,
    ReadBuffer(buffer): &'b mut ReadBuffer,
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Option<&'b str>> {
    if buffer.is_empty() {
        buffer.resize(FIRST_SIZE, 0);
    }
    let mut length = 0;
    loop {
        if length > text_file::MAX_BYTES {
            *buffer = Vec::new();
            return Err(text_file::too_long());
        }
        if length == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let Some(free) = buffer.get_mut(length..) else { break };
        match file.read_at(free, length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        if length < buffer.len() && buffer.get(..length).is_some_and(&is_whole) {
            break;
        }
    }
    let text = buffer.get(..length).unwrap_or_default();
    std::str::from_utf8(text).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Why a setting could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The kernel did not give it.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Its text is not a value.
    #[error("cannot use {}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: ValueError,
    },
}

impl Layout {
    /// Opens the file that tells what is in effect for `resource` in `dir`; `None` if the host has no such
    /// resource or the directory is gone.
    pub fn open(&self, dir: &CgroupDir, resource: Resource) -> Result<Option<HeldFile>, ReadError> {
        let loc = self.effective_file(dir, resource);
        let Some(path) = loc.and_then(|loc| self.path(&loc)) else { return Ok(None) };
        HeldFile::open(&path).map_err(|source| ReadError::Io { path, source })
    }

    /// Reads one setting as it was written (not as it is in effect); `None` like `open`.
    pub fn read_value(
        &self,
        dir: &CgroupDir,
        resource: Resource,
        buffer: &mut ReadBuffer,
    ) -> Result<Option<Value>, ReadError> {
        let loc = self.file(dir, resource);
        let Some(path) = loc.and_then(|loc| self.path(&loc)) else { return Ok(None) };
        let text = HeldFile::open(&path).and_then(|file| match file {
            Some(file) => file.read(buffer),
            None => Ok(None),
        });
        match text {
            Err(source) => Err(ReadError::Io { path, source }),
            Ok(None) => Ok(None),
            Ok(Some(text)) => {
                self.parse(resource, text).map(Some).map_err(|source| ReadError::Value { path, source })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;

    use super::*;

    /// A file that gives its text in pieces of the given lengths, then the given error or the end.
    struct Pieces {
        text: &'static [u8],
        lengths: RefCell<Vec<usize>>,
        end: Option<Errno>,
    }

    impl FileExt for Pieces {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = &self.text[usize::try_from(offset).unwrap()..];
            match (self.lengths.borrow_mut().pop(), self.end) {
                (None, Some(errno)) => Err(errno.into()),
                (piece, _) => {
                    let count = piece.unwrap_or(rest.len()).min(rest.len()).min(into.len());
                    into[..count].copy_from_slice(&rest[..count]);
                    Ok(count)
                }
            }
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn pieces(text: &'static str, lengths: &[usize], end: Option<Errno>) -> Pieces {
        Pieces { text: text.as_bytes(), lengths: RefCell::new(lengths.to_vec()), end }
    }

    #[test]
    fn c067_a_short_piece_is_not_the_end() {
        let text = "usage_usec 5\nnr_periods 1\n";
        let mut buffer = ReadBuffer::default();
        let whole = |text: &[u8]| text.ends_with(b"\n");
        let file = pieces(text, &[5, 10], None);
        assert_eq!(read_until(&file, &mut buffer, whole).unwrap(), Some(text), "cut within a line");
        let file = pieces(text, &[1, 13], None);
        assert_eq!(read_until(&file, &mut buffer, |_| false).unwrap(), Some(text), "a list, cut at a line");
    }

    #[test]
    fn c053_a_held_file_of_a_removed_group_is_gone_and_other_errors_are_told() {
        let mut buffer = ReadBuffer::default();
        for errno in [Errno::ENODEV, Errno::ENOENT, Errno::ESRCH] {
            assert_eq!(read_until(&pieces("", &[], Some(errno)), &mut buffer, |_| true).unwrap(), None);
        }
        let error = read_until(&pieces("", &[], Some(Errno::EIO)), &mut buffer, |_| true).unwrap_err();
        assert!(!is_gone(&error) && !is_unsupported(&error));
        let error = read_until(&pieces("", &[], Some(Errno::EOPNOTSUPP)), &mut buffer, |_| true).unwrap_err();
        assert!(is_unsupported(&error), "c072");
        assert!(HeldFile::open(Path::new("/no-such/file")).unwrap().is_none());
    }

    #[test]
    fn a_file_is_read_again_from_its_start_whatever_its_length() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let held = HeldFile::open(file.path()).unwrap().unwrap();
        let mut buffer = ReadBuffer::default();
        assert_eq!(held.read(&mut buffer).unwrap(), Some(""));
        let long = "x".repeat(3 * FIRST_SIZE) + "\n";
        file.write_all(long.as_bytes()).unwrap();
        assert_eq!(held.read(&mut buffer).unwrap(), Some(long.as_str()));
        file.as_file().set_len(2).unwrap();
        assert_eq!(held.read(&mut buffer).unwrap(), Some("xx"));
        assert_eq!(held.read_list(&mut buffer).unwrap(), Some("xx"));
    }

    #[test]
    fn a_file_without_an_end_is_an_error_and_a_pipe_is_not_waited_for() {
        let mut buffer = ReadBuffer::default();
        let held = HeldFile::open(Path::new("/dev/zero")).unwrap().unwrap();
        assert_eq!(held.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(buffer.0.capacity(), 0, "its memory is given back");
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("memory.stat");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let held = HeldFile::open(&pipe).unwrap().unwrap();
        assert!(held.read(&mut buffer).is_err());
    }

    #[test]
    fn settings_are_read_through_the_layout() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("cpu/kubepods")).unwrap();
        let mut file = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(folder.path().join("cpu/kubepods/cpu.shares"))
            .unwrap();
        file.write_all(b"1024\n").unwrap();
        let layout = Layout::of_folder(folder.path()).unwrap();
        let mut buffer = ReadBuffer::default();
        let mut read =
            |dir, resource| layout.read_value(&CgroupDir::new(dir).unwrap(), resource, &mut buffer);
        let shares = read("kubepods", Resource::CpuShares).unwrap().unwrap();
        assert_eq!(shares.to_string(), "1024");
        assert!(read("kubepods", Resource::CfsQuota).unwrap().is_none(), "no such file");
        assert!(read("kubepods", Resource::Cpus).unwrap().is_none(), "no such controller");
        file.write_all(b"junk").unwrap();
        let error = read("kubepods", Resource::CpuShares).unwrap_err();
        assert!(error.to_string().contains("cpu.shares"), "{error}");
    }
}
