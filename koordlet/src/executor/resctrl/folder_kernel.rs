//! A folder that stands for the resctrl file system of a machine with two caches, with the rules of the kernel
//! (`fs/resctrl`): making a group makes its files, masks and bandwidths are judged and rounded, groups are as many as
//! there are classes of service, tasks have to be alive, and those of a group that goes are the root group's again. All
//! reading is the real tree's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use nix::errno::Errno;

use super::tree::{KernelTree, Tree};
use crate::resctrl::group::ResctrlGroup;

const CBM: u64 = 0x7ff;
const MIN_BITS: u32 = 2;
const CACHES: [u32; 2] = [0, 1];
const BANDWIDTH: std::ops::RangeInclusive<u64> = 10..=100;
const STEP: u64 = 10;

/// One item a line.
pub(super) fn lines_of<T: ToString>(items: &[T]) -> String {
    let lines: Vec<String> = items.iter().map(|item| item.to_string() + "\n").collect();
    lines.concat()
}

/// What is not in the folder.
#[derive(Debug, Default)]
pub(super) struct Machine {
    /// Threads that can be moved.
    pub(super) alive: BTreeSet<u32>,
    /// How many groups there may be beside the root group.
    pub(super) closids: usize,
    /// What the next call of this name fails with.
    pub(super) faults: BTreeMap<&'static str, Errno>,
    /// Writes of each kind that the kernel took or refused.
    pub(super) calls: Vec<String>,
}

/// The file system; clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct FolderKernel {
    root: PathBuf,
    tree: Arc<KernelTree>,
    machine: Arc<Mutex<Machine>>,
}

impl FolderKernel {
    /// Not mounted yet.
    pub(super) fn new(sys_fs: &Path) -> Self {
        let root = sys_fs.join("resctrl");
        fs::create_dir_all(&root).unwrap();
        let machine = Machine { closids: 3, ..Machine::default() };
        Self { root, tree: Arc::new(KernelTree::new(sys_fs)), machine: Arc::new(Mutex::new(machine)) }
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap()
    }

    /// Calls since the last look.
    pub(super) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.machine().calls)
    }

    #[expect(clippy::disallowed_methods, reason = "a folder that stands for the kernel's own file system")]
    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A group's lines, as others may write them.
    pub(super) fn put_lines(&self, group: &str, l3: u64, mb: u64) {
        let line = |value: &dyn Fn() -> String| CACHES.map(|cache| format!("{cache}={}", value())).join(";");
        let (l3, mb) = (line(&|| format!("{l3:03x}")), line(&|| format!("{mb:4}")));
        self.put(&format!("{group}/schemata"), &format!("    L3:{l3}\n    MB:{mb}\n"));
    }

    /// Makes a directory with the files of a group.
    pub(super) fn put_group(&self, group: &str) {
        self.put_lines(group, CBM, 100);
        self.put(&format!("{group}/tasks"), "");
    }

    pub(super) fn threads_of(&self, group: &str) -> Vec<u32> {
        let text = fs::read_to_string(self.root.join(group).join("tasks")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn put_threads(&self, group: &str, threads: &[u32]) {
        let text = lines_of(threads);
        self.put(&format!("{group}/tasks"), &text);
    }

    fn called(&self, what: &'static str, of: &str) -> io::Result<()> {
        let mut machine = self.machine();
        machine.calls.push(format!("{what} {of}"));
        match machine.faults.remove(what) {
            Some(errno) => Err(errno.into()),
            None => Ok(()),
        }
    }

    fn refuse(&self, status: &str, errno: Errno) -> io::Error {
        self.put("info/last_cmd_status", &format!("{status}\n"));
        errno.into()
    }

    /// Judges `L3:0=f;1=f;\n` as the kernel does.
    fn judge(&self, text: &str) -> Result<(String, BTreeMap<u32, u64>), io::Error> {
        let invalid = |status: &str| self.refuse(status, Errno::EINVAL);
        let line = text.strip_suffix('\n').ok_or_else(|| invalid("no line break"))?;
        let (name, values) = line.split_once(':').ok_or_else(|| invalid("Missing ':'"))?;
        let mut judged = BTreeMap::new();
        for pair in values.split(';').filter(|pair| !pair.is_empty()) {
            let (cache, value) =
                pair.split_once('=').ok_or_else(|| invalid("Missing '=' or non-numeric domain"))?;
            let cache: u32 = cache.parse().map_err(|_| invalid("Missing '=' or non-numeric domain"))?;
            if !CACHES.contains(&cache) {
                return Err(invalid("Unknown domain"));
            }
            let value = match name {
                "L3" => self.judge_mask(value)?,
                "MB" => self.judge_bandwidth(value)?,
                _ => return Err(invalid("Unknown or unsupported resource name")),
            };
            judged.insert(cache, value);
        }
        Ok((name.to_owned(), judged))
    }

    fn judge_mask(&self, text: &str) -> io::Result<u64> {
        let invalid = |status: String| self.refuse(&status, Errno::EINVAL);
        let mask = u64::from_str_radix(text, 16)
            .map_err(|_| invalid(format!("Non-hex character in the mask {text}")))?;
        if mask == 0 || mask > CBM {
            return Err(invalid("Mask out of range".to_owned()));
        }
        let bits = mask >> mask.trailing_zeros();
        if bits & (bits + 1) != 0 {
            return Err(invalid(format!("The mask {mask:x} has non-consecutive 1-bits")));
        }
        if mask.count_ones() < MIN_BITS {
            return Err(invalid(format!("Need at least {MIN_BITS} bits in the mask")));
        }
        Ok(mask)
    }

    fn judge_bandwidth(&self, text: &str) -> io::Result<u64> {
        let invalid = |status: String| self.refuse(&status, Errno::EINVAL);
        let value: u64 = text.parse().map_err(|_| invalid(format!("Invalid MB value {text}")))?;
        if !BANDWIDTH.contains(&value) {
            return Err(invalid(format!("MB value {value} out of range [10,100]")));
        }
        Ok(value.next_multiple_of(STEP))
    }
}

impl Tree for FolderKernel {
    fn is_mounted(&self) -> bool {
        self.tree.is_mounted()
    }

    fn mount(&self) -> io::Result<()> {
        self.called("mount", "")?;
        self.put("info/L3/cbm_mask", "7ff\n");
        self.put("info/L3/min_cbm_bits", "2\n");
        self.put("info/MB/min_bandwidth", "10\n");
        self.put("info/last_cmd_status", "ok\n");
        self.put_group(".");
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.tree.names()
    }

    fn make(&self, group: &ResctrlGroup) -> io::Result<()> {
        self.called("make", group.name())?;
        let groups = self.names()?.iter().filter(|name| *name != "info").count();
        if groups >= self.machine().closids {
            return Err(self.refuse("Out of CLOSIDs", Errno::ENOSPC));
        }
        self.tree.make(group)?;
        self.put_group(group.name());
        Ok(())
    }

    fn remove(&self, group: &ResctrlGroup) -> io::Result<()> {
        self.called("remove", group.name())?;
        let folder = self.root.join(group.name());
        for file in ["schemata", "tasks"] {
            let _there = fs::remove_file(folder.join(file)).is_ok();
        }
        self.tree.remove(group)
    }

    fn schemata(&self, group: Option<&ResctrlGroup>) -> io::Result<String> {
        self.tree.schemata(group)
    }

    fn write_line(&self, group: &ResctrlGroup, text: &str) -> io::Result<()> {
        self.called("line", &format!("{group} {}", text.trim_end()))?;
        let (name, judged) = self.judge(text)?;
        let old = self.schemata(Some(group))?;
        let mut lines = BTreeMap::new();
        for line in old.lines() {
            let (resource, values) = line.trim().split_once(':').unwrap();
            lines.insert(resource.to_owned(), values.to_owned());
        }
        let old = lines.remove(&name).ok_or_else(|| self.refuse("Unknown resource", Errno::EINVAL))?;
        let values = old.split(';').map(|pair| {
            let (cache, value) = pair.split_once('=').unwrap();
            let new = judged.get(&cache.parse().unwrap()).map(|value| match name.as_str() {
                "L3" => format!("{value:03x}"),
                _ => format!("{value:4}"),
            });
            format!("{cache}={}", new.unwrap_or_else(|| value.to_owned()))
        });
        lines.insert(name.clone(), values.collect::<Vec<_>>().join(";"));
        let lines: Vec<String> = lines.iter().map(|(name, values)| format!("    {name}:{values}")).collect();
        let text = lines_of(&lines);
        // As by the real one: the file is there and is never made.
        self.tree.write_line(group, "")?;
        self.put(&format!("{group}/schemata"), &text);
        Ok(())
    }

    fn tasks(&self, group: &ResctrlGroup) -> io::Result<String> {
        self.tree.tasks(group)
    }

    fn move_tasks(
        &self,
        group: &ResctrlGroup,
        threads: &[u32],
        outcome: &mut dyn FnMut(u32, io::Result<()>),
    ) -> io::Result<()> {
        for thread in threads {
            let moved = self.called("move", &thread.to_string()).and_then(|()| {
                if !self.machine().alive.contains(thread) {
                    return Err(self.refuse(&format!("No task {thread}"), Errno::ESRCH));
                }
                for name in self.names()?.iter().filter(|name| *name != "info") {
                    let left = self.threads_of(name).into_iter().filter(|other| other != thread);
                    self.put_threads(name, &left.collect::<Vec<_>>());
                }
                let mut inside = self.threads_of(group.name());
                inside.push(*thread);
                self.put_threads(group.name(), &inside);
                Ok(())
            });
            outcome(*thread, moved);
        }
        Ok(())
    }

    fn last_status(&self) -> String {
        self.tree.last_status()
    }
}
