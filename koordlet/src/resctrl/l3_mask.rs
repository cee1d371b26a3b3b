//! Capacity masks of a last-level cache: a range of percent -> ways, qos.md 5.6.

/// Why there is no mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// The cache's own mask is no number.
    #[error("capacity mask {0:?} is no hexadecimal number of 32 bits")]
    NoMask(String),
    /// The cache's own mask is not all ones from its lowest bit on.
    #[error("capacity mask {0:x} is not all ones from bit 0")]
    Holes(u32),
    /// The range is none.
    #[error("[{start}, {end}] is no range within 0 to 100 percent")]
    Range {
        /// Where it begins.
        start: i64,
        /// Where it ends.
        end: i64,
    },
    /// The cache has fewer ways than a mask must have.
    #[error("capacity mask {cbm:x} has fewer than {min_bits} bits")]
    TooFew {
        /// The cache's own mask.
        cbm: u32,
        /// `min_cbm_bits`
        min_bits: u32,
    },
}

/// Reads a cache's own mask (`info/L3/cbm_mask`).
///
/// # Errors
/// It is no number of 32 bits, or has holes.
pub fn parse_cbm(text: &str) -> Result<u32, MaskError> {
    let text = text.trim();
    let no_mask = || MaskError::NoMask(text.chars().take(32).collect());
    // `from_str_radix` would take a sign.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let cbm = digits.and_then(|text| u32::from_str_radix(text, 16).ok()).ok_or_else(no_mask)?;
    checked(cbm)
}

/// The ways from `start` to `end` percent. It is empty where both fall into the same way.
///
/// # Errors
/// The range is not within 0 to 100 percent, or `cbm` has holes.
pub fn range_mask(cbm: u32, start: i64, end: i64) -> Result<u32, MaskError> {
    let (first, behind) = ways(cbm, start, end)?;
    Ok(mask(first, behind))
}

/// The ways from `start` to `end` percent, at least `min_bits` of them, as the kernel wants (qos.md 12, Q34): from the
/// range's beginning on, or as far below as the cache's end needs.
///
/// # Errors
/// As [`range_mask`], or the cache itself is smaller.
pub fn l3_mask(cbm: u32, start: i64, end: i64, min_bits: u32) -> Result<u32, MaskError> {
    let (first, behind) = ways(cbm, start, end)?;
    let min_bits = min_bits.max(1);
    let last_start = cbm.count_ones().checked_sub(min_bits).ok_or(MaskError::TooFew { cbm, min_bits })?;
    let first = first.min(last_start);
    Ok(mask(first, behind.max(first + min_bits)))
}

fn ways(cbm: u32, start: i64, end: i64) -> Result<(u32, u32), MaskError> {
    let cbm = checked(cbm)?;
    let percent = |percent: i64| u32::try_from(percent).ok().filter(|percent| *percent <= 100);
    match (percent(start), percent(end)) {
        (Some(first), Some(behind)) if first < behind => {
            let way = |percent: u32| (cbm.count_ones() * percent).div_ceil(100);
            Ok((way(first), way(behind)))
        }
        _ => Err(MaskError::Range { start, end }),
    }
}

/// Bits `first` up to but without `behind`, at most 32.
fn mask(first: u32, behind: u32) -> u32 {
    let below = |bit: u32| 1_u32.checked_shl(bit).map_or(u32::MAX, |one| one - 1);
    below(behind) & !below(first)
}

fn checked(cbm: u32) -> Result<u32, MaskError> {
    if cbm & cbm.wrapping_add(1) == 0 { Ok(cbm) } else { Err(MaskError::Holes(cbm)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// qos.md 11 W12 and 13 J1.
    #[test]
    fn a_range_of_percent_is_a_range_of_ways() {
        for (cbm, start, end, want) in [
            ("7ff", 0, 30, "f"),
            ("7ff", 0, 100, "7ff"),
            ("7ff", 30, 100, "7f0"),
            ("7ff", 10, 50, "3c"),
            ("3ff", 10, 80, "fe"),
            ("fffff", 0, 30, "3f"),
            ("ffff", 0, 30, "1f"),
            ("7ff", 10, 15, "0"),
            ("ff", 0, 100, "ff"),
            ("3ff", 0, 30, "7"),
            ("3ff", 10, 85, "1fe"),
            ("fff", 0, 50, "3f"),
            ("f", 30, 60, "4"),
            ("ff", 25, 75, "3c"),
            ("7ff", 90, 100, "400"),
            ("7fff", 0, 1, "1"),
            ("ffffffff", 0, 100, "ffffffff"),
        ] {
            let mask = range_mask(parse_cbm(cbm).unwrap(), start, end).unwrap();
            assert_eq!(format!("{mask:x}"), want, "{cbm} {start} {end}");
        }
        for (cbm, start, end) in [
            (0x101, 0, 50),
            (4, 0, 50),
            (0xff, 30, 30),
            (0xff, -10, 100),
            (0xff, 0, 101),
            (0xff, 0, i64::MAX),
        ] {
            assert!(range_mask(cbm, start, end).is_err(), "{cbm:x} {start} {end}");
        }
    }

    #[test]
    fn c091_q34_a_class_has_at_least_the_bits_that_the_kernel_wants() {
        for (cbm, start, end, min_bits, want) in [
            (0x7ff, 10, 15, 1, 0x4),
            (0x7ff, 10, 15, 2, 0xc),
            (0x7ff, 99, 100, 2, 0x600),
            (0xf, 90, 100, 1, 0x8),
            (0xfff, 0, 100, 1, 0xfff),
            (0xfff, 0, 30, 1, 0xf),
            (0xfff, 0, 1, 1, 0x1),
            (0xfff, 0, 1, 2, 0x3),
            (0xfff, 0, 1, 0, 0x1),
            (u32::MAX, 99, 100, 32, u32::MAX),
        ] {
            assert_eq!(l3_mask(cbm, start, end, min_bits), Ok(want), "{cbm:x} {start} {end} {min_bits}");
        }
        for min_bits in [0, 1, 5, u32::MAX] {
            assert!(matches!(l3_mask(0, 0, 100, min_bits), Err(MaskError::TooFew { .. })));
        }
    }

    #[test]
    fn a_mask_of_a_file_is_hexadecimal_and_has_no_holes() {
        assert_eq!(parse_cbm("7ff\n"), Ok(0x7ff));
        assert_eq!(parse_cbm("0"), Ok(0));
        for text in ["", "-1", "+f", "0x7ff", "7fg", "1ffffffff", "7fe", "f0"] {
            assert!(parse_cbm(text).is_err(), "{text:?}");
        }
    }
}
