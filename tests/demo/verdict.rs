//! The result: latency with and without enforcement, and whether there was any.

use std::time::Duration;

use anyhow::{Result, ensure};
use kit::latency::Latencies;

use crate::phase::{Demand, Enforcement};
use crate::record::{Record, Sample};
use crate::scene::THRESHOLD_PERCENT;
use crate::screen::{limit, milliseconds};

/// The first part of a phase does not count: requests of the phase before still wait, and the agent has to see first.
const SETTLING: Duration = Duration::from_millis(1500);

/// The figures of one row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// What it is.
    pub(crate) title: String,
    latencies: Latencies,
    ls_cpu: f64,
    be_cpu: f64,
    other_cpu: f64,
    limit: Option<f64>,
}

/// All that is concluded from a record.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// LS load high, without the agent.
    pub(crate) before: Figures,
    /// LS load high, enforced.
    pub(crate) after: Figures,
    low: Figures,
    last_limit: Option<f64>,
    reasons: usize,
    cpus: f64,
}

/// From this share of the machine on, what others use is worth a word.
const NOTABLE: f64 = 0.25;
/// With less than this share of the machine to give, a limit cannot be seen to grow.
const ROOM: f64 = 0.1;

impl Verdict {
    /// Draws the conclusions.
    pub(crate) fn of(record: &Record) -> Self {
        let figures =
            |title: &str, enforcement, demand| Figures::of(title, &record.samples, enforcement, demand);
        Self {
            before: figures("LS load high, no agent", Enforcement::Absent, Demand::High),
            after: figures("LS load high, enforced", Enforcement::On, Demand::High),
            low: figures("LS load low, enforced", Enforcement::On, Demand::Low),
            last_limit: record.samples.last().and_then(|sample| sample.be_limit),
            cpus: record.cpus as f64,
            reasons: record.writes.iter().filter(|write| !write.reason.is_empty()).count(),
        }
    }

    /// The table.
    pub(crate) fn table(&self) -> Vec<String> {
        let head = ["", "LS p50 ms", "LS p99 ms", "LS CPUs", "BE CPUs", "others", "BE limit"];
        let [title, p50, p99, ls, be, other, limited] = head;
        let mut lines = vec![
            String::new(),
            format!("{title:<24}{p50:>10}{p99:>11}{ls:>9}{be:>9}{other:>8}{limited:>10}"),
        ];
        lines.extend([&self.before, &self.after, &self.low].map(Figures::row));
        lines.push(String::new());
        lines.push(self.sentence());
        lines.extend(self.company());
        lines
    }

    /// What else ran here, if it matters: the agent gives best-effort pods only what others leave, too.
    fn company(&self) -> Option<String> {
        let other =
            [&self.before, &self.after, &self.low].map(|row| row.other_cpu).into_iter().fold(0.0, f64::max);
        (other > NOTABLE * self.cpus).then(|| {
            format!(
                "other processes used up to {other:.2} of {} CPUs meanwhile; best-effort pods get what they leave",
                self.cpus
            )
        })
    }

    /// Whether others leave too little at low load for the limit to grow.
    fn is_crowded(&self) -> bool {
        let share = f64::from(THRESHOLD_PERCENT) / 100.0;
        share * self.cpus - self.low.ls_cpu - self.low.other_cpu < ROOM * self.cpus
    }

    /// The table in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let p99 = |figures: &Figures| figures.latencies.percentile(99);
        let (before, after) = (p99(&self.before), p99(&self.after));
        format!(
            "LS p99 under load: {} ms without enforcement, {} ms with it; {} values set, each with its reason",
            milliseconds(before),
            milliseconds(after),
            self.reasons,
        )
    }

    /// Enforcement happened, followed the load both ways, and went away with its policy.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.reasons > 0, "the agent has set nothing");
        let high = self.after.limit;
        ensure!(high.is_some(), "best-effort pods were not limited under load");
        let looser = match (self.low.limit, high) {
            (Some(low), Some(high)) => low > high,
            (None, Some(_)) => true,
            _ => false,
        };
        ensure!(
            looser || self.is_crowded(),
            "the limit did not follow the load: {} at low load",
            limit(self.low.limit)
        );
        ensure!(self.last_limit.is_none(), "a limit of {} stayed behind the policy", limit(self.last_limit));
        Ok(())
    }
}

impl Figures {
    fn of(title: &str, samples: &[Sample], enforcement: Enforcement, demand: Demand) -> Self {
        let wanted: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.phase.enforcement == enforcement && sample.phase.demand == demand)
            .filter(|sample| sample.into_phase > SETTLING)
            .collect();
        let mean = |value: fn(&Sample) -> f64| {
            wanted.iter().map(|sample| value(sample)).sum::<f64>() / wanted.len().max(1) as f64
        };
        let limits: Option<Vec<f64>> = wanted.iter().map(|sample| sample.be_limit).collect();
        Self {
            title: title.to_owned(),
            latencies: wanted.iter().flat_map(|sample| sample.latencies.iter().collect::<Vec<_>>()).collect(),
            ls_cpu: mean(|sample| sample.ls_cpu),
            be_cpu: mean(|sample| sample.be_cpu),
            other_cpu: mean(|sample| sample.other_cpu),
            limit: limits.map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64),
        }
    }

    /// One row of the table.
    pub(crate) fn row(&self) -> String {
        format!(
            "{:<24}{:>10}{:>11}{:>9.2}{:>9.2}{:>8.2}{:>10}",
            self.title,
            milliseconds(self.latencies.percentile(50)),
            milliseconds(self.latencies.percentile(99)),
            self.ls_cpu,
            self.be_cpu,
            self.other_cpu,
            limit(self.limit),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Phase;
    use crate::record::Write;

    fn sample(demand: Demand, enforcement: Enforcement, be_limit: Option<f64>) -> Sample {
        Sample {
            at: Duration::from_secs(9),
            into_phase: Duration::from_secs(3),
            phase: Phase { seconds: 9, demand, enforcement },
            latencies: [Duration::from_millis(2)].into_iter().collect(),
            ls_cpu: 0.8,
            be_cpu: 0.4,
            other_cpu: 0.1,
            be_limit,
        }
    }

    fn record(high: Option<f64>, low: Option<f64>, last: Option<f64>) -> Record {
        let write = Write {
            at: Duration::ZERO,
            file: "cpu.cfs_quota_us".into(),
            value: "50000".into(),
            owner: "cpu_suppress".into(),
            reason: "2000 * 65 / 100 - 800".into(),
        };
        Record {
            cpus: 2,
            samples: vec![
                sample(Demand::High, Enforcement::Absent, None),
                sample(Demand::High, Enforcement::On, high),
                sample(Demand::Low, Enforcement::On, low),
                sample(Demand::Low, Enforcement::SwitchedOff, last),
            ],
            writes: vec![write],
        }
    }

    #[test]
    fn enforcement_must_follow_the_load_and_end_with_its_policy() {
        assert!(Verdict::of(&record(Some(0.5), Some(1.1), None)).check().is_ok());
        assert!(Verdict::of(&record(None, None, None)).check().is_err(), "nothing was limited");
        assert!(Verdict::of(&record(Some(0.5), Some(0.5), None)).check().is_err(), "never grew");
        assert!(Verdict::of(&record(Some(0.5), Some(1.1), Some(0.5))).check().is_err(), "stayed");
        let mut crowded = record(Some(0.02), Some(0.02), None);
        assert!(Verdict::of(&crowded).company().is_none());
        crowded.samples.iter_mut().for_each(|sample| sample.other_cpu = 1.5);
        assert!(Verdict::of(&crowded).check().is_ok(), "others leave nothing that could be given back");
        assert!(Verdict::of(&crowded).company().is_some_and(|text| text.contains("1.50 of 2 CPUs")));
        let silent = Record { writes: vec![], ..record(Some(0.5), Some(1.1), None) };
        assert!(Verdict::of(&silent).check().is_err(), "no reason was given");
    }
}
