//! Value <-> kernel text, both versions, collection.md 3.7 and 3.8. The wished value is never changed by
//! the conversion (C15): text is made anew each time.

use super::layout::{CgroupVersion, Layout};
use super::resource::{Codec, Resource};
use super::value::{Value, ValueError, quota_for_period};
use crate::cpuset::CpuSet;
use crate::units::{CfsQuota, CpuShares, MemoryLimit, SHARES_RANGE};

/// Least and largest `cpu.weight`.
const WEIGHT_RANGE: (u64, u64) = (1, 10_000);

/// From here on v1 means "no limit" (C041). Pages larger than 4 KiB give a smaller number than 4 KiB ones.
const V1_UNLIMITED: u64 = 0x7FFF_FFFF_FFFF_F000;

impl Layout {
    /// Reads the text of a setting's file (`Layout::file`, or `effective_file`).
    pub fn parse(&self, resource: Resource, text: &str) -> Result<Value, ValueError> {
        let (version, codec) = self.codec(resource)?;
        let reader = Reader { resource, version, text: text.trim_matches('\n') };
        match codec {
            Codec::Statistic => Err(ValueError::NotASetting { resource }),
            Codec::Shares => reader.shares().map(Value::Shares),
            Codec::Quota => reader.quota().map(Value::Quota),
            Codec::Period => reader.period().map(Value::Int),
            Codec::Limit => reader.limit(self.page_size()).map(Value::Memory),
            Codec::Protection => reader.protection(self.page_size()).map(Value::Memory),
            Codec::List => reader.list().map(Value::Cpus),
            Codec::Int(..) => reader.int().map(Value::Int),
            Codec::ClassId => reader.class_id().map(Value::Int),
        }
    }

    /// The text to write to a setting's file. Values that the kernel would refuse are errors, so that
    /// nothing is written. A quota is written alone, so that the period stays.
    pub fn format(&self, resource: Resource, value: &Value) -> Result<String, ValueError> {
        self.check(resource, value)?;
        let v1 = self.codec(resource)?.0 == CgroupVersion::V1;
        Ok(match value {
            Value::Shares(shares) if !v1 => weight_of_shares(*shares).to_string(),
            Value::Quota(CfsQuota::Unlimited) if !v1 => "max".to_owned(),
            Value::Memory(MemoryLimit::Unlimited) => match (v1, self.codec(resource)?.1) {
                (false, _) => "max".to_owned(),
                (true, Codec::Protection) => i64::MAX.to_string(),
                (true, _) => "-1".to_owned(),
            },
            _ => value.to_string(),
        })
    }

    /// Whether the kernel would take the value, collection.md 3.6.
    pub fn check(&self, resource: Resource, value: &Value) -> Result<(), ValueError> {
        let within = |number: i128, least: i64, most: i64| {
            if (i128::from(least)..=i128::from(most)).contains(&number) {
                return Ok(());
            }
            Err(ValueError::Range { resource, value: number.to_string(), least, most })
        };
        match (self.codec(resource)?.1, value) {
            (Codec::Statistic | Codec::Period, _) => Err(ValueError::NotASetting { resource }),
            // Unset shares are 0: no write, rather than the least weight (C016).
            (Codec::Shares, Value::Shares(shares)) => within(i128::from(shares.0), 2, 262_144),
            (Codec::Quota, Value::Quota(CfsQuota::Micros(us))) => within(i128::from(*us), 0, i64::MAX),
            (Codec::Limit | Codec::Protection, Value::Memory(MemoryLimit::Bytes(bytes))) => {
                within(i128::from(*bytes), 0, i64::MAX)
            }
            (Codec::Int(least, most), Value::Int(number)) => within(i128::from(*number), least, most),
            (Codec::ClassId, Value::Int(number)) => within(i128::from(*number), 0, i64::from(i32::MAX)),
            (Codec::Quota, Value::Quota(CfsQuota::Unlimited))
            | (Codec::Limit | Codec::Protection, Value::Memory(MemoryLimit::Unlimited))
            | (Codec::List, Value::Cpus(_)) => Ok(()),
            _ => Err(ValueError::Kind { resource, value: value.clone() }),
        }
    }

    /// Whether a file whose text is `found` already means `wanted`, as the kernel and systemd round:
    ///
    /// - shares: either formula for the weight counts (C014);
    /// - quota: scaled to the period in the text on v2 (on v1 the caller scales, see `quota_for_period`);
    ///   systemd's step of 10 ms a second counts as equal;
    /// - memory: rounded down to whole pages (C042);
    /// - lists: as sets.
    pub fn same(&self, resource: Resource, wanted: &Value, found: &str) -> bool {
        let Ok(parsed) = self.parse(resource, found) else { return false };
        match (wanted, &parsed) {
            (Value::Shares(shares), Value::Shares(read)) => match self.version(resource.controller()) {
                Some(CgroupVersion::V2) => {
                    let weight = found.trim_matches('\n').parse().ok();
                    weight == Some(weight_of_shares(*shares))
                        || weight == Some(runc_weight_of_shares(*shares))
                }
                _ => shares == read,
            },
            (Value::Quota(wish), Value::Quota(read)) => {
                let period = period_of_cpu_max(found).unwrap_or(crate::units::CFS_PERIOD_US);
                let wish = quota_for_period(*wish, period);
                *read == wish || *read == systemd_rounded(wish, period)
            }
            (Value::Memory(wish), Value::Memory(read)) => self.pages(*wish) == self.pages(*read),
            _ => *wanted == parsed,
        }
    }

    /// A limit in whole pages; `None` is unlimited.
    fn pages(&self, limit: MemoryLimit) -> Option<u64> {
        match limit {
            MemoryLimit::Bytes(bytes) if bytes < unlimited_from(self.page_size()) => {
                Some(bytes / self.page_size())
            }
            _ => None,
        }
    }

    fn codec(&self, resource: Resource) -> Result<(CgroupVersion, Codec), ValueError> {
        let version = self.version(resource.controller());
        version
            .and_then(|version| resource.file(version).map(|file| (version, file.codec)))
            .ok_or(ValueError::NotASetting { resource })
    }
}

/// `cpu.weight` for shares: `1 + (s - 2) * 9999 / 262142`, collection.md 3.8.
pub fn weight_of_shares(shares: CpuShares) -> u64 {
    let shares = shares.0.clamp(SHARES_RANGE.0, SHARES_RANGE.1);
    (1 + (shares - 2) * 9999 / 262_142).clamp(WEIGHT_RANGE.0, WEIGHT_RANGE.1)
}

/// The weight that newer runtimes choose, so that 1024 shares give the default weight 100:
/// `ceil(10 ^ (l^2 / 612 + 125 l / 612 - 7 / 34))`, `l` the binary logarithm of the shares.
fn runc_weight_of_shares(shares: CpuShares) -> u64 {
    match shares.0 {
        0..=2 => WEIGHT_RANGE.0,
        262_144.. => WEIGHT_RANGE.1,
        shares => {
            let l = (shares as f64).log2();
            let weight = 10f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0).ceil();
            // 1.0 to 10000.0 by the range of the shares.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
            let weight = weight as u64;
            weight.clamp(WEIGHT_RANGE.0, WEIGHT_RANGE.1)
        }
    }
}

/// Shares for a `cpu.weight`: `(w - 1) * 262142 / 9999 + 2`; `None` outside 1 to 10000.
pub fn shares_of_weight(weight: u64) -> Option<CpuShares> {
    if !(WEIGHT_RANGE.0..=WEIGHT_RANGE.1).contains(&weight) {
        return None;
    }
    Some(CpuShares(((weight - 1) * 262_142 / 9999 + 2).clamp(SHARES_RANGE.0, SHARES_RANGE.1)))
}

/// What systemd makes of a quota: whole 10 ms of CPU time a second, rounded up.
fn systemd_rounded(quota: CfsQuota, period_us: i64) -> CfsQuota {
    let (Some(us), true) = (quota.micros(), period_us > 0) else { return quota };
    let per_second = i128::from(us) * 1_000_000 / i128::from(period_us);
    let stepped = (per_second + 9_999).div_euclid(10_000) * 10_000;
    let us = stepped * i128::from(period_us) / 1_000_000;
    i64::try_from(us).map_or(quota, CfsQuota::Micros)
}

/// The second field of a `cpu.max` text.
fn period_of_cpu_max(text: &str) -> Option<i64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok().filter(|period| *period > 0)
}

fn unlimited_from(page_size: u64) -> u64 {
    V1_UNLIMITED.min(i64::MAX.unsigned_abs() / page_size.max(1) * page_size.max(1))
}

/// One file's text with what is needed to read it.
struct Reader<'a> {
    resource: Resource,
    version: CgroupVersion,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, what: &'static str) -> ValueError {
        ValueError::Text { resource: self.resource, text: self.text.chars().take(80).collect(), what }
    }

    fn number(&self, text: &str) -> Result<i64, ValueError> {
        text.parse().map_err(|_| self.error("it is not a 64-bit integer"))
    }

    fn shares(&self) -> Result<CpuShares, ValueError> {
        let number = u64::try_from(self.number(self.text)?).map_err(|_| self.error("it is negative"))?;
        match self.version {
            CgroupVersion::V1 => Ok(CpuShares(number)),
            CgroupVersion::V2 => shares_of_weight(number).ok_or_else(|| self.error("a weight is 1 to 10000")),
        }
    }

    /// The two fields of `cpu.max`.
    fn cpu_max(&self) -> Result<(&str, &str), ValueError> {
        let mut fields = self.text.split_ascii_whitespace();
        match (fields.next(), fields.next(), fields.next()) {
            (Some(quota), Some(period), None) => Ok((quota, period)),
            _ => Err(self.error("cpu.max has two fields")),
        }
    }

    fn quota(&self) -> Result<CfsQuota, ValueError> {
        let text = match self.version {
            CgroupVersion::V1 => self.text,
            CgroupVersion::V2 => self.cpu_max()?.0,
        };
        if text == "max" {
            return Ok(CfsQuota::Unlimited);
        }
        self.number(text).map(CfsQuota::from_raw)
    }

    fn period(&self) -> Result<i64, ValueError> {
        self.number(match self.version {
            CgroupVersion::V1 => self.text,
            CgroupVersion::V2 => self.cpu_max()?.1,
        })
    }

    fn limit(&self, page_size: u64) -> Result<MemoryLimit, ValueError> {
        if matches!(self.text, "max" | "-1") {
            return Ok(MemoryLimit::Unlimited);
        }
        self.bytes(page_size)
    }

    fn protection(&self, page_size: u64) -> Result<MemoryLimit, ValueError> {
        if self.text == "max" {
            return Ok(MemoryLimit::Unlimited);
        }
        self.bytes(page_size)
    }

    fn bytes(&self, page_size: u64) -> Result<MemoryLimit, ValueError> {
        let bytes = u64::try_from(self.number(self.text)?).map_err(|_| self.error("it is negative"))?;
        Ok(if bytes >= unlimited_from(page_size) {
            MemoryLimit::Unlimited
        } else {
            MemoryLimit::Bytes(bytes)
        })
    }

    fn list(&self) -> Result<CpuSet, ValueError> {
        self.text.parse().map_err(|_| self.error("it is not a list of numbers and ranges"))
    }

    fn int(&self) -> Result<i64, ValueError> {
        if self.text == "max" { Ok(i64::MAX) } else { self.number(self.text) }
    }

    /// Hexadecimal after `0x`, as traffic control writes classes; the reference takes its digits for decimal ones
    /// (collection.md 15, C16).
    fn class_id(&self) -> Result<i64, ValueError> {
        match self.text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16)
                .map(i64::from)
                .map_err(|_| self.error("it is not a 32-bit hexadecimal number")),
            None => self.number(self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layouts of a v1 and of a v2 host.
    fn hosts() -> [Layout; 2] {
        let v1 = tempfile::tempdir().unwrap();
        for name in ["cpu", "cpuacct", "cpuset", "memory", "net_cls"] {
            std::fs::create_dir(v1.path().join(name)).unwrap();
        }
        let v2 = tempfile::tempdir().unwrap();
        std::fs::create_dir(v2.path().join("cgroup.controllers")).unwrap();
        [v1, v2].map(|folder| Layout::of_folder(folder.path()).unwrap())
    }

    fn shares(shares: u64) -> Value {
        Value::Shares(CpuShares(shares))
    }

    #[test]
    fn c014_both_formulas_for_the_weight_count_as_the_same_shares() {
        let [v1, v2] = hosts();
        for (wish, linear, quadratic) in [
            (2, 1, 1),
            (3, 1, 2),
            (102, 4, 17),
            (204, 8, 29),
            (512, 20, 59),
            (1024, 39, 100),
            (2048, 79, 174),
            (4096, 157, 303),
            (8192, 313, 532),
            (65_536, 2500, 3023),
            (262_144, 10_000, 10_000),
        ] {
            let wish = shares(wish);
            assert_eq!(v2.format(Resource::CpuShares, &wish).unwrap(), linear.to_string(), "{wish:?}");
            for weight in [linear, quadratic] {
                assert!(v2.same(Resource::CpuShares, &wish, &format!("{weight}\n")), "{wish:?} {weight}");
            }
            assert!(!v2.same(Resource::CpuShares, &wish, &(quadratic + 1).to_string()), "{wish:?}");
        }
        assert!(v1.same(Resource::CpuShares, &shares(1024), "1024\n"));
        assert!(!v1.same(Resource::CpuShares, &shares(1024), "1023"));
    }

    #[test]
    fn c016_unset_shares_are_never_written() {
        for host in hosts() {
            assert!(host.format(Resource::CpuShares, &shares(0)).is_err());
        }
    }

    #[test]
    fn worked_example_11_shares_and_weights() {
        for (shares, weight, back) in [
            (2, 1, 2),
            (256, 10, 237),
            (1024, 39, 998),
            (2048, 79, 2046),
            (10_240, 391, 10_226),
            (65_536, 2500, 65_517),
            (262_144, 10_000, 262_144),
        ] {
            assert_eq!(weight_of_shares(CpuShares(shares)), weight);
            assert_eq!(shares_of_weight(weight), Some(CpuShares(back)));
        }
        assert!(shares_of_weight(0).is_none() && shares_of_weight(10_001).is_none());
    }

    #[test]
    fn c041_unlimited_memory_has_many_faces() {
        let [v1, v2] = hosts();
        let unlimited = Value::Memory(MemoryLimit::Unlimited);
        for text in ["9223372036854771712\n", "-1", "9223372036854775807"] {
            assert_eq!(v1.parse(Resource::MemoryLimit, text).as_ref(), Ok(&unlimited), "{text}");
        }
        assert_eq!(v2.parse(Resource::MemoryLimit, "max\n").as_ref(), Ok(&unlimited));
        // v1 refuses `max`, so it is never written there.
        assert_eq!(v1.format(Resource::MemoryLimit, &unlimited).unwrap(), "-1");
        assert_eq!(v2.format(Resource::MemoryLimit, &unlimited).unwrap(), "max");
        assert_eq!(v1.format(Resource::MemoryHigh, &unlimited).unwrap(), "9223372036854775807");
        assert!(v1.parse(Resource::MemoryLimit, "-2").is_err());
    }

    #[test]
    fn c042_memory_compares_in_whole_pages() {
        for host in hosts() {
            let wish = Value::Memory(MemoryLimit::Bytes(104_857_601));
            assert!(host.same(Resource::MemoryLimit, &wish, "104857600\n"));
            assert!(!host.same(Resource::MemoryLimit, &wish, "104861696"));
            assert!(!host.same(Resource::MemoryLimit, &wish, "max"));
        }
    }

    #[test]
    fn quotas_are_written_alone_and_compared_with_their_period() {
        let [v1, v2] = hosts();
        let wish = Value::Quota(CfsQuota::Micros(150_000));
        assert_eq!(v2.format(Resource::CfsQuota, &wish).unwrap(), "150000");
        assert_eq!(v2.format(Resource::CfsQuota, &Value::Quota(CfsQuota::Unlimited)).unwrap(), "max");
        assert_eq!(v1.format(Resource::CfsQuota, &Value::Quota(CfsQuota::Unlimited)).unwrap(), "-1");
        for (found, same) in
            [("150000 100000\n", true), ("75000 50000", true), ("150000 50000", false), ("max 100000", false)]
        {
            assert_eq!(v2.same(Resource::CfsQuota, &wish, found), same, "{found}");
        }
        assert_eq!(v2.parse(Resource::CfsPeriod, "max 50000"), Ok(Value::Int(50_000)));
        let odd = Value::Quota(CfsQuota::Micros(133_334));
        assert!(v1.same(Resource::CfsQuota, &odd, "133334") && v1.same(Resource::CfsQuota, &odd, "134000"));
        assert!(!v1.same(Resource::CfsQuota, &odd, "135000") && !v1.same(Resource::CfsQuota, &odd, "133000"));
    }

    #[test]
    fn c037_lists_compare_as_sets_and_print_in_a_form_that_the_kernel_takes() {
        for host in hosts() {
            let cpus = Value::Cpus("0-3,8".parse().unwrap());
            assert!(host.same(Resource::Cpus, &cpus, "0,1,2-3,8\n"));
            assert!(!host.same(Resource::Cpus, &cpus, "0-3") && !host.same(Resource::Cpus, &cpus, "0-"));
            let odd = host.parse(Resource::Cpus, "0,0,0-0").unwrap();
            assert_eq!(host.format(Resource::Cpus, &odd).unwrap(), "0");
        }
    }

    #[test]
    fn c16_a_network_class_may_be_hexadecimal() {
        let [v1, v2] = hosts();
        let id = Resource::NetClsClassid;
        for (text, class) in [("65539\n", 65_539), ("0x00010003", 65_539), ("0x0010001a", 1_048_602)] {
            assert_eq!(v1.parse(id, text), Ok(Value::Int(class)), "{text}");
        }
        for text in ["", "0x", "0x100000000", "1:3", "max"] {
            assert!(v1.parse(id, text).is_err(), "{text}");
        }
        assert_eq!(v1.format(id, &Value::Int(65_539)).unwrap(), "65539");
        assert!(v1.format(id, &Value::Int(1 << 31)).is_err() && v1.format(id, &Value::Int(-1)).is_err());
        assert!(v2.format(id, &Value::Int(65_539)).is_err(), "v2 has no such file");
    }

    #[test]
    fn values_of_another_kind_and_statistics_are_errors() {
        for host in hosts() {
            assert!(host.format(Resource::CfsQuota, &Value::Int(5)).is_err());
            assert!(host.format(Resource::CpuStat, &Value::Int(5)).is_err());
            assert!(host.format(Resource::CfsPeriod, &Value::Int(100_000)).is_err());
            assert!(host.format(Resource::CpuIdle, &Value::Int(2)).is_err());
            assert_eq!(host.format(Resource::BvtWarpNs, &Value::Int(-1)).unwrap(), "-1");
        }
    }
}
