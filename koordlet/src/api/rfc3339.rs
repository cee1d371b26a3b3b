//! Points in time as Kubernetes objects hold them: RFC 3339 text with whole seconds, in UTC (`metav1.Time`).

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

/// Reads a time; `None` for any other text.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// The text of a time, fractions of a second cut off.
pub fn text(time: Timestamp) -> String {
    // Towards 1970; Go cuts the same way for every time that an object holds.
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Writes a time, or `null`.
pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_str(&text(*time)),
        None => serializer.serialize_none(),
    }
}

/// Reads a time; `null` is none.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let wrong = || serde::de::Error::custom(format_args!("{text:.40?} is not an RFC 3339 time"));
    parse(&text).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_of_utc() {
        let time = parse("2024-01-01T02:00:00.75+02:00").unwrap();
        assert_eq!(time.as_second(), 1_704_067_200);
        assert_eq!(text(time), "2024-01-01T00:00:00Z");
        assert_eq!(text(parse("0001-01-01T00:00:00Z").unwrap()), "0001-01-01T00:00:00Z");
        for text in ["", "2024-01-01", "yesterday", "2024-13-01T00:00:00Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
