//! Kubernetes quantities (`1500m`, `2Gi`, `1e3`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::MilliCpu;

const NANO: i128 = 1_000_000_000;

/// A quantity, kept exactly as an integer number of nano-units (10^-9), the finest that Kubernetes keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

/// Text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity")]
pub struct QuantityError(String);

impl Quantity {
    /// A whole number.
    pub fn from_integer(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANO }
    }

    /// Thousandths, rounded away from zero (`quantity.milli` of qos.md 0).
    pub fn milli(self) -> i64 {
        div_away_from_zero(self.nanos, NANO / 1000)
    }

    /// The whole number, rounded away from zero (`quantity.value` of qos.md 0).
    pub fn value(self) -> i64 {
        div_away_from_zero(self.nanos, NANO)
    }

    /// CPU in milli-cores, rounded up.
    pub fn milli_cpu(self) -> MilliCpu {
        MilliCpu(self.milli())
    }

    /// Thousandths.
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * (NANO / 1000) }
    }

    /// As Kubernetes writes a decimal quantity, collection.md 9.4: `1500m`, `2`, `1k`.
    pub fn decimal_text(self) -> String {
        let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        largest(self.nanos, 1000, &suffixes)
    }

    /// As Kubernetes writes an amount of bytes, collection.md 9.4: `8500Mi`, `1536`. What is below 1024 or no whole
    /// number is written as a decimal one.
    pub fn binary_text(self) -> String {
        if self.nanos % NANO != 0 || self.nanos.abs() < 1024 * NANO {
            return self.decimal_text();
        }
        largest(self.nanos / NANO, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    }

    /// Whether it is exactly zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }

    /// The difference, saturating; may be negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }

    /// One of `shares` equal shares, rounded up to a thousandth; the whole for no share. For amounts from zero up.
    #[must_use]
    pub fn share_of(self, shares: usize) -> Self {
        let unit = i128::try_from(shares.max(1)).unwrap_or(i128::MAX).saturating_mul(NANO / 1000);
        let rounded_up = self.nanos / unit + i128::from(self.nanos % unit > 0);
        Self { nanos: rounded_up.saturating_mul(NANO / 1000) }
    }
}

/// Rounds away from zero, as Kubernetes does, and saturates to i64.
fn div_away_from_zero(value: i128, unit: i128) -> i64 {
    let rounded = value / unit + if value % unit == 0 { 0 } else { value.signum() };
    i64::try_from(rounded).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// `value` in the largest unit that divides it; each unit is `step` of the one before.
fn largest(mut value: i128, step: i128, suffixes: &[&str]) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let mut suffixes = suffixes.iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while value % step == 0 {
        let Some(next) = suffixes.next() else { break };
        value /= step;
        suffix = next;
    }
    format!("{value}{suffix}")
}

/// Multiplier of a suffix as (base, exponent).
fn suffix_scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
            if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (10, digits.parse().ok()?)
        }
    })
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Kubernetes' grammar; finer than a nano-unit rounds away from zero, larger than fits saturates.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || QuantityError(text.chars().take(80).collect());
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(error());
        }
        let (base, exponent) = suffix_scale(suffix).ok_or_else(error)?;

        // mantissa x base^exponent / 10^fraction digits, in nanos
        let mut nanos: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            nanos = nanos.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        let mut decimal = 9 - i32::try_from(fraction.len()).map_err(|_| error())?;
        if base == 10 {
            decimal = decimal.saturating_add(exponent);
        } else {
            nanos = nanos.saturating_mul(1 << exponent);
        }
        if decimal >= 0 {
            for _ in 0..decimal.min(40) {
                nanos = nanos.saturating_mul(10);
            }
        } else {
            let mut inexact = false;
            for _ in 0..decimal.unsigned_abs().min(60) {
                inexact |= nanos % 10 != 0;
                nanos /= 10;
            }
            nanos += i128::from(inexact);
        }
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }
}

impl fmt::Display for Quantity {
    /// Whole units where exact, else the coarsest of milli, micro and nano that is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, suffix) in [(NANO, ""), (NANO / 1000, "m"), (1000, "u")] {
            if self.nanos % unit == 0 {
                return write!(f, "{}{suffix}", self.nanos / unit);
            }
        }
        write!(f, "{}n", self.nanos)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Text, or a bare number as YAML and JSON writers often leave it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m or 2Gi")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_integer(value))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity { nanos: i128::from(value).saturating_mul(NANO) })
            }
            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Quantity, E> {
                value.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_and_round_up() {
        for (text, milli, value) in [
            ("1500m", 1500, 2),
            ("0.1", 100, 1),
            ("1k", 1_000_000, 1000),
            ("2Gi", 2_147_483_648_000, 2_147_483_648),
            ("1e3", 1_000_000, 1000),
            ("1n", 1, 1),
            ("-1500m", -1500, -2),
            ("-0.5", -500, -1),
            ("1.", 1000, 1),
            ("1E", i64::MAX, 1_000_000_000_000_000_000),
            ("1E3", 1_000_000, 1000),
            ("1.5e-2", 15, 1),
            (".5", 500, 1),
            ("1.5Ki", 1_536_000, 1536),
            ("0.0001m", 1, 1),
        ] {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!((quantity.milli(), quantity.value()), (milli, value), "{text}");
        }
        for text in ["", "m", "1.2.3", "1x", "1e", "--1", "1 ", "1Kii"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        assert_eq!("9E".parse::<Quantity>().unwrap().value(), 9_000_000_000_000_000_000);
        assert_eq!("99999E".parse::<Quantity>().unwrap().value(), i64::MAX);
    }

    #[test]
    fn texts_are_the_canonical_ones() {
        // Row 51 of collection.md 17, and of row 67 the fraction.
        let cpu = [0, 1, 1000, 1500, 1_000_000].map(|milli| Quantity::from_milli(milli).decimal_text());
        assert_eq!(cpu, ["0", "1m", "1", "1500m", "1k"]);
        let bytes = [0, 999, 1000, 1024, 1536, 2_048_000, 1_000_000_000_000, 269_755_191_296];
        let bytes = bytes.map(|bytes| Quantity::from_integer(bytes).binary_text());
        assert_eq!(bytes, ["0", "999", "1k", "1Ki", "1536", "2000Ki", "976562500Ki", "263432804Ki"]);
        assert_eq!("740408490333m".parse::<Quantity>().unwrap().binary_text(), "740408490333m");
        assert_eq!(Quantity::from_integer(8_912_896_000).binary_text(), "8500Mi");
        assert_eq!(Quantity::from_integer(-2048).binary_text(), "-2Ki");
        assert_eq!(Quantity::from_integer(1 << 62).binary_text(), "4Ei");
        assert_eq!("1n".parse::<Quantity>().unwrap().decimal_text(), "1n");
    }

    #[test]
    fn shares_are_rounded_up_to_a_thousandth() {
        // Example 16 and row 67 of collection.md.
        let share = |text: &str, shares| text.parse::<Quantity>().unwrap().share_of(shares).decimal_text();
        assert_eq!([share("1500m", 2), share("1500m", 3), share("1m", 3)], ["750m", "500m", "1m"]);
        assert_eq!([share("0", 3), share("2", 0), share("1u", 1)], ["0", "2", "1m"]);
        assert_eq!(share("1000000001", 3), "333333333667m");
        let (one, two) = (Quantity::from_integer(1), Quantity::from_integer(2));
        assert_eq!(one.minus(two), Quantity::from_integer(-1));
    }
}
