//! `kit-load`: the processes that tests, the bench and the demo put into their cgroups.
//!
//! `kit-load spin THREADS | duty PERCENT | blink MILLIS | serve WORKERS | sleep  [cgroup.procs file]...`: joins the
//! groups, prints `ready`, works until killed. It ends with its stdin, and so with its parent: a killed test leaves no busy process.

mod serve;
mod work;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "kit-load: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["sleep", groups @ ..] => join(groups)?,
        ["spin", threads, groups @ ..] => {
            join(groups)?;
            (0..threads.parse::<u32>().context("THREADS")?).for_each(|_| drop(thread::spawn(work::spin)));
        }
        ["duty", percent, groups @ ..] => {
            join(groups)?;
            let percent = percent.parse().context("PERCENT")?;
            drop(thread::spawn(move || work::duty(percent)));
        }
        ["blink", millis, groups @ ..] => {
            join(groups)?;
            let pause = Duration::from_millis(millis.parse().context("MILLIS")?);
            drop(thread::spawn(move || work::blink(pause)));
        }
        ["serve", workers, groups @ ..] => {
            join(groups)?;
            // Its stdin ends with its parent.
            return serve::run(workers.parse().context("WORKERS")?);
        }
        _ => bail!(
            "usage: kit-load spin THREADS | duty PERCENT | blink MILLIS | serve WORKERS | sleep  \
             [cgroup.procs file]..."
        ),
    }
    until_orphaned()
}

/// Moves this process into each group, then says so. `0` means the writer itself.
fn join(groups: &[&str]) -> Result<()> {
    for group in groups {
        let joined = OpenOptions::new().write(true).open(group).and_then(|mut file| file.write_all(b"0"));
        joined.with_context(|| format!("joining {group}"))?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    Ok(out.flush()?)
}

/// Waits without a single wake-up: the parent holds the other end of stdin, and never writes.
fn until_orphaned() -> Result<()> {
    let mut stdin = std::io::stdin().lock();
    std::io::copy(&mut stdin, &mut std::io::sink()).context("reading stdin")?;
    Ok(())
}
