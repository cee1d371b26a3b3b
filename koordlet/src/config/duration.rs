//! Durations in Go's syntax (`1m30s`, `100ms`, `1.5h`), as every duration flag takes them.

use std::time::Duration;

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

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,20}|[0-9.]{0,25}(ns|s|h|m)?") {
            if let Err(error) = parse_duration(&text) {
                prop_assert!(error.to_string().contains("not a duration"));
            }
        }
    }
}
