//! Waiting for changes of one directory: inotify on the directory itself, or the time-out alone where
//! inotify is not to be had.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inotify::{EventMask, Inotify, WatchMask};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use super::settle::Touch;

/// What ended a wait.
#[derive(Debug)]
pub enum Wake {
    /// The watcher is to stop.
    Stop,
    /// The time is over.
    Elapsed,
    /// Names in the directory changed.
    Changed(Vec<(OsString, Touch)>),
    /// Events were lost, or the directory itself went away: look at everything.
    Lost,
}

/// A watch of one directory that a second thread can end.
#[derive(Debug)]
pub struct DirectoryWatch {
    stop: Arc<EventFd>,
    inotify: Option<Inotify>,
}

impl DirectoryWatch {
    /// A watch of nothing yet.
    pub fn new(stop: Arc<EventFd>) -> Self {
        Self { stop, inotify: None }
    }

    /// Whether a directory is being watched.
    pub fn is_live(&self) -> bool {
        self.inotify.is_some()
    }

    /// Watches `directory` from now on, and nothing else.
    pub fn attach(&mut self, directory: &Path) -> io::Result<()> {
        self.inotify = None;
        let inotify = Inotify::init()?;
        let mask = WatchMask::CREATE
            | WatchMask::MODIFY
            | WatchMask::ATTRIB
            | WatchMask::CLOSE_WRITE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::DELETE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        inotify.watches().add(directory, mask)?;
        self.inotify = Some(inotify);
        Ok(())
    }

    /// Waits for an event, the stop, or the end of `timeout`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Wake {
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // One more millisecond, so that a due time has passed when the wait ends.
            let millis = timeout.as_millis().saturating_add(1).min(60_000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.inotify.as_ref().map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Wake::Elapsed,
            Ok(_) => {}
            Err(_) => return Wake::Lost,
        }
        if fds.first().and_then(PollFd::any).unwrap_or(true) {
            return Wake::Stop;
        }
        self.drain()
    }

    fn drain(&mut self) -> Wake {
        let Some(inotify) = &mut self.inotify else { return Wake::Elapsed };
        let mut buffer = [0; 8192];
        let mut changed = Vec::new();
        loop {
            let events = match inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Wake::Changed(changed),
                Err(_) => {
                    self.inotify = None;
                    return Wake::Lost;
                }
            };
            for event in events {
                let gone = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED;
                if event.mask.intersects(gone | EventMask::Q_OVERFLOW | EventMask::UNMOUNT) {
                    self.inotify = None;
                    return Wake::Lost;
                }
                let Some(name) = event.name else { continue };
                let writing = event.mask.intersects(EventMask::CREATE | EventMask::MODIFY);
                changed.push((name.to_owned(), if writing { Touch::Writing } else { Touch::Done }));
            }
        }
    }
}

/// Time left until `due`.
pub fn until(due: Instant) -> Duration {
    due.saturating_duration_since(Instant::now())
}
