//! The demo: a small kubepods tree with real processes on this machine, once without and once with the agent.
//!
//! A latency-sensitive service answers requests and measures its latency, best-effort hogs take what they get. The
//! service's load is stepped up and down; what the agent does about it is shown as it happens. It ends with a table
//! and fails if the agent did not enforce anything. `demo [--record FILE.svg]`.

mod explained;
mod machine;
mod phase;
mod picture;
mod play;
mod record;
mod scene;
mod screen;
mod service;
mod stop;
mod verdict;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use kit::offers;

use crate::scene::Scene;
use crate::screen::Screen;
use crate::stop::StopSignals;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "demo: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Everything that was made is removed when this returns, however it returns.
fn run(arguments: &[String]) -> Result<()> {
    let picture = picture_path(arguments)?;
    offers::cgroups().map_err(anyhow::Error::msg)?;
    let stop = StopSignals::catch()?;
    let mut screen = Screen::new(scene::cpus());
    let scene = Scene::build(&mut screen)?;
    let record = play::play(&scene, &stop, &mut screen)?;
    let verdict = verdict::Verdict::of(&record);
    screen.finish();
    screen.lines(&verdict.table());
    if let Some(path) = picture {
        picture::draw(&record, &verdict, &path).with_context(|| format!("drawing {}", path.display()))?;
        screen.line(&format!("picture: {}", path.display()));
    }
    verdict.check()
}

fn picture_path(arguments: &[String]) -> Result<Option<PathBuf>> {
    match arguments {
        [] => Ok(None),
        [flag, path] if flag == "--record" => Ok(Some(path.into())),
        _ => bail!("usage: demo [--record FILE.svg]"),
    }
}
