//! Memory bandwidth: from percent to the figure that a maker's CPUs take, qos.md 5.6 and hooks.md 11.1.

/// Who made the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuVendor {
    /// `GenuineIntel`: percent, in steps of ten.
    Intel,
    /// `AuthenticAMD`: eighths of a GB/s, 2048 is unlimited.
    Amd,
    /// Any other.
    #[default]
    Other,
}

/// What AMD's CPUs take for no limit.
const AMD_UNLIMITED: u64 = 2048;

impl CpuVendor {
    /// By the `vendor_id` of cpuinfo.
    pub fn from_id(vendor_id: &str) -> Self {
        match vendor_id {
            "GenuineIntel" => Self::Intel,
            "AuthenticAMD" => Self::Amd,
            _ => Self::Other,
        }
    }

    /// The figure that is no limit.
    pub fn full_bandwidth(self) -> u64 {
        match self {
            Self::Amd => AMD_UNLIMITED,
            Self::Intel | Self::Other => 100,
        }
    }
}

/// The figure of a class's `mbaPercent`, qos.md 5.6: makers other than AMD are taken for Intel. `None`, for "leave it as
/// it is", outside of 1 to 100.
pub fn class_bandwidth(vendor: CpuVendor, percent: i64) -> Option<u64> {
    let percent = Some(percent).filter(|percent| (1..=100).contains(percent))?;
    match vendor {
        CpuVendor::Amd => amd(percent),
        CpuVendor::Intel | CpuVendor::Other => in_tens(percent),
    }
}

/// The figure of a pod's percent, hooks.md 11.1, which has no upper bound there: the kernel judges it. `None` of makers
/// that are not known, and where nothing above zero comes out.
pub fn pod_bandwidth(vendor: CpuVendor, percent: i64) -> Option<u64> {
    match vendor {
        CpuVendor::Amd => amd(percent),
        CpuVendor::Intel => in_tens(percent),
        CpuVendor::Other => None,
    }
}

/// The next multiple of ten, unless it is one; the remainder goes by the size, so that -5 becomes 10 as in the reference.
fn in_tens(percent: i64) -> Option<u64> {
    let rounded =
        if percent % 10 == 0 { percent } else { (percent / 10).checked_mul(10)?.checked_add(10)? };
    positive(rounded)
}

/// 160 eighths of a GB/s are a hundred percent in the reference's formula, but a hundred percent itself is no limit.
fn amd(percent: i64) -> Option<u64> {
    if percent == 100 {
        return Some(AMD_UNLIMITED);
    }
    positive(percent.checked_mul(160)? / 100)
}

fn positive(figure: i64) -> Option<u64> {
    u64::try_from(figure).ok().filter(|figure| *figure > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// qos.md 11 W12 and 13 J2.
    #[test]
    fn a_class_has_tens_of_percent_or_eighths_of_a_gigabyte() {
        for (vendor, rows) in [
            (CpuVendor::Intel, &[(35, 40), (91, 100), (5, 10), (85, 90), (80, 80), (1, 10), (99, 100)][..]),
            (CpuVendor::Other, &[(35, 40), (100, 100)]),
            (CpuVendor::Amd, &[(35, 56), (95, 152), (100, 2048), (80, 128), (30, 48), (99, 158)]),
        ] {
            for (percent, figure) in rows {
                assert_eq!(class_bandwidth(vendor, *percent), Some(*figure), "{vendor:?} {percent}");
            }
            for percent in [0, 101, -1, i64::MIN, i64::MAX] {
                assert_eq!(class_bandwidth(vendor, percent), None, "{vendor:?} {percent}");
            }
        }
    }

    #[test]
    fn a_pods_percent_has_no_bound_and_an_unknown_maker_no_figure() {
        for (vendor, percent, figure) in [
            (CpuVendor::Intel, 20, Some(20)),
            (CpuVendor::Intel, 15, Some(20)),
            (CpuVendor::Intel, 130, Some(130)),
            (CpuVendor::Intel, -5, Some(10)),
            (CpuVendor::Intel, -10, None),
            (CpuVendor::Intel, 0, None),
            (CpuVendor::Intel, i64::MAX, None),
            (CpuVendor::Intel, i64::MIN, None),
            (CpuVendor::Amd, 33, Some(52)),
            (CpuVendor::Amd, 100, Some(2048)),
            (CpuVendor::Amd, 130, Some(208)),
            (CpuVendor::Amd, -5, None),
            (CpuVendor::Amd, i64::MAX, None),
            (CpuVendor::Other, 50, None),
        ] {
            assert_eq!(pod_bandwidth(vendor, percent), figure, "{vendor:?} {percent}");
        }
    }
}
