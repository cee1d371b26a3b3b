//! The query string of `GET /events`, collection.md 13.2. Whatever it holds, it is an answer or a 400.

use std::fmt::Write;

/// Events a page where `size` is absent or no number.
const DEFAULT_SIZE: usize = 256;
/// Longest query string.
const MAX_QUERY: usize = 4096;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsQuery {
    /// Events on the page, at most.
    pub size: usize,
    /// The reader to go on with.
    pub token: Option<String>,
}

/// Why a query string cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Too long.
    #[error("the query is longer than {MAX_QUERY} bytes")]
    TooLong,
    /// `%` without two digits, or bytes that are no UTF-8.
    #[error("the query is badly escaped")]
    Escape,
    /// One name, two values.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// Below 0 or above what is allowed.
    #[error("size must be 0 to {0}")]
    Size(usize),
}

impl EventsQuery {
    /// Reads a query string; `max` is `--audit-max-events-limit`.
    pub fn parse(query: &str, max: usize) -> Result<Self, QueryError> {
        if query.len() > MAX_QUERY {
            return Err(QueryError::TooLong);
        }
        let (mut size, mut token) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (unescape(name)?, unescape(value)?);
            match name.as_str() {
                "size" if size.replace(read_size(&value, max)?).is_some() => {
                    return Err(QueryError::Twice("size"));
                }
                "pageToken" if token.replace(value).is_some() => return Err(QueryError::Twice("pageToken")),
                _ => {}
            }
        }
        let size = size.unwrap_or(DEFAULT_SIZE.min(max));
        Ok(Self { size, token: token.filter(|token| !token.is_empty()) })
    }
}

/// A size; what is no number counts as none given, a number that cannot be had is an error.
fn read_size(text: &str, max: usize) -> Result<usize, QueryError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(DEFAULT_SIZE.min(max));
    }
    let number = text.parse::<i128>().ok().and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number <= max).ok_or(QueryError::Size(max))
}

/// Takes percent escapes and `+` back.
fn unescape(text: &str) -> Result<String, QueryError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let code = digit(rest.next()).zip(digit(rest.next())).map(|(high, low)| high * 16 + low);
                bytes.push(code.and_then(|code| u8::try_from(code).ok()).ok_or(QueryError::Escape)?);
            }
            b'+' => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| QueryError::Escape)
}

/// 16 random bytes as a version 4 UUID.
pub fn uuid(mut random: [u8; 16]) -> String {
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut random;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in random.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        if write!(text, "{dash}{byte:02x}").is_err() {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(query: &str) -> Result<usize, QueryError> {
        EventsQuery::parse(query, 2048).map(|query| query.size)
    }

    #[test]
    fn collection_row_77_sizes() {
        assert_eq!((size("size=abc"), size("size=2048"), size("")), (Ok(256), Ok(2048), Ok(256)));
        assert_eq!(size("size=2049"), Err(QueryError::Size(2048)));
    }

    #[test]
    fn hostile_sizes_are_no_panic_and_no_page() {
        for text in ["-1", "99999999999999999999", "-99999999999999999999", &"9".repeat(300), "2049"] {
            assert_eq!(size(&format!("size={text}")), Err(QueryError::Size(2048)), "{text}");
        }
        for text in ["", "1e3", "0x10", "1.5", "+", "-", "%20", "\u{664}", "12a"] {
            assert_eq!(size(&format!("size={text}")), Ok(256), "{text}");
        }
        assert_eq!((size("size=0"), size("size=%31%30"), size("size=%2B7")), (Ok(0), Ok(10), Ok(7)));
        assert_eq!(EventsQuery::parse("size=x", 10).unwrap().size, 10);
    }

    #[test]
    fn broken_and_doubtful_queries_are_refused() {
        for query in ["size=%", "size=%4", "size=%zz", "a=%", "pageToken=%ff", "%ff=1", "size=%+1"] {
            assert_eq!(EventsQuery::parse(query, 2048), Err(QueryError::Escape), "{query}");
        }
        assert_eq!(size("size=1&size=1"), Err(QueryError::Twice("size")));
        assert_eq!(size("pageToken=a&size=2&pageToken="), Err(QueryError::Twice("pageToken")));
        assert_eq!(size(&"x".repeat(MAX_QUERY + 1)), Err(QueryError::TooLong));
        let query = EventsQuery::parse("&&a=b&size=3&pageToken=t%2D1&", 2048).unwrap();
        assert_eq!(query, EventsQuery { size: 3, token: Some("t-1".into()) });
        assert_eq!(EventsQuery::parse("pageToken=&size", 2048).unwrap().token, None);
    }

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }

    proptest! {
        #[test]
        fn any_query_is_an_answer(query in ".{0,80}|(size|pageToken|[%&=+-9a-f]){0,40}") {
            if let Ok(query) = EventsQuery::parse(&query, 2048) {
                prop_assert!(query.size <= 2048);
            }
        }
    }
}
