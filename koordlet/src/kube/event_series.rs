//! Which Kubernetes events are worth a request: equal ones within ten minutes are one event with a count, counts
//! are sent at most once a minute, and there is a budget for new ones. No clock, no request.

use std::collections::BTreeMap;
use std::time::Duration;

use super::budget::TokenBucket;

/// Equal events as far apart as this are two.
const ONE_EVENT: Duration = Duration::from_mins(10);
/// Least time between two requests for one event.
const COUNT_PACE: Duration = Duration::from_mins(1);
/// Events remembered.
const MAX_SERIES: usize = 256;
/// New events at once.
const BURST: u32 = 25;
/// New events a second, in the long run.
const RATE: f64 = 1.0 / 30.0;

/// What an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `v1`, `slo.koordinator.sh/v1alpha1`.
    pub api_version: String,
    /// `Pod`, `NodeSLO`.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, by which `kubectl describe` finds the event.
    pub uid: String,
}

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Normal,
    /// Something an administrator should see to.
    Warning,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Happening {
    /// To what.
    pub subject: Subject,
    /// How serious.
    pub severity: Severity,
    /// Part of the agent that says so, `koordlet` or `koordlet-qosManager` (qos.md 10).
    pub component: &'static str,
    /// One word in camel case.
    pub reason: &'static str,
    /// What people read.
    pub note: String,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Send {
    /// A new event; the number makes its name.
    Create { happening: Happening, number: u64 },
    /// It happened again: `count` times in all.
    Count { happening: Happening, number: u64, count: u32 },
}

impl Send {
    /// What happened.
    pub(super) fn happening(&self) -> &Happening {
        match self {
            Self::Create { happening, .. } | Self::Count { happening, .. } => happening,
        }
    }
}

/// What an offer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// A request.
    Send(Send),
    /// Counted; a later [`EventSeries::due`] sends it.
    Counted,
    /// Given up: too many.
    Dropped,
}

#[derive(Debug)]
struct Series {
    number: u64,
    count: u32,
    last: Duration,
    sent: Duration,
    unsent: bool,
}

/// The events of late.
#[derive(Debug)]
pub(super) struct EventSeries {
    series: BTreeMap<Happening, Series>,
    budget: TokenBucket,
    next_number: u64,
}

impl EventSeries {
    /// None yet. `first_number` should differ from start to start: it makes names.
    pub(super) fn new(first_number: u64, now: Duration) -> Self {
        Self {
            series: BTreeMap::new(),
            budget: TokenBucket::new(RATE, BURST, now),
            next_number: first_number,
        }
    }

    /// It happened.
    pub(super) fn offer(&mut self, happening: Happening, now: Duration) -> Offer {
        self.forget(now);
        if let Some(series) = self.series.get_mut(&happening) {
            series.count = series.count.saturating_add(1);
            series.last = now;
            series.unsent = true;
            if now.saturating_sub(series.sent) < COUNT_PACE {
                return Offer::Counted;
            }
            return Offer::Send(series.count_now(happening, now));
        }
        if self.series.len() >= MAX_SERIES || !self.budget.try_take(now) {
            return Offer::Dropped;
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let series = Series { number, count: 1, last: now, sent: now, unsent: false };
        self.series.insert(happening.clone(), series);
        Offer::Send(Send::Create { happening, number })
    }

    /// Counts whose time has come.
    pub(super) fn due(&mut self, now: Duration) -> Vec<Send> {
        let due = self
            .series
            .iter_mut()
            .filter(|(_, series)| series.unsent && now.saturating_sub(series.sent) >= COUNT_PACE);
        let sends = due.map(|(happening, series)| series.count_now(happening.clone(), now)).collect();
        self.forget(now);
        sends
    }

    /// The server no longer has this event: the next equal one is new.
    pub(super) fn lost(&mut self, happening: &Happening) {
        self.series.remove(happening);
    }

    fn forget(&mut self, now: Duration) {
        self.series.retain(|_, series| series.unsent || now.saturating_sub(series.last) < ONE_EVENT);
    }
}

impl Series {
    fn count_now(&mut self, happening: Happening, now: Duration) -> Send {
        self.sent = now;
        self.unsent = false;
        Send::Count { happening, number: self.number, count: self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happening(note: &str) -> Happening {
        Happening {
            subject: Subject { kind: "NodeSLO".into(), name: "n1".into(), ..Subject::default() },
            severity: Severity::Warning,
            component: "koordlet",
            reason: "FieldRefused",
            note: note.into(),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn equal_events_within_ten_minutes_are_one_with_a_count_sent_once_a_minute() {
        let mut series = EventSeries::new(7, at(0));
        let first = happening("x");
        let create = Send::Create { happening: first.clone(), number: 7 };
        assert_eq!(series.offer(first.clone(), at(0)), Offer::Send(create));
        for second in 1..60 {
            assert_eq!(series.offer(first.clone(), at(second)), Offer::Counted);
        }
        assert_eq!(series.due(at(59)), []);
        let count = |count| Send::Count { happening: first.clone(), number: 7, count };
        assert_eq!(series.due(at(60)), [count(60)]);
        assert_eq!(series.due(at(120)), [], "nothing new");
        assert_eq!(series.offer(first.clone(), at(600)), Offer::Send(count(61)));
        let anew = Send::Create { happening: first.clone(), number: 8 };
        assert_eq!(
            series.offer(first.clone(), at(1201)),
            Offer::Send(anew),
            "after ten quiet minutes it is another"
        );
    }

    #[test]
    fn new_events_have_a_budget_and_a_bound() {
        let mut series = EventSeries::new(0, at(0));
        let offers = |series: &mut EventSeries, now, from: usize, n: usize| {
            let offers = (from..from + n).map(|n| series.offer(happening(&n.to_string()), at(now)));
            offers.filter(|offer| matches!(offer, Offer::Send(_))).count()
        };
        assert_eq!(offers(&mut series, 0, 0, 100), 25);
        assert_eq!(offers(&mut series, 60, 100, 100), 2);
        let mut sent = 0;
        for minute in 0..2_000_usize {
            sent += offers(&mut series, 60 * minute as u64, 1000 * (minute + 1), 30);
            assert!(series.series.len() <= MAX_SERIES);
        }
        assert!(sent > 1_000, "{sent}");
    }

    #[test]
    fn an_event_that_the_server_lost_is_made_anew() {
        let mut series = EventSeries::new(0, at(0));
        series.offer(happening("x"), at(0));
        series.lost(&happening("x"));
        assert!(matches!(series.offer(happening("x"), at(1)), Offer::Send(Send::Create { number: 1, .. })));
    }
}
