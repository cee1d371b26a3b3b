//! How the executor reaches tasks: one trait, so that a stand-in for a kernel with core scheduling can take the host's
//! place, and the host itself.
//!
//! The agent's own process is never handed out, whatever directory it is in; nor is a process of another PID namespace,
//! whose number reads 0, which would mean the caller in a system call.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::cookies::CookieKernel;
use super::scores::{Origin, ScoreKernel};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;
use crate::executor::backend::cgroup_file::open_beneath;
use crate::host::text_file;
use crate::sys;

/// File of a directory's processes, in every hierarchy.
const PROCESSES: &str = "cgroup.procs";

/// Stack of the thread that hands a cookie on: it makes system calls alone.
const STACK: usize = 64 * 1024;

/// Processes of directories, and their attributes.
pub trait TaskBackend: CookieKernel + ScoreKernel + Send {
    /// The processes of a directory, in the kernel's order, those beneath it and the agent itself not counted.
    ///
    /// # Errors
    /// ENOENT or ENODEV where the directory is not there (any more).
    fn pids(&self, dir: &CgroupDir) -> io::Result<Vec<Pid>>;
}

/// The host's tasks: `cgroup.procs` of the hierarchy with the cpu controller, procfs, and `prctl`.
#[derive(Debug)]
pub struct HostTasks {
    /// Root of that hierarchy, held; `None` where it could not be opened.
    root: Option<OwnedFd>,
    proc: PathBuf,
    own: Pid,
}

impl HostTasks {
    /// Opens the root of the hierarchy.
    pub fn new(layout: &Layout, proc: &Path) -> Self {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = layout.hierarchy_root(Controller::Cpu);
        let root = root.and_then(|root| open(root, flags, Mode::empty()).ok());
        Self { root, proc: proc.to_owned(), own: Pid::this() }
    }

    fn file(&self, pid: Pid, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }
}

impl TaskBackend for HostTasks {
    fn pids(&self, dir: &CgroupDir) -> io::Result<Vec<Pid>> {
        let root = self.root.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let path = Path::new(dir.as_str()).join(PROCESSES);
        let file = File::from(open_beneath(root.as_fd(), &path, OFlag::O_RDONLY | OFlag::O_NONBLOCK)?);
        let mut text = String::new();
        file.take(text_file::MAX_BYTES as u64).read_to_string(&mut text)?;
        let pids = text.lines().filter_map(|line| line.parse().ok()).map(Pid::from_raw);
        Ok(pids.filter(|pid| pid.as_raw() > 0 && *pid != self.own).collect())
    }
}

impl CookieKernel for HostTasks {
    fn cookie(&self, pid: Pid) -> io::Result<u64> {
        sys::core_sched_cookie(Some(pid))
    }

    fn create_cookie(&self, pid: Pid) -> io::Result<()> {
        sys::create_core_sched_cookie(pid)
    }

    /// A cookie can only be handed on by a thread that has it: one is made for that, and ends with it.
    fn share_cookie(&self, from: Option<Pid>, to: &[Pid]) -> io::Result<Vec<io::Result<()>>> {
        let hand_on = || {
            match from {
                Some(from) => sys::share_core_sched_cookie_from(from)?,
                // A new thread has its maker's cookie.
                None if sys::core_sched_cookie(None)? != 0 => {
                    return Err(io::Error::other("the agent itself has a cookie: it has to be a SYSTEM pod"));
                }
                None => {}
            }
            Ok(to.iter().map(|pid| sys::share_core_sched_cookie_to(*pid)).collect())
        };
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("cookie".to_owned()).stack_size(STACK);
            let ended = builder.spawn_scoped(scope, hand_on)?.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("the thread that hands a cookie on failed")))
        })
    }
}

impl ScoreKernel for HostTasks {
    fn score(&self, pid: Pid) -> io::Result<i32> {
        let text = text_file::read(&self.file(pid, "oom_score_adj"))?;
        text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn set_score(&self, pid: Pid, score: i32) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        options.open(self.file(pid, "oom_score_adj"))?.write_all(score.to_string().as_bytes())
    }

    fn origin(&self, pid: Pid) -> io::Result<Origin> {
        let text = text_file::read(&self.file(pid, "stat"))?;
        origin(&text).ok_or_else(|| Errno::EINVAL.into())
    }
}

/// Parent and start of a process from the text of its `stat`; its name may hold anything, so fields count from the last
/// bracket.
fn origin(stat: &str) -> Option<Origin> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let parent = Pid::from_raw(fields.nth(1)?.parse().ok()?);
    Some(Origin { parent, started: fields.nth(17)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processs_parent_and_start_are_told_whatever_its_name() {
        let stat = "7 (a) b) 1 (c) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 456789 10 20";
        assert_eq!(origin(stat), Some(Origin { parent: Pid::from_raw(3), started: 456_789 }));
        assert_eq!(origin("7 (a) S 3"), None);
        assert_eq!(origin(""), None);
        let host = HostTasks { root: None, proc: "/proc".into(), own: Pid::this() };
        assert_eq!(host.origin(Pid::this()).unwrap().parent, Pid::parent());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn neither_the_agent_nor_another_namespaces_process_is_handed_out() {
        let folder = tempfile::tempdir().unwrap();
        let pod = folder.path().join("cpu/kubepods/pod1");
        std::fs::create_dir_all(&pod).unwrap();
        let own = std::process::id();
        std::fs::write(pod.join(PROCESSES), format!("1\n0\n{own}\n-3\n7\n")).unwrap();
        let host = HostTasks::new(&Layout::of_folder(folder.path()).unwrap(), Path::new("/proc"));
        let pids = host.pids(&CgroupDir::new("kubepods/pod1").unwrap()).unwrap();
        assert_eq!(pids, [1, 7].map(Pid::from_raw));
        let gone = host.pids(&CgroupDir::new("kubepods/pod2").unwrap()).unwrap_err();
        assert!(crate::executor::backend::is_gone(&gone));
    }

    /// Whatever this kernel can do: without core scheduling each call is an error and nothing happens.
    #[test]
    fn cookies_of_this_kernel_are_told_or_refused() {
        let host = HostTasks { root: None, proc: "/proc".into(), own: Pid::this() };
        let supported = sys::core_sched_cookie(None).is_ok();
        assert_eq!(host.cookie(Pid::this()).is_ok(), supported);
        if supported {
            println!("this kernel has core scheduling");
            assert!(host.share_cookie(None, &[]).is_ok_and(|answers| answers.is_empty()));
        } else {
            assert!(host.create_cookie(Pid::this()).is_err());
            assert!(host.share_cookie(Some(Pid::this()), &[Pid::this()]).is_err());
            assert!(host.share_cookie(None, &[Pid::this()]).is_err());
        }
        assert_eq!(host.cookie(Pid::from_raw(0)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(host.create_cookie(Pid::from_raw(-1)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
