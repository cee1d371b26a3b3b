//! Why a sample or a question was not taken.

use super::key::SeriesKey;
use super::metric::{Metric, Property};
use crate::units::Nanos;

/// Why one sample was not taken. The others of its batch are (collection.md 15 row 26).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The key lacks properties of its kind or has others.
    #[error("{key} is no series of {}: it has the properties {}", key.metric(), names(key.metric()))]
    Properties {
        /// The key.
        key: SeriesKey,
    },
    /// Not a number, infinite, or too large for what the kind keeps.
    #[error("{value} is no value for {key}")]
    Value {
        /// The series.
        key: SeriesKey,
        /// The value.
        value: f64,
    },
    /// Older than the newest sample of the series.
    #[error("{key} has a newer sample than that of {at} ns: {newest} ns")]
    Older {
        /// The series.
        key: SeriesKey,
        /// Of the sample.
        at: Nanos,
        /// Of the series' newest.
        newest: Nanos,
    },
    /// There is one of that time, and it is another.
    #[error("{key} has another value than {value} at {at} ns")]
    Conflict {
        /// The series.
        key: SeriesKey,
        /// The time of both.
        at: Nanos,
        /// The value of the later one.
        value: f64,
    },
    /// Older than what is kept of the kind.
    #[error("a sample of {at} ns is older than what is kept of {key}")]
    Outdated {
        /// The series.
        key: SeriesKey,
        /// Of the sample.
        at: Nanos,
    },
    /// The bytes that may be used are used up, and nothing idle is left to give up.
    #[error("no room for {key}: {used} of {most} bytes are used")]
    NoRoom {
        /// The series.
        key: SeriesKey,
        /// Bytes in use.
        used: usize,
        /// The bound.
        most: usize,
    },
}

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The kind has no such property.
    #[error("{metric} has no property {}: it has {}", property.name(), names(*metric))]
    Property {
        /// The kind.
        metric: Metric,
        /// The property.
        property: Property,
    },
}

fn names(metric: Metric) -> String {
    let names: Vec<_> = metric.properties().iter().map(|property| property.name()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
