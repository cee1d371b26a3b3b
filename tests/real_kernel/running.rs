//! The sensors of the library under test, running on a runtime of their own.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use kit::{Controller, Tree};
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::ebpf::events::{CgroupEvent, WatchedDirs};
use koordlet::ebpf::sensors::{SensorConfig, Sensors, start};
use koordlet::host::roots::Roots;
use tokio::runtime::{Builder, Handle};

/// A runtime on a thread. Ends on drop.
pub(crate) struct Background {
    pub(crate) handle: Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(stopped).ok();
        });
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Keeps the runtime from running anything until the answer is dropped.
    pub(crate) fn pause(&self) -> Sender<()> {
        let (resume, paused) = channel::<()>();
        let (entered, is_in) = channel();
        self.handle.spawn(async move {
            entered.send(()).ok();
            paused.recv().ok();
        });
        is_in.recv().ok();
        resume
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// A configuration that watches the kubepods tree of a test.
pub(crate) fn config(tree: &Tree) -> Result<SensorConfig> {
    let roots = Roots::host();
    let layout = Arc::new(Layout::detect(&roots)?);
    let watched = WatchedDirs::new([dir(&tree.kubepods())]);
    Ok(SensorConfig::new(roots, layout, watched))
}

/// Starts the sensors on `background`.
pub(crate) fn sensors(background: &Background, config: &SensorConfig) -> Result<Sensors> {
    let _inside = background.handle.enter();
    Ok(start(config)?)
}

/// Why eBPF cannot be tested here: the offer of the kit, or a library that was built without the object.
pub(crate) fn offers_ebpf() -> kit::offers::Offer {
    kit::offers::ebpf()?;
    kit::offers::cgroups()?;
    if koordlet::ebpf::load::EMBEDDED.is_none() {
        return Err("built without eBPF: run `cargo xtask build-ebpf` first".to_owned());
    }
    Ok(())
}

#[expect(clippy::expect_used, reason = "only tests call it, with paths of their own")]
pub(crate) fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).expect("a test's path")
}

/// Cgroup id of a directory: its inode number.
pub(crate) fn id(tree: &Tree, controller: Controller, path: &str) -> Result<u64> {
    let path = tree.hierarchies().mount(controller).join(path);
    Ok(std::fs::metadata(&path).with_context(|| path.display().to_string())?.ino())
}

/// The directory of an event.
pub(crate) fn event_dir(event: &CgroupEvent) -> Option<&CgroupDir> {
    match event {
        CgroupEvent::Born { dir, .. } | CgroupEvent::Died { dir, .. } => Some(dir),
        CgroupEvent::Lost { .. } => None,
    }
}

/// Takes events until `enough` of them are there, or none came for a generous while.
pub(crate) fn collect(sensors: &mut Sensors, enough: usize) -> Vec<CgroupEvent> {
    let mut events = Vec::new();
    kit::until(kit::patience(), || {
        while let Ok(event) = sensors.events.try_recv() {
            events.push(event);
        }
        events.len() >= enough
    });
    // What should not be there has a moment to appear.
    std::thread::sleep(std::time::Duration::from_millis(100));
    while let Ok(event) = sensors.events.try_recv() {
        events.push(event);
    }
    events
}
