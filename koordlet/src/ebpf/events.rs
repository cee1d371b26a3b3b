//! Cgroup events in user space, whoever saw them (eBPF ring buffer or inotify), and the channel that they travel in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{Notify, mpsc};

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;

/// Something that happened to a cgroup directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupEvent {
    /// A directory was made in the hierarchy of `controllers`.
    Born {
        /// Controllers of the hierarchy (several when co-mounted; all of them on v2). Only those that we read
        /// or write; never empty.
        controllers: Vec<Controller>,
        /// Cgroup id in that hierarchy (the directory's inode number).
        id: u64,
        /// Its path in the hierarchy.
        dir: CgroupDir,
    },
    /// A directory was removed.
    Died {
        /// Controllers of the hierarchy.
        controllers: Vec<Controller>,
        /// Cgroup id in that hierarchy.
        id: u64,
        /// Its path in the hierarchy.
        dir: CgroupDir,
    },
    /// Events were lost: rescan.
    Lost {
        /// How many, as far as known.
        count: u64,
    },
}

/// Directories whose births and deaths are wanted, with all beneath them. Shared: whoever learns of another one
/// (a host application's) adds it.
#[derive(Clone, Debug, Default)]
pub struct WatchedDirs {
    dirs: Arc<RwLock<Vec<CgroupDir>>>,
    added: Arc<Notify>,
}

impl WatchedDirs {
    /// Watches `dirs`.
    pub fn new(dirs: impl IntoIterator<Item = CgroupDir>) -> Self {
        Self { dirs: Arc::new(RwLock::new(dirs.into_iter().collect())), ..Self::default() }
    }

    /// Watches one more.
    pub fn add(&self, dir: CgroupDir) {
        let mut dirs = self.dirs.write().unwrap_or_else(PoisonError::into_inner);
        if !dirs.contains(&dir) {
            dirs.push(dir);
            self.added.notify_one();
        }
    }

    /// Waits until one was added since the last call.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Whether `dir` is one of them or lies beneath one.
    pub fn contains(&self, dir: &CgroupDir) -> bool {
        self.dirs.read().unwrap_or_else(PoisonError::into_inner).iter().any(|watched| watched.contains(dir))
    }

    /// All of them.
    pub fn all(&self) -> Vec<CgroupDir> {
        self.dirs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The sending side of the event channel. It never waits: what does not fit is counted, and said with one
/// [`CgroupEvent::Lost`] as soon as there is room, so that the reader of the kernel's queue is never stuck.
#[derive(Debug)]
pub struct EventSender {
    channel: mpsc::Sender<CgroupEvent>,
    pending: u64,
    dropped: Arc<AtomicU64>,
}

impl EventSender {
    /// A channel of `capacity` events, and the count of events that did not fit.
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<CgroupEvent>, Arc<AtomicU64>) {
        let (channel, receiver) = mpsc::channel(capacity.max(1));
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { channel, pending: 0, dropped: dropped.clone() }, receiver, dropped)
    }

    /// Sends, or counts the event as lost.
    pub fn send(&mut self, event: CgroupEvent) {
        if self.pending == 0 && self.channel.try_send(event).is_ok() {
            return;
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.lost(1);
    }

    /// Says that `count` events were lost before they came here.
    pub fn lost(&mut self, count: u64) {
        self.pending = self.pending.saturating_add(count);
        if self.channel.try_send(CgroupEvent::Lost { count: self.pending }).is_ok() {
            self.pending = 0;
        }
    }

    /// Whether a loss waits to be said.
    pub fn has_pending(&self) -> bool {
        self.pending > 0 && !self.channel.is_closed()
    }

    /// Waits for room and says the pending loss. Safe to drop half-way.
    pub async fn flush(&mut self) {
        if let Ok(permit) = self.channel.reserve().await {
            permit.send(CgroupEvent::Lost { count: std::mem::take(&mut self.pending) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(path: &str) -> CgroupDir {
        CgroupDir::new(path).unwrap()
    }

    fn born(id: u64) -> CgroupEvent {
        CgroupEvent::Born { controllers: vec![Controller::Cpu], id, dir: dir("kubepods/x") }
    }

    /// c148: a full queue never blocks the producer, and the consumer hears once how much it missed.
    #[tokio::test]
    async fn c148_a_full_queue_ends_in_one_lost_event() {
        let (mut sender, mut receiver, dropped) = EventSender::channel(128);
        for id in 0..1000 {
            sender.send(born(id));
        }
        assert!(sender.has_pending());
        let mut read = 0;
        for _ in 0..128 {
            assert!(matches!(receiver.recv().await, Some(CgroupEvent::Born { .. })));
            read += 1;
        }
        sender.flush().await;
        assert_eq!(receiver.recv().await, Some(CgroupEvent::Lost { count: 1000 - read }));
        assert_eq!(dropped.load(Ordering::Relaxed), 872);
        sender.send(born(7));
        assert_eq!(receiver.recv().await, Some(born(7)));
    }

    #[test]
    fn a_watched_directory_has_all_beneath_it() {
        let watched = WatchedDirs::new([dir("a/kubepods")]);
        watched.add(dir("host-best-effort"));
        assert!(watched.contains(&dir("a/kubepods")) && watched.contains(&dir("a/kubepods/pod1/c")));
        assert!(watched.contains(&dir("host-best-effort/x")));
        assert!(!watched.contains(&dir("a")) && !watched.contains(&dir("a/kubepods2")));
    }
}
