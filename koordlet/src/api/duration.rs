//! Durations in Go's syntax (`1m30s`, `100ms`, `1.5h`), as flags and objects hold them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Text that is not a Go duration, or one below zero.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration like 1s, 1m30s or 100ms")]
pub struct DurationError(String);

/// Parses a duration of zero or more: decimal numbers, each with a unit (`ns us ms s m h`), or a bare `0`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.chars().take(80).collect());
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(error());
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = one_part(rest).ok_or_else(error)?;
        nanos = nanos.checked_add(part).ok_or_else(error)?;
        rest = after;
    }
    Ok(Duration::from_nanos(nanos))
}

/// A duration in an object, written as Go prints it: `5m0s`, `1h0m0s`, `1.5s`, `100ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0.as_secs(), u64::from(self.0.subsec_nanos()));
        if whole == 0 && nanos > 0 {
            return match nanos {
                1_000_000.. => write!(f, "{}ms", Decimal(nanos, 1_000_000)),
                1_000.. => write!(f, "{}µs", Decimal(nanos, 1_000)),
                _ => write!(f, "{nanos}ns"),
            };
        }
        let (hours, minutes, seconds) = (whole / 3_600, whole / 60 % 60, whole % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if whole >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", Decimal(seconds * NANOS_PER_SECOND + nanos, NANOS_PER_SECOND))
    }
}

/// A number of parts, of which the second figure (a power of ten) make one: without zeros at the end.
struct Decimal(u64, u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(parts, one) = *self;
        write!(f, "{}", parts / one)?;
        let (mut rest, mut place) = (parts % one, one);
        if rest > 0 {
            f.write_str(".")?;
        }
        while rest > 0 {
            place /= 10;
            write!(f, "{}", rest / place)?;
            rest %= place;
        }
        Ok(())
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// The nanoseconds of the first number with its unit, and what follows it.
fn one_part(text: &str) -> Option<(u64, &str)> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(unit_at);
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let scale = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    };
    Some((scaled(number, scale)?, rest))
}

/// `number` (digits with at most one point) times `scale`, in integers; a fraction is cut off.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.checked_add(u64::from(digit.checked_sub(b'0')?).checked_mul(place)?)?;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_follow_go() {
        let ms = |text| parse_duration(text).unwrap().as_millis();
        assert_eq!(
            ["0", "0s", "1s", "1m30s", "100ms", "1.5s", "2h", ".5s", "+1s", "1h0m0s"].map(ms),
            [0, 0, 1000, 90_000, 100, 1500, 7_200_000, 500, 1000, 3_600_000]
        );
        assert_eq!(parse_duration("1us2ns").unwrap().as_nanos(), 1002);
        for text in ["", "1", "s", "1x", "-1s", "1.2.3s", ".s", "1s ", "99999999999999h", "1s1"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_go_prints_them() {
        for (text, printed) in [
            ("0", "0s"),
            ("1s", "1s"),
            ("300s", "5m0s"),
            ("10m", "10m0s"),
            ("1h", "1h0m0s"),
            ("24h0m1s", "24h0m1s"),
            ("1500ms", "1.5s"),
            ("90.25s", "1m30.25s"),
            ("100ms", "100ms"),
            ("1.5ms", "1.5ms"),
            ("2us", "2µs"),
            ("7ns", "7ns"),
            ("3600.000000001s", "1h0m0.000000001s"),
        ] {
            assert_eq!(GoDuration(parse_duration(text).unwrap()).to_string(), printed);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(nanos: u64, whole in 0_u64..200_000) {
            for duration in [Duration::from_nanos(nanos), Duration::from_secs(whole)] {
                let json = serde_json::to_string(&GoDuration(duration)).unwrap();
                prop_assert_eq!(serde_json::from_str::<GoDuration>(&json).unwrap().0, duration);
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}|[0-9.]{0,25}(ns|s|h|m)?") {
            if let Err(error) = parse_duration(&text) {
                prop_assert!(error.to_string().contains("not a duration"));
            }
        }
    }
}
