//! The ring buffer, drained: records -> events for the agent, and births and deaths for the CPU accounts.

use std::sync::{Arc, Mutex, PoisonError};

use aya::maps::{MapData, RingBuf};
use koordlet_common::record::Decoded;
use tokio::io::unix::AsyncFd;

use super::events::{CgroupEvent, EventSender, WatchedDirs};
use super::losses::Losses;
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;

/// A birth or death in the usage hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageEvent {
    /// A group was made.
    Born {
        /// Its id.
        id: u64,
        /// Its path.
        dir: CgroupDir,
    },
    /// A group was removed, wherever it was.
    Died {
        /// Its id.
        id: u64,
    },
}

/// What the CPU accounts have not looked at yet. Bounded: when it overflows they scan the tree instead.
#[derive(Debug, Default)]
pub struct UsageFeed(Mutex<Pending>);

/// What [`UsageFeed::take`] gives.
#[derive(Debug, Default)]
pub struct Pending {
    /// In order.
    pub events: Vec<UsageEvent>,
    /// Some are missing.
    pub lost: bool,
}

const FEED_CAPACITY: usize = 65_536;

impl UsageFeed {
    fn push(&self, event: UsageEvent) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.events.len() < FEED_CAPACITY {
            pending.events.push(event);
        } else {
            pending.lost = true;
        }
    }

    fn lost(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lost = true;
    }

    /// Takes all that is pending.
    pub fn take(&self) -> Pending {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sorts records: which are events for the agent, which concern the accounts.
pub struct Sorter {
    /// Hierarchy id -> controllers and mounted part.
    pub layout: Arc<Layout>,
    /// The hierarchy of the CPU accounts and their feed.
    pub usage: Option<(u32, Arc<UsageFeed>)>,
    /// What the agent wants to hear of.
    pub watched: WatchedDirs,
    /// To the agent.
    pub sender: EventSender,
}

impl Sorter {
    /// Takes one record, as bytes from the ring.
    pub fn record(&mut self, bytes: &[u8]) {
        let Some(record) = Decoded::from_bytes(bytes) else {
            return self.lost(1);
        };
        let feed = self.usage.as_ref().filter(|(id, _)| *id == record.hierarchy).map(|(_, feed)| feed);
        if !record.born
            && let Some(feed) = feed
        {
            feed.push(UsageEvent::Died { id: record.id });
        }
        if record.truncated {
            return self.lost(1);
        }
        // On v1 the tracepoint fires in each hierarchy, also in those with no controller of ours.
        let Some(hierarchy) = self.layout.hierarchy_of_id(record.hierarchy) else { return };
        // Kubernetes' names are ASCII: another path is none of ours.
        let Some(dir) =
            std::str::from_utf8(record.path).ok().and_then(|path| hierarchy.dir_of_kernel_path(path))
        else {
            return;
        };
        if record.born
            && let Some(feed) = feed
        {
            feed.push(UsageEvent::Born { id: record.id, dir: dir.clone() });
        }
        if self.watched.contains(&dir) {
            let (controllers, id) = (hierarchy.controllers().to_vec(), record.id);
            self.sender.send(if record.born {
                CgroupEvent::Born { controllers, id, dir }
            } else {
                CgroupEvent::Died { controllers, id, dir }
            });
        }
    }

    /// Says that `count` records never came.
    pub fn lost(&mut self, count: u64) {
        if let Some((_, feed)) = &self.usage {
            feed.lost();
        }
        self.sender.lost(count);
    }
}

/// Drains the ring for as long as the task lives.
pub async fn run(mut ring: AsyncFd<RingBuf<MapData>>, losses: Arc<Losses>, mut sorter: Sorter) {
    let mut known_losses = 0;
    loop {
        tokio::select! {
            ready = ring.readable_mut() => {
                let mut guard = match ready {
                    Ok(guard) => guard,
                    Err(error) => {
                        tracing::error!(%error, "waiting for cgroup events failed: none will come");
                        return;
                    }
                };
                while let Some(record) = guard.get_inner_mut().next() {
                    sorter.record(&record);
                }
                guard.clear_ready();
                let now = losses.events();
                if now != known_losses {
                    sorter.lost(now.wrapping_sub(known_losses));
                    known_losses = now;
                }
            }
            () = sorter.sender.flush(), if sorter.sender.has_pending() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use koordlet_common::record::{BORN, CgroupRecord, DIED};

    use super::*;
    use crate::cgroup::resource::Controller;

    fn record(kind: u32, hierarchy: u32, id: u64, path: &str) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<CgroupRecord>()];
        bytes[..8].copy_from_slice(&id.to_ne_bytes());
        let len = u32::try_from(path.len()).unwrap();
        for (at, value) in [(16, hierarchy), (20, 1), (24, kind), (28, len)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[32..32 + path.len()].copy_from_slice(path.as_bytes());
        bytes
    }

    /// A v1 host with three hierarchies of ours; the folders need not exist.
    fn layout(proc: &std::path::Path) -> Layout {
        use std::io::Write;
        let cgroup = proc.join("cgroup");
        std::fs::create_dir_all(proc.join("self")).unwrap();
        std::fs::create_dir_all(&cgroup).unwrap();
        let file = |name: &str, text: &str| {
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).open(proc.join("self").join(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mount = |id: u32, controllers: &str| {
            format!(
                "{id} 1 0:{id} / {}/{controllers} rw - cgroup cgroup rw,{controllers}\n",
                cgroup.display()
            )
        };
        file("mountinfo", &[mount(31, "cpu"), mount(32, "cpuacct"), mount(33, "pids")].concat());
        file("cgroup", "1:cpu:/\n2:cpuacct:/\n5:pids:/\n9:name=systemd:/\n");
        let roots =
            crate::host::roots::Roots { cgroup, proc: proc.to_owned(), ..crate::host::roots::Roots::host() };
        Layout::detect(&roots).unwrap()
    }

    fn sorter() -> (Sorter, tokio::sync::mpsc::Receiver<CgroupEvent>, Arc<UsageFeed>) {
        let (sender, receiver, _) = EventSender::channel(8);
        let feed = Arc::new(UsageFeed::default());
        let sorter = Sorter {
            layout: Arc::new(layout(tempfile::tempdir().unwrap().path())),
            usage: Some((2, feed.clone())),
            watched: WatchedDirs::new([CgroupDir::new("kubepods").unwrap()]),
            sender,
        };
        (sorter, receiver, feed)
    }

    /// c150: the same path in several hierarchies gives one event for each of ours, and one account.
    #[test]
    fn c150_each_hierarchy_has_its_own_event_and_the_accounts_hear_of_one() {
        let (mut sorter, mut receiver, feed) = sorter();
        for (hierarchy, id) in [(1, 10), (2, 20), (9, 90), (5, 50)] {
            sorter.record(&record(BORN, hierarchy, id, "/kubepods/pod1"));
        }
        sorter.record(&record(BORN, 1, 11, "/system.slice/x"));
        let dir = CgroupDir::new("kubepods/pod1").unwrap();
        let born = |controller, id| CgroupEvent::Born { controllers: vec![controller], id, dir: dir.clone() };
        assert_eq!(receiver.try_recv().ok(), Some(born(Controller::Cpu, 10)));
        assert_eq!(receiver.try_recv().ok(), Some(born(Controller::Cpuacct, 20)));
        assert!(receiver.try_recv().is_err());
        assert_eq!(feed.take().events, [UsageEvent::Born { id: 20, dir }]);
    }

    #[test]
    fn deaths_reach_the_accounts_from_everywhere_and_cut_paths_are_losses() {
        let (mut sorter, mut receiver, feed) = sorter();
        sorter.record(&record(DIED, 2, 5, "/system.slice/x"));
        sorter.record(&record(BORN, 2, 6, &"/kubepods/".repeat(51)));
        assert_eq!(receiver.try_recv().ok(), None);
        let mut cut = record(BORN, 1, 7, "/kubepods/x");
        cut[28..32].copy_from_slice(&511u32.to_ne_bytes());
        sorter.record(&cut);
        sorter.record(&[1, 2, 3]);
        assert_eq!(receiver.try_recv().ok(), Some(CgroupEvent::Lost { count: 1 }));
        let pending = feed.take();
        assert_eq!(pending.events.first(), Some(&UsageEvent::Died { id: 5 }));
        assert!(pending.lost);
    }
}
