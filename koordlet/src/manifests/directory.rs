//! Follows a directory of manifests in a thread of its own, so that a large file never holds up the agent.
//! Changes are out within a second; what is out is always the whole state.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::watch;
use tracing::{info, warn};

use super::inotify_watch::{DirectoryWatch, Wake, until};
use super::merge::ManifestUpdate;
use super::scan::{Force, Look, Scanner, is_manifest};
use super::settle::{Settle, Touch};

/// How often the directory is looked at without inotify. Two looks have to agree, so a change takes up to
/// twice as long.
const POLL: Duration = Duration::from_millis(400);
/// How often the directory is looked at when it is not there, or links lead out of it.
const SLOW_POLL: Duration = Duration::from_secs(1);
/// How soon a file that changed under our hands is looked at again.
const AGAIN: Duration = Duration::from_millis(50);

/// What readers get: `None` until the directory was read for the first time.
pub type Updates = watch::Receiver<Option<Arc<ManifestUpdate>>>;

/// The thread that follows the directory; dropping it ends the thread.
#[derive(Debug)]
pub struct ManifestDirectory {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    updates: Updates,
}

impl ManifestDirectory {
    /// Starts to follow `directory` for the objects of `node_name`. A directory that is not there yet is
    /// waited for.
    pub fn follow(directory: PathBuf, node_name: String) -> io::Result<Self> {
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let stop = Arc::new(stop);
        let (sender, updates) = watch::channel(None);
        let follower = Follower {
            watch: DirectoryWatch::new(Arc::clone(&stop)),
            scanner: Scanner::new(directory.clone(), node_name),
            directory,
            settle: Settle::default(),
            sender,
            started: Instant::now(),
            watched: None,
            refused: None,
            told: String::new(),
        };
        let thread =
            std::thread::Builder::new().name("manifests".to_owned()).spawn(move || follower.run())?;
        Ok(Self { stop, thread: Some(thread), updates })
    }

    /// The state of the directory, now and later.
    pub fn updates(&self) -> Updates {
        self.updates.clone()
    }
}

impl Drop for ManifestDirectory {
    fn drop(&mut self) {
        let told = self.stop.write(1).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| told)
            && thread.join().is_err()
        {
            warn!("the manifests thread panicked");
        }
    }
}

struct Follower {
    directory: PathBuf,
    watch: DirectoryWatch,
    scanner: Scanner,
    settle: Settle,
    sender: watch::Sender<Option<Arc<ManifestUpdate>>>,
    started: Instant,
    /// Device and inode of the directory that is watched, or that inotify was refused for.
    watched: Option<(u64, u64)>,
    /// Why there is no inotify.
    refused: Option<io::Error>,
    /// What was last logged of the directory.
    told: String,
}

impl Follower {
    fn run(mut self) {
        let mut force = Force::All;
        loop {
            if self.attach() {
                force = Force::All;
            }
            let look = self.look(&force);
            match self.next(look) {
                Some(next) => force = next,
                None => return,
            }
        }
    }

    /// Watches the directory, also when another one took its place. Whether the watch is new.
    fn attach(&mut self) -> bool {
        let Ok(meta) = std::fs::metadata(&self.directory) else {
            self.watched = None;
            return false;
        };
        let here = Some((meta.dev(), meta.ino()));
        if self.watched == here && (self.watch.is_live() || self.refused.is_some()) {
            return false;
        }
        self.watched = here;
        self.refused = self.watch.attach(&self.directory).err();
        self.refused.is_none()
    }

    /// Reads what changed and publishes the outcome; `None` when the directory cannot be listed.
    fn look(&mut self, force: &Force) -> Option<Look> {
        let settle = &self.settle;
        let twice = !self.watch.is_live();
        let look = self.scanner.look(force, |name| settle.is_unsettled(name), twice);
        self.tell(look.as_ref().err());
        let look = look.ok()?;
        // The first state goes out when every file in it was read, or after a while without those that are
        // never left alone.
        if !look.again || self.sender.borrow().is_some() || self.started.elapsed() > SLOW_POLL {
            self.publish();
        }
        Some(look)
    }

    fn publish(&mut self) {
        let update = self.scanner.update();
        self.sender.send_if_modified(|held| {
            let differs = held.as_deref() != Some(&update);
            if differs {
                *held = Some(Arc::new(update));
            }
            differs
        });
    }

    /// Waits until there is something to look at; `None` to stop.
    fn next(&mut self, look: Option<Look>) -> Option<Force> {
        loop {
            match self.watch.wait(self.timeout(look)) {
                Wake::Stop => return None,
                Wake::Lost => return Some(Force::All),
                Wake::Elapsed => return Some(Force::Names(self.settle.take_ready(Instant::now()))),
                Wake::Changed(names) => {
                    if self.note(&names) {
                        return Some(Force::All);
                    }
                    let ready = self.settle.take_ready(Instant::now());
                    if !ready.is_empty() {
                        return Some(Force::Names(ready));
                    }
                }
            }
        }
    }

    fn timeout(&self, look: Option<Look>) -> Option<Duration> {
        let Some(look) = look else { return Some(SLOW_POLL) };
        let is_link = std::fs::symlink_metadata(&self.directory).is_ok_and(|meta| meta.is_symlink());
        let idle = if !self.watch.is_live() {
            Some(POLL)
        } else if look.again {
            Some(AGAIN)
        } else {
            (look.links_elsewhere || is_link).then_some(SLOW_POLL)
        };
        [idle, self.settle.due().map(until)].into_iter().flatten().min()
    }

    /// Notes events; whether everything may have changed.
    fn note(&mut self, names: &[(OsString, Touch)]) -> bool {
        let now = Instant::now();
        let mut all = false;
        for (name, touch) in names {
            // ConfigMaps swap a hidden link that all their files go through.
            all |= name.as_encoded_bytes().starts_with(b"..");
            if is_manifest(name) {
                let touch = if self.is_link(name) { Touch::Done } else { *touch };
                self.settle.note(name, touch, now);
            }
        }
        all
    }

    /// A new link is complete at once, and no close follows.
    fn is_link(&self, name: &OsStr) -> bool {
        std::fs::symlink_metadata(self.directory.join(name)).is_ok_and(|meta| meta.is_symlink())
    }

    /// Logs how the directory is followed, once a change of that.
    fn tell(&mut self, failure: Option<&io::Error>) {
        let now = match (failure, &self.refused) {
            (Some(error), _) => format!("cannot be read ({error}); what is known stays in force"),
            (None, Some(error)) => format!("no inotify ({error}): looked at every {} ms", POLL.as_millis()),
            (None, None) => "followed".to_owned(),
        };
        if now == self.told {
            return;
        }
        let directory = self.directory.display();
        if failure.is_none() && self.refused.is_none() {
            info!(%directory, "manifests directory: {now}");
        } else {
            warn!(%directory, "manifests directory: {now}");
        }
        self.told = now;
    }
}

#[cfg(test)]
mod tests;
