//! What is shown while it runs: events scroll by, and in a terminal the latest figures stay below them.

use std::io::{IsTerminal as _, Write as _, stdout};
use std::time::Duration;

use crate::record::{Sample, Write};

/// The terminal, or a plain stream.
pub(crate) struct Screen {
    is_terminal: bool,
    cpus: usize,
    /// Lines of figures below the cursor's home.
    shown: usize,
    figures: Vec<String>,
    samples: u32,
}

impl Screen {
    /// On stdout; bars of CPU time are full at `cpus`.
    pub(crate) fn new(cpus: usize) -> Self {
        Self { is_terminal: stdout().is_terminal(), cpus, shown: 0, figures: Vec::new(), samples: 0 }
    }

    /// A line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        self.lines(&[text.to_owned()]);
    }

    /// Lines that stay.
    pub(crate) fn lines(&mut self, lines: &[String]) {
        let mut all = self.erase();
        for line in lines {
            all.push_str(line);
            all.push('\n');
        }
        self.shown = if self.is_terminal { self.figures.len() } else { 0 };
        if self.is_terminal {
            self.figures.iter().for_each(|line| all = format!("{all}{line}\n"));
        }
        // Whoever closed stdout does not want to see more.
        drop(stdout().write_all(all.as_bytes()).and_then(|()| stdout().flush()));
    }

    /// A value that the agent set.
    pub(crate) fn write(&mut self, write: &Write) {
        let Write { at, file, value, owner, reason } = write;
        let file = short(file);
        self.line(&format!("{:>5.1}s  {file} = {value}\n        {owner}: {reason}", at.as_secs_f64()));
    }

    /// New figures: repainted in a terminal, one line a second otherwise.
    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.samples += 1;
        if self.is_terminal {
            self.figures = panel(sample, self.cpus as f64);
            self.lines(&[]);
        } else if self.samples.is_multiple_of(2) {
            self.line(&plain(sample));
        }
    }

    /// The figures must not stay above the table.
    pub(crate) fn finish(&mut self) {
        self.figures.clear();
        self.lines(&[]);
    }

    fn erase(&self) -> String {
        if self.shown == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.shown) }
    }
}

/// The directory's own name and the file's: the whole path would not fit into a line.
fn short(file: &str) -> String {
    match file.rsplit('/').collect::<Vec<_>>()[..] {
        [name, dir, _, ..] => format!(".../{dir}/{name}"),
        _ => file.to_owned(),
    }
}

fn plain(sample: &Sample) -> String {
    let percentile = |percent| milliseconds(sample.latencies.percentile(percent));
    format!(
        "{:>5.1}s  {:<24} LS p50 {:>6} ms, p99 {:>6} ms | CPU: LS {:.2}, BE {:.2}, others {:.2} | BE limit {}",
        sample.at.as_secs_f64(),
        sample.phase.title(),
        percentile(50),
        percentile(99),
        sample.ls_cpu,
        sample.be_cpu,
        sample.other_cpu,
        limit(sample.be_limit),
    )
}

fn panel(sample: &Sample, cpus: f64) -> Vec<String> {
    let p99 = sample.latencies.percentile(99);
    let scaled = |value: f64, full: f64| bar(value / full);
    vec![
        String::new(),
        format!("  {:>5.1}s  {}", sample.at.as_secs_f64(), sample.phase.title()),
        format!(
            "  LS latency p99  {:>7} ms  {}",
            milliseconds(p99),
            scaled(p99.unwrap_or_default().as_secs_f64(), 0.04)
        ),
        format!("  CPU of LS       {:>7.2}     {}", sample.ls_cpu, scaled(sample.ls_cpu, cpus)),
        format!("  CPU of BE       {:>7.2}     {}", sample.be_cpu, scaled(sample.be_cpu, cpus)),
        format!("  CPU of others   {:>7.2}     {}", sample.other_cpu, scaled(sample.other_cpu, cpus)),
        format!(
            "  limit of BE     {:>7}     {}",
            limit(sample.be_limit),
            scaled(sample.be_limit.unwrap_or(cpus), cpus)
        ),
    ]
}

fn bar(share: f64) -> String {
    const WIDTH: usize = 40;
    let full = (0..WIDTH).filter(|step| (*step as f64) < share * WIDTH as f64).count();
    "#".repeat(full)
}

/// A limit in CPUs.
pub(crate) fn limit(limit: Option<f64>) -> String {
    limit.map_or_else(|| "none".to_owned(), |cpus| format!("{cpus:.2}"))
}

/// A latency with one digit after the point.
pub(crate) fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_the_name_of_its_directory() {
        assert_eq!(short("kubepods.slice/a.slice/b.slice/cpu.shares"), ".../b.slice/cpu.shares");
        assert_eq!(short("kubepods.slice/cpu.shares"), "kubepods.slice/cpu.shares");
    }
}
