//! What a tick of collection costs at 1,000 containers in 100 pods, all of the agent counted, against reading the
//! same files naively.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use kit::load::Work;
use kit::{Controller, Tree};

use crate::field::Field;
use crate::process::{cpu_time, milli_cpu, resident_mib};
use crate::row::Row;

/// Time until first looks are over: files of idle containers are looked at every 15 s.
const SETTLING: Duration = Duration::from_secs(8);
/// How long CPU time is watched: two periods of idle files.
const WATCHED: Duration = Duration::from_secs(30);
/// Twice a tick, so that no tick finds a busy container without new CPU time.
const BUSY: Work = Work::Blink { millis: 400 };
/// Rounds of naive reading.
const ROUNDS: u32 = 10;

/// A tick comes once a second, so milli-cores are milliseconds a tick.
pub(crate) fn thousand_containers() -> Result<Vec<Row>> {
    let field = Field::with(100, 10, None)?;
    let files = files(&field);
    let agent = field.agent.start()?;
    let mut rows = Vec::new();
    let mut measure = |name: &str, budget: f64| -> Result<()> {
        sleep(SETTLING);
        let tick = milli_cpu(agent.pid(), WATCHED)?;
        rows.push(Row::new(name, tick, "ms").against(naive(&files)?).at_most(budget));
        Ok(())
    };
    measure("CPU of a tick, 1,000 containers, all idle", 2.0)?;
    let tenth = field.load(BUSY, |number| number % 10 == 0)?;
    measure("CPU of a tick, 1,000 containers, 90 % idle", 2.0)?;
    let others = field.load(BUSY, |number| number % 10 != 0)?;
    measure("CPU of a tick, 1,000 containers, all busy", 10.0)?;
    rows.push(Row::new("agent RSS, 1,000 containers", resident_mib(agent.pid())?, "MiB").at_most(32.0));
    drop((tenth, others));
    Ok(rows)
}

/// What an agent reads that opens every file of every pod and container at each tick.
fn files(field: &Field) -> Vec<PathBuf> {
    let names = statistics(&field.tree);
    let pods = field.dirs.iter().map(|dirs| dirs.pod.clone());
    let file = |dir: String| {
        names.clone().into_iter().map(move |(mount, name)| mount.join(&dir).join(name)).collect::<Vec<_>>()
    };
    pods.chain(field.containers()).flat_map(file).collect()
}

/// Use of CPU and memory, and throttling: each file with the mount that it is in.
fn statistics(tree: &Tree) -> Vec<(PathBuf, &'static str)> {
    let mount = |controller| tree.hierarchies().mount(controller).to_owned();
    let memory = (mount(Controller::Memory), "memory.stat");
    let cpu = (mount(Controller::Cpu), "cpu.stat");
    if tree.is_v2() {
        return vec![memory, cpu];
    }
    vec![(mount(Controller::Cpuacct), "cpuacct.usage"), memory, cpu]
}

/// CPU time of one round of open, read and close, in milliseconds.
fn naive(files: &[PathBuf]) -> Result<f64> {
    let before = cpu_time(std::process::id())?;
    let mut read = 0;
    let mut buffer = [0; 8192];
    for _ in 0..ROUNDS {
        for file in files {
            read += usize::from(File::open(file)?.read(&mut buffer)? > 0);
        }
    }
    ensure!(read == files.len() * ROUNDS as usize, "{read} files had something in them");
    Ok((cpu_time(std::process::id())?.saturating_sub(before)).as_secs_f64() * 1000.0 / f64::from(ROUNDS))
}
