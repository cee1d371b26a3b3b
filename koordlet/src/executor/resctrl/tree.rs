//! How the keeper of resctrl reaches the kernel: one trait, so that tests can stand a folder with the kernel's rules
//! behind it, and the real file system.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::executor::backend::cgroup_file::open_beneath;
use crate::host::text_file;
use crate::resctrl::group::ResctrlGroup;

/// The resctrl file system.
pub(in crate::executor) trait Tree: Send {
    /// Whether it is mounted.
    fn is_mounted(&self) -> bool;

    /// Mounts it.
    fn mount(&self) -> io::Result<()>;

    /// Names of the directories beside the root group's own files, groups among them.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes a group.
    fn make(&self, group: &ResctrlGroup) -> io::Result<()>;

    /// Removes a group; its tasks are the root group's again.
    fn remove(&self, group: &ResctrlGroup) -> io::Result<()>;

    /// The schemata of a group, `None` for the root group.
    fn schemata(&self, group: Option<&ResctrlGroup>) -> io::Result<String>;

    /// Writes one line of a group's schemata.
    fn write_line(&self, group: &ResctrlGroup, text: &str) -> io::Result<()>;

    /// The threads of a group, one id a line.
    fn tasks(&self, group: &ResctrlGroup) -> io::Result<String>;

    /// Moves threads into a group, one write each, and hands over what became of each.
    fn move_tasks(
        &self,
        group: &ResctrlGroup,
        threads: &[u32],
        outcome: &mut dyn FnMut(u32, io::Result<()>),
    ) -> io::Result<()>;

    /// What the kernel says of its last refusal, in words; empty if nothing.
    fn last_status(&self) -> String;
}

/// The file system at `<sys_fs>/resctrl`. Everything is opened beneath it without following links.
#[derive(Debug)]
pub(in crate::executor) struct KernelTree {
    root: PathBuf,
}

impl KernelTree {
    /// Beneath `--sys-fs-root-dir`.
    pub(in crate::executor) fn new(sys_fs: &Path) -> Self {
        Self { root: sys_fs.join("resctrl") }
    }

    /// Opened anew each time: what is mounted later hides what was held before.
    fn root(&self) -> io::Result<OwnedFd> {
        Ok(open(&self.root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
    }

    fn open_to_write(&self, group: &ResctrlGroup, name: &str) -> io::Result<File> {
        let path = Path::new(group.name()).join(name);
        // Files of the kernel do not know O_NONBLOCK; anything else is not waited for.
        let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK;
        Ok(File::from(open_beneath(self.root()?.as_fd(), &path, flags)?))
    }
}

impl Tree for KernelTree {
    fn is_mounted(&self) -> bool {
        self.root.join("schemata").is_file() && self.root.join("info").is_dir()
    }

    fn mount(&self) -> io::Result<()> {
        Ok(mount(Some("resctrl"), &self.root, Some("resctrl"), MsFlags::MS_RELATIME, None::<&str>)?)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn make(&self, group: &ResctrlGroup) -> io::Result<()> {
        Ok(mkdirat(self.root()?, group.name(), Mode::from_bits_truncate(0o755))?)
    }

    fn remove(&self, group: &ResctrlGroup) -> io::Result<()> {
        Ok(unlinkat(self.root()?, group.name(), UnlinkatFlags::RemoveDir)?)
    }

    fn schemata(&self, group: Option<&ResctrlGroup>) -> io::Result<String> {
        let folder = group.map_or_else(|| self.root.clone(), |group| self.root.join(group.name()));
        text_file::read(&folder.join("schemata"))
    }

    fn write_line(&self, group: &ResctrlGroup, text: &str) -> io::Result<()> {
        write_whole(&mut self.open_to_write(group, "schemata")?, text)
    }

    fn tasks(&self, group: &ResctrlGroup) -> io::Result<String> {
        text_file::read(&self.root.join(group.name()).join("tasks"))
    }

    fn move_tasks(
        &self,
        group: &ResctrlGroup,
        threads: &[u32],
        outcome: &mut dyn FnMut(u32, io::Result<()>),
    ) -> io::Result<()> {
        let mut file = self.open_to_write(group, "tasks")?;
        for thread in threads {
            outcome(*thread, write_whole(&mut file, &format!("{thread}\n")));
        }
        Ok(())
    }

    fn last_status(&self) -> String {
        let text = text_file::read(&self.root.join("info/last_cmd_status")).unwrap_or_default();
        Some(text.trim()).filter(|text| *text != "ok").unwrap_or_default().to_owned()
    }
}

/// One write; the kernel takes a text whole or not at all.
fn write_whole(file: &mut File, text: &str) -> io::Result<()> {
    let written = file.write(text.as_bytes())?;
    if written == text.len() { Ok(()) } else { Err(Errno::EIO.into()) }
}
