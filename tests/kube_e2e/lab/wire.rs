//! A wire between the agent and the API server that a test can cut: bytes go through as they are, TLS included.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// The wire; it ends on drop.
pub(crate) struct Wire {
    address: SocketAddr,
    state: Arc<State>,
    accepting: Option<thread::JoinHandle<()>>,
}

struct State {
    target: SocketAddr,
    /// Whether new connections go through.
    open: AtomicBool,
    ended: AtomicBool,
    accepted: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl Wire {
    /// To `target`, from a free port of its address, for which its certificate is good.
    pub(crate) fn to(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((target.ip(), 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            target,
            open: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            streams: Mutex::default(),
        });
        let accepting = thread::spawn({
            let state = Arc::clone(&state);
            move || accept(&listener, &state)
        });
        Ok(Self { address, state, accepting: Some(accepting) })
    }

    /// Where the agent is to connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        let streams = std::mem::take(&mut *self.state.streams());
        for stream in streams {
            // It may have ended by itself.
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// From now on connections end at once; those that there are, too.
    pub(crate) fn close(&self) {
        self.state.open.store(false, Ordering::Relaxed);
        self.cut();
    }

    /// Lets connections through again.
    pub(crate) fn open(&self) {
        self.state.open.store(true, Ordering::Relaxed);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.cut();
        if let Some(thread) = self.accepting.take() {
            // A panic there has been printed.
            thread.join().ok();
        }
    }
}

impl State {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    while !state.ended.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                state.accepted.fetch_add(1, Ordering::Relaxed);
                // An error is the peer's going away.
                if state.open.load(Ordering::Relaxed) {
                    connect(stream, state).ok();
                }
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn connect(near: TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    near.set_nonblocking(false)?;
    let far = TcpStream::connect(state.target)?;
    state.streams().extend([near.try_clone()?, far.try_clone()?]);
    // Both end with their connection.
    drop(thread::spawn({
        let (near, far) = (near.try_clone()?, far.try_clone()?);
        move || copy(near, far)
    }));
    drop(thread::spawn(move || copy(far, near)));
    Ok(())
}

/// Until either end is gone; then both are.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count) = from.read(&mut bytes) {
        let part = bytes.get(..count).unwrap_or_default();
        if part.is_empty() || to.write_all(part).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        stream.shutdown(Shutdown::Both).ok();
    }
}

/// The API server's address.
pub(crate) fn api_server(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::from((address, super::control_plane::PORT))
}
