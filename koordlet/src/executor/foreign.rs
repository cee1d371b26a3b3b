//! When to repair what others wrote into a file that we hold, and when to speak of it (design.md 4, "Others
//! write too"). One account a target. Pure: the time is an argument.

use std::collections::VecDeque;

use crate::units::Nanos;

/// Foreign writes within this span are counted together, and one target is logged once in it.
pub const WINDOW: Nanos = Nanos(60_000_000_000);

/// From this many foreign writes within `WINDOW` on, repairs wait.
pub const CONTENDED: usize = 3;

/// How long a repair of a contended target waits.
pub const CONTENDED_DELAY: Nanos = Nanos(10_000_000_000);

/// What to do about one foreign write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// When to put the value right: at once, or after a while.
    pub repair_at: Nanos,
    /// Whether a line of log is due.
    pub log: bool,
    /// Whether it is the third or a later one within the window.
    pub contended: bool,
    /// Whether that is news: it was not said within the window.
    pub news: bool,
}

/// Foreign writes to one target.
#[derive(Clone, Debug, Default)]
pub struct ForeignAccount {
    recent: VecDeque<Nanos>,
    logged: Option<Nanos>,
    told: Option<Nanos>,
}

impl ForeignAccount {
    /// Takes one foreign write into account.
    pub fn count(&mut self, now: Nanos) -> Verdict {
        self.recent.retain(|at| now - *at < WINDOW);
        self.recent.push_back(now);
        if self.recent.len() > CONTENDED {
            self.recent.pop_front();
        }
        let contended = self.recent.len() >= CONTENDED;
        let repair_at = if contended { now + CONTENDED_DELAY } else { now };
        let log = once_a_window(&mut self.logged, now);
        let news = contended && once_a_window(&mut self.told, now);
        Verdict { repair_at, log, contended, news }
    }
}

fn once_a_window(last: &mut Option<Nanos>, now: Nanos) -> bool {
    let due = last.is_none_or(|at| now - at >= WINDOW);
    if due {
        *last = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_third_write_within_a_minute_waits_ten_seconds_and_logs_are_one_a_minute() {
        let mut account = ForeignAccount::default();
        let verdicts: Vec<_> = [100, 110, 120, 131, 159]
            .map(|s| account.count(Nanos(s * SECOND)))
            .iter()
            .map(|v| (v.repair_at.0 / SECOND, v.log, v.contended, v.news))
            .collect();
        assert_eq!(
            verdicts,
            [
                (100, true, false, false),
                (110, false, false, false),
                (130, false, true, true),
                (141, false, true, false),
                (169, false, true, false)
            ]
        );
        assert!(account.count(Nanos(160 * SECOND)).log);
    }

    #[test]
    fn c021_a_writer_once_a_minute_is_repaired_at_once_each_time() {
        let mut account = ForeignAccount::default();
        for minute in 0..5 {
            let now = Nanos((minute * 60 + 7) * SECOND);
            let verdict = account.count(now);
            assert_eq!((verdict.repair_at, verdict.log, verdict.contended), (now, true, false));
        }
    }
}
