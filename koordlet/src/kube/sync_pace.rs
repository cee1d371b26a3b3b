//! When the kubelet is asked for its pods, as a value: no clock, no task.
//!
//! - regularly, and from the last request on: one that an event asked for restarts the interval (collection.md 7.5);
//! - soon after an event, once for all events of [`GATHER`];
//! - again some time after a container was born, as long as its status has not come: the kubelet itself learns of a
//!   container by looking at its runtime once a second;
//! - never more than [`MAX_A_SECOND`] times in any second. What has to wait for that is asked for later, never left
//!   out. (The reference drops it, and its bucket of ten lets fourteen requests through in a first second.)
//! - after a failure with growing pauses, up to the interval.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::pod_list::PodMap;
use super::pod_trigger::{ContainerBirth, Told};

/// How long events are gathered.
pub(super) const GATHER: Duration = Duration::from_millis(15);
/// Most requests in any second.
pub(super) const MAX_A_SECOND: usize = 5;
/// When after its birth a container's status is looked for again. A kubelet 1.36 had it within a second.
const FOLLOW_UPS: [Duration; 3] =
    [Duration::from_millis(400), Duration::from_millis(1200), Duration::from_secs(3)];
/// First pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

/// Why a request is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The interval, the start, or the pause after a failure.
    Regular,
    /// Events.
    Event,
    /// Events, later than [`GATHER`] after them.
    Deferred,
    /// A container whose status is missing.
    FollowUp,
}

/// When the next request is due.
#[derive(Debug)]
pub(super) struct SyncPace {
    interval: Duration,
    /// The next regular one, or the next try after a failure.
    regular: Instant,
    /// Since when an event waits.
    asked: Option<Instant>,
    /// Containers whose status is missing, with the number of looks so far.
    births: Vec<(ContainerBirth, usize)>,
    /// Begins of the last requests, the oldest first.
    begins: VecDeque<Instant>,
    failures: u32,
}

impl SyncPace {
    /// The first request is due at `now`.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            regular: now,
            asked: None,
            births: Vec::new(),
            begins: VecDeque::with_capacity(MAX_A_SECOND),
            failures: 0,
        }
    }

    /// Events came.
    pub(super) fn told(&mut self, told: Told) {
        if let Some(since) = told.since {
            self.asked = Some(self.asked.map_or(since, |earlier| earlier.min(since)));
        }
        self.births.extend(told.births.into_iter().map(|birth| (birth, 0)));
    }

    /// The kubelet is another one: no pause counts any more.
    pub(super) fn at_once(&mut self, now: Instant) {
        self.failures = 0;
        self.regular = now;
    }

    /// When the next request is due, and why.
    pub(super) fn due(&self) -> (Instant, Cause) {
        let mut wishes = vec![(self.regular, Cause::Regular)];
        let allowed = self.allowed();
        if let Some(asked) = self.asked {
            let wish = asked + GATHER;
            let is_late = allowed.is_some_and(|allowed| allowed > wish);
            wishes.push((wish, if is_late { Cause::Deferred } else { Cause::Event }));
        }
        wishes.extend(self.births.iter().filter_map(|(birth, looks)| {
            FOLLOW_UPS.get(*looks).map(|after| (birth.at + *after, Cause::FollowUp))
        }));
        let first = wishes.into_iter().min_by_key(|(at, _)| *at);
        let (at, cause) = first.unwrap_or((self.regular, Cause::Regular));
        (allowed.map_or(at, |allowed| at.max(allowed)), cause)
    }

    /// The earliest moment for a request, by the limit and the pause after a failure.
    fn allowed(&self) -> Option<Instant> {
        let oldest = self.begins.front().filter(|_| self.begins.len() >= MAX_A_SECOND);
        let limit = oldest.map(|oldest| *oldest + SECOND);
        limit.max((self.failures > 0).then_some(self.regular))
    }

    /// A request begins. It answers all that was told so far.
    pub(super) fn begin(&mut self, now: Instant) {
        self.asked = None;
        while self.begins.len() >= MAX_A_SECOND {
            self.begins.pop_front();
        }
        self.begins.push_back(now);
        for (birth, looks) in &mut self.births {
            while FOLLOW_UPS.get(*looks).is_some_and(|after| birth.at + *after <= now) {
                *looks += 1;
            }
        }
    }

    /// A request ended well with these pods. `spread` in 0..=1 moves the next regular one by a twentieth.
    pub(super) fn succeeded(&mut self, pods: &PodMap, now: Instant, spread: f64) {
        self.failures = 0;
        self.births.retain(|(birth, looks)| *looks < FOLLOW_UPS.len() && !birth.is_settled(pods));
        self.regular = now + self.interval.mul_f64(0.95 + 0.1 * spread.clamp(0.0, 1.0));
    }

    /// A request failed. What it was to tell is what the next try tells.
    pub(super) fn failed(&mut self, now: Instant, spread: f64) {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        let pause = doubled.min(self.interval).mul_f64(0.75 + 0.25 * spread.clamp(0.0, 1.0));
        self.births.retain(|(_, looks)| *looks < FOLLOW_UPS.len());
        self.regular = now + pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn told(at: Instant) -> Told {
        Told { since: Some(at), births: Vec::new() }
    }

    /// Runs requests that take no time until `end`; events come at the moments of `events`.
    fn run(pace: &mut SyncPace, events: &[Instant], end: Instant) -> Vec<(Instant, Cause)> {
        let mut events = events.iter().copied().peekable();
        let mut requests = Vec::new();
        loop {
            let (due, cause) = pace.due();
            if let Some(event) = events.next_if(|event| *event <= due) {
                pace.told(told(event));
                continue;
            }
            if due > end {
                return requests;
            }
            pace.begin(due);
            pace.succeeded(&PodMap::new(), due, 0.5);
            requests.push((due, cause));
        }
    }

    #[test]
    fn an_event_is_asked_for_at_once_and_restarts_the_interval() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = SyncPace::new(INTERVAL, start);
        let requests = run(&mut pace, &[at(4000), at(4010)], at(20_000));
        let expected = [(at(0), Cause::Regular), (at(4015), Cause::Event), (at(14_015), Cause::Regular)];
        assert_eq!(requests, expected);
    }

    #[test]
    fn a_burst_gets_five_requests_in_any_second_and_its_end_is_seen() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = SyncPace::new(INTERVAL, start);
        let events: Vec<Instant> = (0..200).map(|event| at(20 + event * 25)).collect();
        let requests = run(&mut pace, &events, at(9000));
        for (begin, _) in &requests {
            let within =
                requests.iter().filter(|(other, _)| other >= begin && *other < *begin + SECOND).count();
            assert!(within <= MAX_A_SECOND, "{within} requests within a second");
        }
        let last = requests.iter().find(|(begin, _)| *begin >= events[199]);
        assert!(last.is_some_and(|(begin, _)| *begin <= events[199] + SECOND + GATHER), "{last:?}");
        assert!(requests.len() >= 25, "{}", requests.len());
        assert!(requests.iter().any(|(_, cause)| *cause == Cause::Deferred));
        assert!(requests.iter().all(|(begin, _)| *begin <= at(7000)), "nothing is left to ask for");
    }

    #[test]
    fn failures_pause_longer_and_longer_and_keep_what_was_asked() {
        let start = Instant::now();
        let mut pace = SyncPace::new(INTERVAL, start);
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pace.begin(now);
            pace.failed(now, 1.0);
            pace.told(told(now));
            let (due, _) = pace.due();
            pauses.push((due - now).as_millis());
            now = due;
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
        pace.begin(now);
        pace.succeeded(&PodMap::new(), now, 0.5);
        assert_eq!(pace.due(), (now + INTERVAL, Cause::Regular));
        pace.failed(now, 1.0);
        pace.at_once(now);
        assert_eq!(pace.due().0, now);
    }

    #[test]
    fn a_container_without_status_is_looked_for_again_and_not_for_ever() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let birth = ContainerBirth { pod: "u".into(), id: "c".into(), at: at(1000) };
        let pods: PodMap = [("u".into(), std::sync::Arc::default())].into();
        let mut pace = SyncPace::new(INTERVAL, start);
        pace.begin(start);
        pace.succeeded(&pods, start, 0.5);
        pace.told(Told { since: Some(at(1000)), births: vec![birth] });
        let mut begins = Vec::new();
        for _ in 0..5 {
            let (due, cause) = pace.due();
            pace.begin(due);
            pace.succeeded(&pods, due, 0.5);
            begins.push((due, cause));
        }
        let expected = [
            (at(1015), Cause::Event),
            (at(1400), Cause::FollowUp),
            (at(2200), Cause::FollowUp),
            (at(4000), Cause::FollowUp),
            (at(14_000), Cause::Regular),
        ];
        assert_eq!(begins, expected);
    }
}
