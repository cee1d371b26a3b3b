//! What was asked of the API server and what came of it, counted for the metrics page, and what is wrong at present.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::kind::Kind;
use super::reason::Reason;
use crate::host::clock::monotonic;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// All objects of a selection.
    List,
    /// Their changes.
    Watch,
    /// One object.
    Get,
    /// A new object.
    Create,
    /// A change.
    Patch,
    /// Anything else.
    Other,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::List, Self::Watch, Self::Get, Self::Create, Self::Patch, Self::Other];

    /// By the name that kube gives its request.
    pub fn of_name(name: &str) -> Self {
        match name {
            "list" => Self::List,
            "watch" => Self::Watch,
            "get" => Self::Get,
            "create" => Self::Create,
            "patch" | "patch_status" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Name of the label.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
            Self::Get => "get",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Other => "other",
        }
    }
}

/// Counters of one kind. Atomic, since requests run beside each other; none guards anything.
#[derive(Debug, Default)]
struct KindStats {
    requests: [AtomicU64; Verb::ALL.len()],
    errors: [AtomicU64; Reason::ALL.len()],
    events: AtomicU64,
    /// Monotonic nanoseconds of the last list or event; 0 before the first.
    last_event: AtomicU64,
    trouble: Mutex<Option<String>>,
}

/// Counters of all kinds.
#[derive(Debug, Default)]
pub struct ApiStats {
    kinds: [KindStats; Kind::ALL.len()],
    /// Kubernetes events that were given up, for want of room or budget.
    dropped_events: AtomicU64,
    /// Clients made since the start; the first counts.
    connects: AtomicU64,
}

impl ApiStats {
    fn of(&self, kind: Kind) -> Option<&KindStats> {
        self.kinds.get(kind as usize)
    }

    /// A request is sent.
    pub fn request(&self, kind: Kind, verb: Verb) {
        if let Some(count) = self.of(kind).and_then(|stats| stats.requests.get(verb as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Something failed.
    pub fn error(&self, kind: Kind, reason: Reason) {
        if let Some(count) = self.of(kind).and_then(|stats| stats.errors.get(reason as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An object, or its absence, was seen.
    pub fn event(&self, kind: Kind) {
        if let Some(stats) = self.of(kind) {
            stats.events.fetch_add(1, Ordering::Relaxed);
            stats.last_event.store(monotonic().0.max(1), Ordering::Relaxed);
        }
    }

    /// What is wrong with a kind from now on; `None`: nothing.
    pub fn set_trouble(&self, kind: Kind, what: Option<String>) {
        if let Some(stats) = self.of(kind) {
            *stats.trouble.lock().unwrap_or_else(PoisonError::into_inner) = what;
        }
    }

    /// A Kubernetes event was given up.
    pub fn dropped_event(&self) {
        self.dropped_events.fetch_add(1, Ordering::Relaxed);
    }

    /// A client was made.
    pub fn connected(&self) {
        self.connects.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests of a kind so far.
    pub fn requests(&self, kind: Kind, verb: Verb) -> u64 {
        let count = self.of(kind).and_then(|stats| stats.requests.get(verb as usize));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// All requests so far.
    pub fn all_requests(&self) -> u64 {
        let counts = self.kinds.iter().flat_map(|stats| &stats.requests);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Failures of a kind so far.
    pub fn errors(&self, kind: Kind, reason: Reason) -> u64 {
        let count = self.of(kind).and_then(|stats| stats.errors.get(reason as usize));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Objects of a kind seen so far, and the age of the last.
    pub fn events(&self, kind: Kind) -> (u64, Option<Duration>) {
        let Some(stats) = self.of(kind) else { return (0, None) };
        let last = stats.last_event.load(Ordering::Relaxed);
        let age = (last > 0).then(|| Duration::from_nanos(monotonic().0.saturating_sub(last)));
        (stats.events.load(Ordering::Relaxed), age)
    }

    /// What is wrong with a kind at present.
    pub fn trouble(&self, kind: Kind) -> Option<String> {
        self.of(kind)?.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kubernetes events given up so far.
    pub fn dropped_events(&self) -> u64 {
        self.dropped_events.load(Ordering::Relaxed)
    }

    /// Clients made so far.
    pub fn connects(&self) -> u64 {
        self.connects.load(Ordering::Relaxed)
    }
}
