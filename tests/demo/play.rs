//! Runs the script: sets the load, starts the agent, looks every 100 ms, takes a sample twice a second.

use std::sync::PoisonError;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kit::RunningAgent;

use crate::explained::Explained;
use crate::machine::Ticks;
use crate::phase::{Enforcement, Phase, SCRIPT};
use crate::record::{Record, Sample};
use crate::scene::Scene;
use crate::screen::Screen;
use crate::stop::StopSignals;

/// Time between two looks at the limit.
const LOOK: Duration = Duration::from_millis(100);
/// Looks between two samples.
const LOOKS_A_SAMPLE: u32 = 5;
/// Looks between two questions to the agent when the limit stays as it is: others of its values may be new.
const LOOKS_A_QUESTION: u32 = 10;

/// Plays the whole script.
pub(crate) fn play(scene: &Scene, stop: &StopSignals, screen: &mut Screen) -> Result<Record> {
    let mut player = Player::new(scene, stop)?;
    for phase in SCRIPT {
        match phase.enforcement {
            Enforcement::Absent => {}
            Enforcement::On => player.start_agent(screen)?,
            Enforcement::SwitchedOff => scene.switch_policy(false)?,
        }
        player.play(*phase, screen)?;
    }
    if let Some(agent) = player.agent.take() {
        let status = agent.stop()?;
        anyhow::ensure!(status.success(), "the agent ended with {status}");
    }
    Ok(player.record)
}

struct Player<'a> {
    scene: &'a Scene,
    stop: &'a StopSignals,
    agent: Option<RunningAgent<'a>>,
    explained: Explained,
    record: Record,
    start: Instant,
    limit: Option<f64>,
    usage: Usage,
}

/// CPU time so far, and when it was read.
struct Usage {
    at: Instant,
    ls: u64,
    be: u64,
    machine: Ticks,
}

/// CPUs used between two looks.
struct Used {
    ls: f64,
    be: f64,
    other: f64,
}

impl<'a> Player<'a> {
    fn new(scene: &'a Scene, stop: &'a StopSignals) -> Result<Self> {
        Ok(Self {
            scene,
            stop,
            agent: None,
            explained: Explained::default(),
            record: Record { cpus: scene.cpus, ..Record::default() },
            start: Instant::now(),
            limit: None,
            usage: Usage::read(scene)?,
        })
    }

    fn start_agent(&mut self, screen: &mut Screen) -> Result<()> {
        if self.agent.is_none() {
            screen.line("starting the agent");
            self.agent = Some(self.scene.agent.start()?);
        }
        Ok(())
    }

    fn play(&mut self, phase: Phase, screen: &mut Screen) -> Result<()> {
        screen.line(&format!("== {}", phase.title()));
        let mut service = self.scene.service.lock().unwrap_or_else(PoisonError::into_inner);
        service.set_load(phase.demand.share(), self.scene.cpus)?;
        // What ended until now belongs to the phase before.
        drop(service.take());
        drop(service);
        let begin = Instant::now();
        let mut sampled = begin;
        for look in 1..=phase.seconds * 1000 / 100 {
            sleep((begin + LOOK * look).saturating_duration_since(Instant::now()));
            if self.stop.has_come() {
                bail!("interrupted");
            }
            self.look(look, screen)?;
            // After a slow look the next ones come at once; figures of a moment that short are noise.
            if look % LOOKS_A_SAMPLE == 0 && sampled.elapsed() >= LOOK * LOOKS_A_SAMPLE / 2 {
                sampled = Instant::now();
                let sample = self.sample(phase, begin.elapsed())?;
                screen.sample(&sample);
                self.record.samples.push(sample);
            }
        }
        Ok(())
    }

    /// A changed limit is asked about at once, so that the reason shown is the one of this change.
    fn look(&mut self, look: u32, screen: &mut Screen) -> Result<()> {
        let Some(agent) = &self.agent else { return Ok(()) };
        let limit = self.scene.be_limit()?;
        if limit == self.limit && !look.is_multiple_of(LOOKS_A_QUESTION) {
            return Ok(());
        }
        self.limit = limit;
        let news = self.explained.news(agent, self.scene.tree.root(), self.start.elapsed());
        for write in news.context("asking the agent why")? {
            screen.write(&write);
            self.record.writes.push(write);
        }
        Ok(())
    }

    fn sample(&mut self, phase: Phase, into_phase: Duration) -> Result<Sample> {
        let latencies = self.scene.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Used { ls: ls_cpu, be: be_cpu, other: other_cpu } = self.usage.advance(self.scene)?;
        let be_limit = self.scene.be_limit()?;
        Ok(Sample {
            at: self.start.elapsed(),
            into_phase,
            phase,
            latencies,
            ls_cpu,
            be_cpu,
            other_cpu,
            be_limit,
        })
    }
}

impl Usage {
    fn read(scene: &Scene) -> Result<Self> {
        let ls = scene.tree.cpu_usage_nanos(&scene.ls.pod)?;
        let be = scene.tree.cpu_usage_nanos(&scene.be())?;
        Ok(Self { at: Instant::now(), ls, be, machine: Ticks::read()? })
    }

    /// CPUs used by service, hogs and others since the last call.
    fn advance(&mut self, scene: &Scene) -> Result<Used> {
        let now = Self::read(scene)?;
        let nanos = now.at.duration_since(self.at).as_secs_f64() * 1e9;
        let cpus = |from: u64, to: u64| to.saturating_sub(from) as f64 / nanos;
        let (ls, be) = (cpus(self.ls, now.ls), cpus(self.be, now.be));
        let all = now.machine.share_since(self.machine) * scene.cpus as f64;
        *self = now;
        Ok(Used { ls, be, other: (all - ls - be).max(0.0) })
    }
}
