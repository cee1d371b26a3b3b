//! Text files of kernel and kubelet, read so that no file can hold up or fill the agent: whatever lies at the path
//! (a FIFO without a writer, a device without an end), the answer comes at once and has a bound.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::libc;

/// Longest text that is taken. The longest that a kernel shows, the list of a group's tasks, stays below it with a
/// million of them.
pub const MAX_BYTES: usize = 16 << 20;

/// Opens for reading, without waiting for anybody at the other end.
pub fn open(path: &Path) -> io::Result<File> {
    // Files of the kernel and on disks do not know these two.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// The whole text.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    read_into(path, &mut text)?;
    Ok(text)
}

/// The whole text in place of what `text` holds, whose memory is used again. After a failure it is empty.
pub fn read_into(path: &Path, text: &mut String) -> io::Result<()> {
    text.clear();
    let read = open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_string(text));
    match read {
        Ok(_) if text.len() <= MAX_BYTES => Ok(()),
        failed => {
            *text = String::new();
            Err(failed.err().unwrap_or_else(too_long))
        }
    }
}

/// The error for a text beyond the bound.
pub fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {} MiB", MAX_BYTES >> 20))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn nothing_at_a_path_holds_up_the_reader() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        assert_eq!(read(&fifo).unwrap(), "", "nobody writes");
        let silent = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        assert_eq!(read(&fifo).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(silent);
        assert_eq!(read(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let looped = dir.path().join("loop");
        std::os::unix::fs::symlink("loop", &looped).unwrap();
        assert!(read(&looped).is_err());
    }

    #[test]
    fn a_file_without_an_end_is_an_error_and_leaves_no_memory_behind() {
        let mut text = String::new();
        let error = read_into(Path::new("/dev/zero"), &mut text).unwrap_err();
        assert_eq!((error.kind(), text.capacity()), (io::ErrorKind::FileTooLarge, 0));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"a 1\n").unwrap();
        read_into(file.path(), &mut text).unwrap();
        assert_eq!(text, "a 1\n");
        file.write_all(b"\xff").unwrap();
        assert_eq!(read_into(file.path(), &mut text).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(text, "");
    }
}
