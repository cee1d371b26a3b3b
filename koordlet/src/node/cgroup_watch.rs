//! Births and deaths of cgroups seen with inotify: the fall-back for the eBPF tracepoints, with the same events.
//!
//! In each hierarchy the watched directories, their class and their pod directories are watched; what lies deeper
//! in a container is not. A directory is listed after its watch is set, so that what was made in between is seen.
//! A watch dies with its directory: the one above tells when it is made again. Nothing need exist at start.
//! Where inotify has no instance or no watch left for us, the directories are looked at every other second.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use tokio::io::unix::AsyncFd;
use tokio::time::MissedTickBehavior;

use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;
use crate::ebpf::events::{CgroupEvent, EventSender, WatchedDirs};
use crate::ebpf::pod_unit::names_a_pod;
use crate::sys::readable;

/// The watcher; [`run`](Self::run) it.
pub struct CgroupWatch {
    /// `None` where the kernel has no instance left.
    inotify: Option<AsyncFd<Source>>,
    hierarchies: Vec<Hierarchy>,
    watched: WatchedDirs,
    sender: EventSender,
    /// What each watch is on.
    places: HashMap<WatchDescriptor, Place>,
    /// Directories whose finds make no events: what is there when a watch begins is not born.
    quiet: Vec<CgroupDir>,
    /// Watched directories that have been looked at.
    begun: Vec<CgroupDir>,
    /// Some directory could not be watched at the last look.
    unwatched: bool,
    told: bool,
}

struct Hierarchy {
    root: PathBuf,
    controllers: Vec<Controller>,
    /// Directories that exist, with their cgroup ids.
    known: BTreeMap<CgroupDir, u64>,
    /// Watches set; `None` is the root.
    watches: HashMap<Option<CgroupDir>, WatchDescriptor>,
}

/// A directory of one hierarchy; `dir` is `None` at its root.
#[derive(Clone, Debug)]
struct Place {
    hierarchy: usize,
    dir: Option<CgroupDir>,
}

/// Levels watched below a watched directory: class, then pod.
const LEVELS: usize = 2;

const BUFFER: usize = 16 * 1024;

/// Between two looks at what cannot be watched.
const POLL: Duration = Duration::from_secs(2);

impl CgroupWatch {
    /// Sets the watches. Must be called inside a tokio runtime.
    pub fn new(layout: &Layout, watched: WatchedDirs, sender: EventSender) -> Self {
        let inotify = Inotify::init().and_then(|inotify| readable(Source(inotify)));
        let inotify = inotify.inspect_err(|error| {
            tracing::warn!(
                %error,
                "no inotify for cgroup directories: raise fs.inotify.max_user_instances; births are seen \
                 within {} s",
                POLL.as_secs()
            );
        });
        Self::with(inotify.ok(), layout, watched, sender)
    }

    fn with(
        inotify: Option<AsyncFd<Source>>,
        layout: &Layout,
        watched: WatchedDirs,
        sender: EventSender,
    ) -> Self {
        let hierarchies = layout.hierarchies().iter().map(|hierarchy| Hierarchy {
            root: hierarchy.root().to_owned(),
            controllers: hierarchy.controllers().to_vec(),
            known: BTreeMap::new(),
            watches: HashMap::new(),
        });
        let mut watch = Self {
            inotify,
            hierarchies: hierarchies.collect(),
            watched,
            sender,
            places: HashMap::new(),
            quiet: Vec::new(),
            begun: Vec::new(),
            unwatched: false,
            told: false,
        };
        watch.begin();
        watch
    }

    /// Follows the directories for as long as the task lives.
    pub async fn run(mut self) {
        let mut buffer = vec![0; BUFFER];
        let watched = self.watched.clone();
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                happened = next(&mut self.inotify, &mut buffer) => match happened {
                    Ok(happened) => happened.into_iter().for_each(|event| self.take(event)),
                    Err(error) => {
                        tracing::error!(%error, "waiting for inotify failed: cgroups are looked at instead");
                        self.inotify = None;
                    }
                },
                () = watched.added() => self.begin(),
                () = self.sender.flush(), if self.sender.has_pending() => {}
                _ = poll.tick(), if self.unwatched || self.inotify.is_none() => {
                    self.look_everywhere();
                }
            }
        }
    }

    fn take(&mut self, happened: Happened) {
        if happened.mask.contains(EventMask::Q_OVERFLOW) {
            // Whatever was missed is found by looking; the agent is told that it may have missed a birth that is
            // over by now.
            self.sender.lost(1);
            self.look_everywhere();
            return;
        }
        if happened.mask.contains(EventMask::IGNORED) {
            if let Some(place) = self.places.remove(&happened.watch)
                && let Some(hierarchy) = self.hierarchies.get_mut(place.hierarchy)
                && hierarchy.watches.get(&place.dir) == Some(&happened.watch)
            {
                hierarchy.watches.remove(&place.dir);
            }
            return;
        }
        let Some(place) = self.places.get(&happened.watch).cloned() else { return };
        let Some(dir) = happened.name.and_then(|name| inner(place.dir.as_ref(), &name)) else { return };
        if happened.mask.contains(EventMask::DELETE) {
            self.gone(place.hierarchy, &dir);
        } else if happened.mask.contains(EventMask::CREATE) {
            self.appeared(place.hierarchy, &dir, None);
        }
    }

    /// Looks at watched directories for the first time.
    fn begin(&mut self) {
        let all = self.watched.all();
        self.quiet = all.iter().filter(|dir| !self.begun.contains(dir)).cloned().collect();
        self.look_everywhere();
        self.quiet.clear();
        self.begun = all;
    }

    fn look_everywhere(&mut self) {
        self.unwatched = false;
        for hierarchy in 0..self.hierarchies.len() {
            self.look(hierarchy, None);
        }
    }

    /// Watches a directory, then compares what is in it with what is known.
    fn look(&mut self, hierarchy: usize, dir: Option<&CgroupDir>) {
        if !self.is_watched(dir) {
            return;
        }
        let Some(path) = self.path(hierarchy, dir) else { return };
        self.watch(hierarchy, dir, &path);
        let Ok(entries) = std::fs::read_dir(&path) else { return };
        let mut present = BTreeMap::new();
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = entry.file_name();
            if let Some(inner) = name.to_str().and_then(|name| inner(dir, name)) {
                present.insert(inner, entry.ino());
            }
        }
        let Some(known) = self.hierarchies.get(hierarchy).map(|hierarchy| &hierarchy.known) else { return };
        let missing: Vec<_> = known
            .keys()
            .filter(|k| k.parent().as_ref() == dir && !present.contains_key(*k))
            .cloned()
            .collect();
        for dir in missing {
            self.gone(hierarchy, &dir);
        }
        for (inner, id) in present {
            self.appeared(hierarchy, &inner, Some(id));
        }
    }

    fn appeared(&mut self, hierarchy: usize, dir: &CgroupDir, id: Option<u64>) {
        if !self.concerns(dir) {
            return;
        }
        let id = id.or_else(|| std::fs::metadata(self.path(hierarchy, Some(dir))?).ok().map(|m| m.ino()));
        // It is gone again, and its deletion is on its way.
        let Some(id) = id else { return };
        let known = self.hierarchies.get(hierarchy).and_then(|hierarchy| hierarchy.known.get(dir)).copied();
        if known.is_some_and(|known| known != id) {
            self.gone(hierarchy, dir);
        }
        let is_quiet = self.quiet.iter().any(|quiet| quiet.contains(dir));
        if known != Some(id)
            && let Some(place) = self.hierarchies.get_mut(hierarchy)
        {
            place.known.insert(dir.clone(), id);
            if !is_quiet && self.watched.contains(dir) {
                let controllers = place.controllers.clone();
                self.sender.send(CgroupEvent::Born { controllers, id, dir: dir.clone() });
            }
        }
        self.look(hierarchy, Some(dir));
    }

    /// Forgets a directory and all beneath it, deepest first.
    fn gone(&mut self, hierarchy: usize, dir: &CgroupDir) {
        let Some(place) = self.hierarchies.get_mut(hierarchy) else { return };
        let mut inside: Vec<CgroupDir> =
            place.known.keys().filter(|known| dir.contains(known)).cloned().collect();
        inside.sort_by_key(|dir| std::cmp::Reverse(dir.depth()));
        for dir in inside {
            let Some(id) = place.known.remove(&dir) else { continue };
            if let Some(watch) = place.watches.remove(&Some(dir.clone())) {
                self.places.remove(&watch);
                // The kernel drops it with the directory; where a path was reused the old one is in the way.
                drop(self.inotify.as_ref().map(|inotify| inotify.get_ref().0.watches().remove(watch)));
            }
            if self.watched.contains(&dir) {
                let controllers = place.controllers.clone();
                self.sender.send(CgroupEvent::Died { controllers, id, dir });
            }
        }
    }

    fn watch(&mut self, hierarchy: usize, dir: Option<&CgroupDir>, path: &Path) {
        let Some(place) = self.hierarchies.get_mut(hierarchy) else { return };
        let dir = dir.cloned();
        if place.watches.contains_key(&dir) {
            return;
        }
        let mask = WatchMask::CREATE | WatchMask::DELETE | WatchMask::ONLYDIR;
        let Some(inotify) = &self.inotify else { return };
        match inotify.get_ref().0.watches().add(path, mask) {
            Ok(watch) => {
                place.watches.insert(dir.clone(), watch.clone());
                self.places.insert(watch, Place { hierarchy, dir });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.unwatched = true;
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(
                        %error,
                        path = %path.display(),
                        "a cgroup directory cannot be watched, as maybe others: raise \
                         fs.inotify.max_user_watches; births there are seen within {} s",
                        POLL.as_secs()
                    );
                }
            }
        }
    }

    /// Whether a directory is on the way to a watched one, is one, or lies in one.
    fn concerns(&self, dir: &CgroupDir) -> bool {
        self.watched.all().iter().any(|root| root.contains(dir) || dir.contains(root))
    }

    /// Whether births in a directory are wanted: it is on the way to a watched one, or at most a pod's.
    fn is_watched(&self, dir: Option<&CgroupDir>) -> bool {
        let Some(dir) = dir else { return true };
        self.watched.all().iter().any(|root| {
            if dir != root && dir.contains(root) {
                return true;
            }
            let mut above =
                std::iter::successors(dir.parent(), CgroupDir::parent).take_while(|d| root.contains(d));
            root.contains(dir)
                && dir.depth() <= root.depth() + LEVELS
                && !above.any(|d| names_a_pod(d.name()))
        })
    }

    fn path(&self, hierarchy: usize, dir: Option<&CgroupDir>) -> Option<PathBuf> {
        let root = &self.hierarchies.get(hierarchy)?.root;
        Some(dir.map_or_else(|| root.clone(), |dir| root.join(dir.as_str())))
    }
}

/// inotify with a borrowed descriptor, as tokio wants it.
struct Source(Inotify);

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Source {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

struct Happened {
    watch: WatchDescriptor,
    mask: EventMask,
    name: Option<String>,
}

/// Waits for events; for ever without inotify.
async fn next(inotify: &mut Option<AsyncFd<Source>>, buffer: &mut [u8]) -> io::Result<Vec<Happened>> {
    let Some(inotify) = inotify else { return std::future::pending().await };
    let mut guard = inotify.readable_mut().await?;
    let happened = read(&mut guard.get_inner_mut().0, buffer);
    if happened.is_none() {
        guard.clear_ready();
    }
    Ok(happened.unwrap_or_default())
}

/// Reads what is there; `None` when nothing is.
fn read(inotify: &mut Inotify, buffer: &mut [u8]) -> Option<Vec<Happened>> {
    let events = inotify.read_events(buffer).ok()?;
    Some(
        events
            .map(|event| Happened {
                watch: event.wd,
                mask: event.mask,
                name: event.name.and_then(|name| name.to_str()).map(str::to_owned),
            })
            .collect(),
    )
}

fn inner(dir: Option<&CgroupDir>, name: &str) -> Option<CgroupDir> {
    match dir {
        Some(dir) => dir.join(name).ok(),
        None => CgroupDir::new(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn births_and_deaths_are_found_without_inotify() {
        let root = tempfile::tempdir().unwrap();
        let path = |dir: &str| root.path().join("cpu").join(dir);
        fs::create_dir_all(path("kubepods/besteffort")).unwrap();
        let layout = Layout::of_folder(root.path()).unwrap();
        let watched = WatchedDirs::new([CgroupDir::new("kubepods").unwrap()]);
        let (sender, mut events, _) = EventSender::channel(16);
        let running = tokio::spawn(CgroupWatch::with(None, &layout, watched, sender).run());
        fs::create_dir_all(path("kubepods/besteffort/pod1/c")).unwrap();
        let mut born = Vec::new();
        while born.len() < 2 {
            let CgroupEvent::Born { dir, .. } = events.recv().await.unwrap() else { panic!("{born:?}") };
            born.push(dir.to_string());
        }
        assert_eq!(born, ["kubepods/besteffort/pod1", "kubepods/besteffort/pod1/c"]);
        fs::remove_dir(path("kubepods/besteffort/pod1/c")).unwrap();
        let died = events.recv().await.unwrap();
        assert!(matches!(&died, CgroupEvent::Died { dir, .. } if dir.name() == "c"), "{died:?}");
        running.abort();
    }
}
