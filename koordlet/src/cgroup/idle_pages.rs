//! `memory.idle_page_stats` of kernels with kidled: how long pages were not touched (collection.md 6.10). Text in,
//! figures out. Such kernels have cgroup v1 only.

use super::read::StatError;
use super::resource::Resource;
use crate::units::Bytes;

/// Lines of the file.
const LINES: usize = 31;

/// The line that tells the buckets.
const BUCKETS_LINE: usize = 5;

/// The first line with figures; the ones before it draw what the letters of a row's name mean.
const FIRST_ROW: usize = 14;

/// Figures of a row, one for each bucket.
const BUCKETS: usize = 8;

/// Scan periods without a touch after which a page is cold. A bucket's number is the least of its pages.
const COLD_PERIODS: u64 = 60;

/// Rows of file pages on the inactive lists: clean and dirty, evictable and not.
const COLD_ROWS: [&str; 4] = ["cfei", "dfei", "cfui", "dfui"];

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePages {
    /// File pages on inactive lists that were idle for 60 scan periods or longer.
    pub cold: Bytes,
}

/// Parses the text, without its last line break: 31 lines, of which five tell numbers of the scan, one the buckets,
/// and the last 17 have a name and a figure in bytes for each bucket.
pub fn parse_idle_pages(text: &str) -> Result<IdlePages, StatError> {
    let malformed = |text: &str| StatError::malformed(Resource::IdlePageStats, text);
    if text.split('\n').count() != LINES {
        return Err(malformed(text));
    }
    let mut from = 0;
    let mut cold = 0u64;
    let mut rows_found = 0;
    for (number, line) in text.split('\n').enumerate() {
        match number {
            0 => drop(header(line).ok_or_else(|| malformed(line))?),
            1..BUCKETS_LINE => {
                let value = header(line).and_then(digits);
                value.ok_or_else(|| malformed(line))?;
            }
            BUCKETS_LINE => from = first_cold_bucket(line).ok_or_else(|| malformed(line))?,
            FIRST_ROW.. => {
                let (name, figures) = row(line).ok_or_else(|| malformed(line))?;
                if COLD_ROWS.contains(&name) {
                    rows_found += 1;
                    for figure in figures.into_iter().skip(from) {
                        cold = cold.checked_add(figure).ok_or_else(|| malformed(line))?;
                    }
                }
            }
            _ => {}
        }
    }
    if rows_found == COLD_ROWS.len() { Ok(IdlePages { cold: Bytes(cold) }) } else { Err(malformed(text)) }
}

/// `# name: value`
fn header(line: &str) -> Option<&str> {
    let (name, value) = line.strip_prefix("# ")?.split_once(':')?;
    (!name.is_empty()).then_some(value.trim())
}

/// Index of the first bucket of cold pages: 5 with the kernel's own `1,2,5,15,30,60,120,240`.
fn first_cold_bucket(line: &str) -> Option<usize> {
    let bounds: Option<Vec<u64>> = header(line)?.split(',').map(|bound| digits(bound.trim())).collect();
    let bounds = bounds.filter(|bounds| bounds.len() == BUCKETS && bounds.is_sorted())?;
    Some(bounds.iter().position(|bound| *bound >= COLD_PERIODS).unwrap_or(BUCKETS))
}

fn row(line: &str) -> Option<(&str, [u64; BUCKETS])> {
    let mut fields = line.split_ascii_whitespace();
    let name = fields.next()?;
    let figures: Option<Vec<u64>> = fields.map(digits).collect();
    Some((name, figures?.try_into().ok()?))
}

fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as the kernel prints it, with these rows of cold candidates.
    fn file(rows: &[(&str, &str)]) -> String {
        let head = "# version: 1.0\n# page_scans: 24\n# slab_scans: 0\n# scan_period_in_seconds: 5\n\
                    # use_hierarchy: 1\n# buckets: 1,2,5,15,30,60,120,240\n#\n#   _-----=> clean/dirty\n\
                    #  / _----=> swap/file\n# | / _---=> evict/unevict\n# || / _--=> inactive/active\n\
                    # ||| / _-=> slab\n# |||| /\n# ||||| [1,2) [2,5)\n";
        let names = [
            "csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui", "csea", "dsea", "cfea", "dfea",
            "csua", "dsua", "cfua", "dfua", "slab",
        ];
        let lines = names.map(|name| {
            let figures = rows.iter().find(|(row, _)| *row == name).map_or("0 0 0 0 0 0 0 0", |(_, f)| f);
            format!("{name} {figures}")
        });
        format!("{head}{}", lines.join("\n"))
    }

    fn example() -> String {
        file(&[
            ("cfei", "1 1 1 1 1 100 10 1"),
            ("dfei", "0 0 0 0 0 5 0 0"),
            ("csei", "7 7 7 7 7 7 7 7"),
            ("cfea", "9 9 9 9 9 9 9 9"),
        ])
    }

    #[test]
    fn cold_pages_follow_the_worked_example() {
        assert_eq!(parse_idle_pages(&example()).unwrap().cold, Bytes(116));
    }

    #[test]
    fn other_buckets_move_the_boundary_and_sixty_periods_stay() {
        let text = example().replace("1,2,5,15,30,60,120,240", "1,2,5,15,30,45,60,120");
        assert_eq!(parse_idle_pages(&text).unwrap().cold, Bytes(11));
        let text = example().replace("1,2,5,15,30,60,120,240", "1,2,3,4,5,6,7,8");
        assert_eq!(parse_idle_pages(&text).unwrap().cold, Bytes(0));
    }

    #[test]
    fn another_form_is_an_error_and_nothing_overflows() {
        let good = example();
        for bad in [
            String::new(),
            format!("{good}\n"),
            good.replacen('\n', "", 1),
            good.replace("version: 1.0", "version 1.0"),
            good.replace("page_scans: 24", "page_scans: -1"),
            good.replace("60,120,240", "60,120"),
            good.replace("60,120,240", "240,120,60"),
            good.replace("dfui 0", "dfui x"),
            good.replace("dfui 0 ", "dfui "),
            good.replace("dfui", "cfxx"),
            good.replace("slab 0", "slab 18446744073709551616"),
            good.replace("100 10 1", &format!("{} 10 1", u64::MAX)),
        ] {
            let error = parse_idle_pages(&bad).unwrap_err().to_string();
            assert!(error.len() < 200, "{error}");
        }
    }
}
