//! Names of the log's files: `audit.log` and, rotated, `audit-<YYYY-MM-DD-HH-MM-SS>-<n>.log`.

use std::fmt;

/// The file that is written to.
pub const CURRENT: &str = "audit.log";

/// Under which name a file is kept that is no log.
pub const SET_ASIDE: &str = "audit.log.damaged";

/// Name of a rotated file. Later files are greater, by rotation and not by the clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RotatedName {
    /// `YYYY-MM-DD-HH-MM-SS`
    time: String,
    number: u64,
}

impl RotatedName {
    /// Reads a file's name; `None` for every other file.
    pub fn parse(name: &str) -> Option<Self> {
        let (time, number) = name.strip_prefix("audit-")?.strip_suffix(".log")?.rsplit_once('-')?;
        let is_time = time.len() == 19
            && time.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 | 10 | 13 | 16 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        // Up to 18 digits, so that there is always a next one.
        let is_number = matches!(number.len(), 1..=18) && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_time && is_number).then_some(Self { time: time.to_owned(), number: number.parse().ok()? })
    }

    /// The name for a file that is rotated at `time` when `newest` is the newest one there. A clock that was
    /// set back, or the hour that comes twice in autumn, must not bring the order into disorder: then the
    /// newest one's time is taken again, with the next number.
    pub fn next(time: String, newest: Option<&Self>) -> Self {
        match newest {
            Some(newest) if newest.time >= time => {
                Self { time: newest.time.clone(), number: newest.number.saturating_add(1) }
            }
            _ => Self { time, number: 0 },
        }
    }
}

impl fmt::Display for RotatedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "audit-{}-{}.log", self.time, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_not_ours() {
        let name = "audit-2026-08-01-23-59-59-10.log";
        assert_eq!(RotatedName::parse(name).unwrap().to_string(), name);
        for other in [
            CURRENT,
            SET_ASIDE,
            "audit-.log",
            "audit-2026-08-01-23-59-59.log",
            "audit-2026-08-01-23-59-59-.log",
            "audit-2026-08-01-23-59-59-+1.log",
            "audit-2026-08-01-23-59-59-1000000000000000000.log",
            "audit-2026-08-01-23-59-59-99999999999999999999.log",
            "audit-2026_08-01-23-59-59-0.log",
            "audit-2026-08-01-23-59-59-0.log.gz",
            "audit-äöüßäöüßä9-0.log",
        ] {
            assert_eq!(RotatedName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn later_files_have_greater_names_whatever_the_clock_says() {
        let mut newest: Option<RotatedName> = None;
        for hour in ["01", "02", "02", "01", "02", "03"] {
            let next = RotatedName::next(format!("2026-10-25-{hour}-00-00"), newest.as_ref());
            assert!(newest.as_ref().is_none_or(|newest| next > *newest), "{next}");
            newest = Some(next);
        }
        assert_eq!(newest.unwrap().to_string(), "audit-2026-10-25-03-00-00-0.log");
        let ten = RotatedName::parse("audit-2026-10-25-02-00-00-10.log").unwrap();
        assert!(ten > RotatedName::parse("audit-2026-10-25-02-00-00-9.log").unwrap());
    }
}
