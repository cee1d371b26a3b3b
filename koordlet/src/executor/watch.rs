//! One inotify watch on each managed cgroup directory, so that what others write is known at once and by file
//! name, and nothing is polled (design.md 4, "Others write too"). Own writes are reported too; the engine
//! knows them by their value.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;

/// Room for events of one read; a burst larger than that takes several.
const BUFFER: usize = 16 * 1024;

/// A directory in one hierarchy (index in `Layout::hierarchies`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index of the hierarchy.
    pub hierarchy: usize,
    /// Directory in it.
    pub dir: CgroupDir,
}

/// What happened in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// Somebody wrote to a file, maybe we.
    Modified {
        /// Where.
        place: Place,
        /// Name of the file.
        name: String,
    },
    /// The directory was removed, and the watch with it.
    Removed {
        /// Where.
        place: Place,
    },
    /// Events were lost: everything has to be read again.
    Overflow,
}

/// Keeps watches. The engine's seam: tests without a kernel watch nothing.
pub trait Watch: Send {
    /// Watches a directory; nothing happens if it is watched already.
    fn add(&mut self, place: &Place) -> io::Result<()>;
    /// Stops watching a directory.
    fn remove(&mut self, place: &Place);
    /// Whether a directory is watched.
    fn watches(&self, place: &Place) -> bool;
    /// All watched places.
    fn places(&self) -> Vec<Place>;
    /// What has happened since the last call, without waiting.
    fn drain(&mut self) -> io::Result<Vec<FileEvent>>;
    /// What to wait on for more.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// Watches by inotify.
#[derive(Debug)]
pub struct InotifyWatch {
    inotify: Inotify,
    layout: Arc<Layout>,
    by_place: BTreeMap<Place, WatchDescriptor>,
    by_descriptor: HashMap<WatchDescriptor, Place>,
}

impl InotifyWatch {
    /// Opens an inotify instance; an error if the user's limit of instances is reached.
    pub fn new(layout: Arc<Layout>) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        Ok(Self { inotify, layout, by_place: BTreeMap::new(), by_descriptor: HashMap::new() })
    }

    fn translate(
        &mut self,
        descriptor: &WatchDescriptor,
        mask: EventMask,
        name: Option<&std::ffi::OsStr>,
    ) -> Option<FileEvent> {
        if mask.contains(EventMask::Q_OVERFLOW) {
            return Some(FileEvent::Overflow);
        }
        if mask.contains(EventMask::IGNORED) {
            let place = self.by_descriptor.remove(descriptor)?;
            // The path may be watched anew already, under another descriptor.
            if self.by_place.get(&place) == Some(descriptor) {
                self.by_place.remove(&place);
            }
            return Some(FileEvent::Removed { place });
        }
        let place = self.by_descriptor.get(descriptor)?.clone();
        let name = name?.to_str()?.to_owned();
        mask.contains(EventMask::MODIFY).then_some(FileEvent::Modified { place, name })
    }

    fn path(&self, place: &Place) -> Option<PathBuf> {
        Some(self.layout.hierarchies().get(place.hierarchy)?.root().join(place.dir.as_str()))
    }
}

impl Watch for InotifyWatch {
    fn add(&mut self, place: &Place) -> io::Result<()> {
        if self.by_place.contains_key(place) {
            return Ok(());
        }
        let path = self.path(place).ok_or(io::ErrorKind::NotFound)?;
        let mask = WatchMask::MODIFY | WatchMask::DELETE_SELF | WatchMask::ONLYDIR | WatchMask::DONT_FOLLOW;
        let descriptor = self.inotify.watches().add(path, mask)?;
        self.by_place.insert(place.clone(), descriptor.clone());
        self.by_descriptor.insert(descriptor, place.clone());
        Ok(())
    }

    fn remove(&mut self, place: &Place) {
        if let Some(descriptor) = self.by_place.remove(place) {
            self.by_descriptor.remove(&descriptor);
            // It fails if the directory was removed meanwhile, and the watch with it.
            if let Err(error) = self.inotify.watches().remove(descriptor) {
                tracing::debug!(dir = %place.dir, %error, "the watch was gone already");
            }
        }
    }

    fn watches(&self, place: &Place) -> bool {
        self.by_place.contains_key(place)
    }

    fn places(&self) -> Vec<Place> {
        self.by_place.keys().cloned().collect()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inotify.as_fd())
    }

    fn drain(&mut self) -> io::Result<Vec<FileEvent>> {
        let mut buffer = [0; BUFFER];
        let mut seen = Vec::new();
        loop {
            let events = match self.inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let events: Vec<_> = events
                .map(|event| (event.wd, event.mask, event.name.map(std::ffi::OsStr::to_os_string)))
                .collect();
            if events.is_empty() {
                break;
            }
            for (descriptor, mask, name) in events {
                if let Some(event) = self.translate(&descriptor, mask, name.as_deref())
                    && seen.last() != Some(&event)
                {
                    seen.push(event);
                }
            }
        }
        Ok(seen)
    }
}

/// Watches nothing: for one-shot work, and where inotify is not to be had.
#[derive(Debug, Default)]
pub struct NoWatch;

impl Watch for NoWatch {
    fn add(&mut self, _place: &Place) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, _place: &Place) {}

    fn watches(&self, _place: &Place) -> bool {
        false
    }

    fn places(&self) -> Vec<Place> {
        Vec::new()
    }

    fn drain(&mut self) -> io::Result<Vec<FileEvent>> {
        Ok(Vec::new())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
