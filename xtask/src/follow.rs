//! Runs a program, passes its output on line by line while it runs, and ends it when it takes too long.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Prints each line of stdout, also gives it to `look`, and returns how the program ended. After `limit` it is
/// killed, which is an unsuccessful end.
pub(crate) fn follow(
    command: &mut Command,
    limit: Duration,
    mut look: impl FnMut(&str),
) -> Result<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("the child's output")?;
    let (lines, received) = channel();
    // Ends with the child's output. Not every byte that a program prints is text.
    drop(thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                return;
            }
        }
    }));
    let end = Instant::now() + limit;
    loop {
        match received.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                println!("{line}");
                look(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                println!("killed after {} s", limit.as_secs());
                child.kill()?;
                break;
            }
        }
    }
    child.wait().context("waiting for the child")
}
