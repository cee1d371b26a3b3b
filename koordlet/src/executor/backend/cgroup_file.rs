//! Cgroup files. The only code of the agent that opens one for writing.
//!
//! Every path is opened beneath a held descriptor of its hierarchy's root, without following links, so that no
//! pod UID, container id or annotation can lead a write elsewhere. Files are never created or truncated, and
//! the root directory itself is never a target (`CgroupDir` cannot be empty).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, fstat, fstatat};

use super::Backend;
use crate::cgroup::layout::{FileLoc, Layout};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;

/// Longest text that is read from a setting's file; CPU lists of 4096 CPUs are far below.
const MAX_TEXT: u64 = 64 * 1024;

/// The cgroup file systems of a layout.
#[derive(Debug)]
pub struct CgroupFiles {
    layout: Arc<Layout>,
    /// Roots of `layout.hierarchies()`, held; `None` where one could not be opened.
    roots: Vec<Option<OwnedFd>>,
}

impl CgroupFiles {
    /// Opens the root of each hierarchy.
    pub fn new(layout: Arc<Layout>) -> Self {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let roots = layout.hierarchies().iter().map(|h| open(h.root(), flags, Mode::empty()).ok()).collect();
        Self { layout, roots }
    }

    fn locate(&self, dir: &CgroupDir, resource: Resource) -> io::Result<(BorrowedFd<'_>, FileLoc)> {
        let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
        let loc = self.layout.file(dir, resource).ok_or_else(unsupported)?;
        let root = self.roots.get(loc.hierarchy).and_then(Option::as_ref).ok_or_else(unsupported)?;
        Ok((root.as_fd(), loc))
    }

    fn open_dir(&self, dir: &CgroupDir, resource: Resource, flags: OFlag) -> io::Result<(OwnedFd, FileLoc)> {
        let (root, loc) = self.locate(dir, resource)?;
        let fd = open_beneath(root, Path::new(dir.as_str()), flags | OFlag::O_DIRECTORY)?;
        Ok((fd, loc))
    }
}

impl Backend for CgroupFiles {
    fn id(&self, dir: &CgroupDir, resource: Resource) -> io::Result<u64> {
        let (root, _) = self.locate(dir, resource)?;
        // A link would be stat'ed itself, and is no directory.
        let stat = fstatat(root, dir.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(stat.st_ino)
    }

    fn read(&self, dir: &CgroupDir, resource: Resource) -> io::Result<String> {
        let (root, loc) = self.locate(dir, resource)?;
        // Files of the kernel do not know O_NONBLOCK; anything else is not waited for.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let file = File::from(open_beneath(root, &loc.relative, flags)?);
        let mut text = String::new();
        file.take(MAX_TEXT).read_to_string(&mut text)?;
        text.truncate(text.trim_end_matches('\n').len());
        Ok(text)
    }

    fn write(&self, dir: &CgroupDir, resource: Resource, id: u64, text: &str) -> io::Result<()> {
        let (directory, loc) = self.open_dir(dir, resource, OFlag::O_PATH)?;
        if fstat(&directory)?.st_ino != id {
            return Err(Errno::ENOENT.into());
        }
        let name = loc.relative.file_name().map(Path::new).ok_or(Errno::ENOENT)?;
        let mut file = File::from(open_beneath(directory.as_fd(), name, OFlag::O_WRONLY)?);
        // An empty write would not reach the kernel's parser, a lone line break does.
        let bytes = if text.is_empty() { "\n" } else { text };
        let written = file.write(bytes.as_bytes())?;
        if written < bytes.len() {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "the kernel took a part of the text"));
        }
        Ok(())
    }

    fn children(&self, dir: &CgroupDir, resource: Resource) -> io::Result<Vec<CgroupDir>> {
        let (fd, _) = self.open_dir(dir, resource, OFlag::O_RDONLY)?;
        let mut children = Vec::new();
        for entry in Dir::from_fd(fd)?.iter() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if entry.file_type() == Some(Type::Directory)
                && !matches!(name, "." | "..")
                && let Ok(child) = dir.join(name)
            {
                children.push(child);
            }
        }
        Ok(children)
    }
}

/// Opens `path` beneath `root` without following links; never creates and never truncates.
pub(in crate::executor) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlag,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    match openat2(root, path, how) {
        Err(Errno::ENOSYS) => walk_beneath(root, path, flags),
        other => Ok(other?),
    }
}

/// The same for kernels before 5.6: part by part, each without following a link. A path has no `..`.
fn walk_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let step = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory: Option<OwnedFd> = None;
    if let Some(parent) = path.parent() {
        for part in parent.components() {
            let at = directory.as_ref().map_or(root, AsFd::as_fd);
            directory = Some(openat(at, part.as_os_str(), step, Mode::empty())?);
        }
    }
    let at = directory.as_ref().map_or(root, AsFd::as_fd);
    let name = path.file_name().ok_or(Errno::ENOENT)?;
    Ok(openat(at, name, flags | OFlag::O_NOFOLLOW, Mode::empty())?)
}

#[cfg(test)]
#[path = "cgroup_file_tests.rs"]
mod tests;
