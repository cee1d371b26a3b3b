//! Times as the audit log writes them: in events (RFC 3339) and in names of files, both in local time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sys::{LocalTime, local_time};

/// `createdAt` of an event: RFC 3339 with microseconds and the offset of the local zone at that moment.
pub fn created_at(at: SystemTime) -> String {
    let (seconds, nanos) = since_epoch(at);
    let LocalTime { year, month, day, hour, minute, second, offset } = local(seconds);
    let micros = nanos / 1000;
    let zone = zone(offset);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}{zone}")
}

/// The time in the name of a rotated file, `YYYY-MM-DD-HH-MM-SS` in local time.
pub fn file_time(at: SystemTime) -> String {
    let LocalTime { year, month, day, hour, minute, second, offset: _ } = local(since_epoch(at).0);
    format!("{year:04}-{month:02}-{day:02}-{hour:02}-{minute:02}-{second:02}")
}

/// Whole seconds since 1970, rounded down, and nanoseconds beyond.
fn since_epoch(at: SystemTime) -> (i64, u32) {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                nanos => {
                    let rest = Duration::from_secs(1).saturating_sub(Duration::from_nanos(nanos.into()));
                    (seconds.saturating_sub(1), rest.subsec_nanos())
                }
            }
        }
    }
}

/// Local time; a year of five digits or none at all stands as the epoch, which RFC 3339 can say.
fn local(seconds: i64) -> LocalTime {
    let epoch = LocalTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0, offset: 0 };
    local_time(seconds).filter(|time| (0..=9999).contains(&time.year)).unwrap_or(epoch)
}

/// `Z` or `±hh:mm`.
fn zone(offset: i64) -> String {
    if offset == 0 {
        return "Z".to_owned();
    }
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_written_as_rfc_3339_wants_them() {
        for (offset, text) in
            [(0, "Z"), (3600, "+01:00"), (-12600, "-03:30"), (20700, "+05:45"), (-36000, "-10:00")]
        {
            assert_eq!(zone(offset), text);
        }
    }

    /// Central Europe, in words that need no zone files.
    const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    #[test]
    fn the_offset_is_that_of_the_moment_in_winter_and_summer() {
        if std::env::var("TZ").is_ok_and(|zone| zone == ZONE) {
            for (seconds, text) in [
                (1_768_478_400, "2026-01-15T13:00:00.000000+01:00"),
                (1_785_000_000, "2026-07-25T19:20:00.000000+02:00"),
                (1_792_888_200, "2026-10-25T02:30:00.000000+02:00"),
                (1_792_891_800, "2026-10-25T02:30:00.000000+01:00"),
            ] {
                assert_eq!(created_at(UNIX_EPOCH + Duration::from_secs(seconds)), text);
            }
            return;
        }
        // The zone of a process must not change under its threads: another process then.
        let name = "report::audit::stamp::tests::the_offset_is_that_of_the_moment_in_winter_and_summer";
        let this = std::env::current_exe().unwrap();
        let child =
            std::process::Command::new(this).args([name, "--exact"]).env("TZ", ZONE).output().unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn any_time_has_a_stamp_of_one_shape() {
        let far = Duration::from_secs(1 << 40);
        for at in [
            UNIX_EPOCH,
            UNIX_EPOCH + Duration::new(1_785_000_000, 123_456_789),
            UNIX_EPOCH - Duration::from_millis(1),
            UNIX_EPOCH + far,
            UNIX_EPOCH - far,
        ] {
            let text = created_at(at);
            assert!(text.len() == 27 || text.len() == 32, "{text}");
            assert_eq!((&text[4..5], &text[10..11], &text[19..20]), ("-", "T", "."), "{text}");
            assert_eq!(file_time(at).len(), 19);
        }
        assert!(created_at(UNIX_EPOCH + Duration::new(1, 123_456_789)).contains(".123456"));
        assert_eq!(since_epoch(UNIX_EPOCH - Duration::from_millis(1)), (-1, 999_000_000));
    }
}
