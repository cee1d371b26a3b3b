//! The number syntax of Go's `strconv.ParseFloat`, which the node annotation is written in (hooks.md 9.1):
//! decimal and hexadecimal floats with underscores between digits. Rust's own parser knows the decimal half.
//! Infinities and not-a-number are no numbers here.

/// Parses `text` as Go does; `None` for anything that is not a finite number.
pub(super) fn parse(text: &str) -> Option<f64> {
    if text.contains('_') && !underscores_separate_digits(text) {
        return None;
    }
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let (negative, unsigned) = match digits.strip_prefix(['+', '-']) {
        Some(rest) => (digits.starts_with('-'), rest),
        None => (false, digits.as_str()),
    };
    let magnitude = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(hex) => parse_hex(hex)?,
        None => parse_decimal(unsigned)?,
    };
    magnitude.is_finite().then_some(if negative { -magnitude } else { magnitude })
}

/// Go allows an underscore only between digits, or between a base prefix and a digit.
fn underscores_separate_digits(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefix = unsigned.get(..2).is_some_and(|p| ["0x", "0X"].contains(&p));
    let is_digit = |c: char| c.is_ascii_digit() || (prefix && c.is_ascii_hexdigit());
    // The prefix counts as a digit; before it nothing does.
    let (mut last, body) = if prefix { ('0', &unsigned[2..]) } else { ('^', unsigned) };
    for c in body.chars() {
        let joins = is_digit(c) || last != '_';
        if !joins || (c == '_' && !is_digit(last)) {
            return false;
        }
        last = c;
    }
    last != '_'
}

fn parse_decimal(unsigned: &str) -> Option<f64> {
    // Rust also reads `inf`, `nan` and a second sign.
    let starts_right = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let plain = unsigned.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if starts_right && plain { unsigned.parse().ok() } else { None }
}

/// A hexadecimal float after its prefix: hex digits with at most one dot, then `p` and a decimal exponent.
fn parse_hex(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut binary_exponent = parse_exponent(exponent)?;
    let (mut bits, mut dropped) = (0_u64, false);
    for (digit, is_fraction) in whole.chars().map(|c| (c, false)).chain(fraction.chars().map(|c| (c, true))) {
        let value = u64::from(digit.to_digit(16)?);
        if bits >> 60 == 0 {
            bits = (bits << 4) | value;
            binary_exponent -= if is_fraction { 4 } else { 0 };
        } else {
            dropped |= value != 0;
            binary_exponent += if is_fraction { 0 } else { 4 };
        }
    }
    // A sticky last bit keeps the rounding to 53 bits right for longer mantissas.
    Some(scale_by_power_of_two((bits | u64::from(dropped)) as f64, binary_exponent))
}

/// Decimal digits with a sign; far beyond a double's range it saturates.
fn parse_exponent(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse::<i32>().unwrap_or(i32::MAX).min(100_000))
}

fn scale_by_power_of_two(mut value: f64, mut exponent: i32) -> f64 {
    // In steps, since 2^exponent itself may be out of range where the product is not.
    while exponent != 0 && value != 0.0 && value.is_finite() {
        let step = exponent.clamp(-1000, 1000);
        value *= 2.0_f64.powi(step);
        exponent -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn go_numbers_are_read() {
        for (text, value) in [
            ("+1.5", 1.5),
            ("-1", -1.0),
            (".5", 0.5),
            ("1.", 1.0),
            ("1e0", 1.0),
            ("1E+2", 100.0),
            ("1_0.5", 10.5),
            ("1_0e1_0", 1e11),
            ("0x1p1", 2.0),
            ("0X1.8P0", 1.5),
            ("0x_1p-1", 0.5),
            ("0x.8p1", 1.0),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1fffffffffffff8p0", 144_115_188_075_855_870.0),
            ("0x10000000000000801p-64", 1.0 + f64::EPSILON),
            ("007", 7.0),
        ] {
            assert_eq!(parse(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_or_is_not_finite_is_no_number() {
        for text in [
            "",
            " ",
            "abc",
            " 1.5",
            "1.5 ",
            "0x10",
            "0x",
            "0xp1",
            "0x1p",
            "0x1p+",
            "0x1pz",
            "0x1.8.0p1",
            "1e",
            "1e+",
            "1.2.3",
            "+",
            "--1",
            "+-1",
            "_1",
            "1_",
            "1__0",
            "1_.5",
            "1._5",
            "1e_5",
            "1_e5",
            "0_x1p1",
            ".",
            "e5",
            "NaN",
            "nan",
            "Inf",
            "+Inf",
            "-Inf",
            "infinity",
            "1e400",
            "0x1p2000",
            "1,5",
            "1.5f",
            "１",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
