//! What mainline kernels have in place of settings that only vendors' kernels have: one table with its reasons, for
//! `--mainline-equivalents`. `claims::mainline` applies it, `doctor` prints it. An equivalent is not the same thing:
//! each row says what it gives and what it does not.

use std::fmt;

use super::resource::{Controller, Resource};
use super::value::Value;
use crate::units::{CpuShares, SHARES_RANGE};

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Equivalent {
    /// File of the vendor's kernel, by its v1 name.
    pub lacking: &'static str,
    /// Which of its values.
    pub values: Values,
    /// What stands in; `None` where nothing does.
    pub instead: Option<Substitute>,
    /// In which directories.
    pub directories: Directories,
    /// What it gives, what it does not, and why just there.
    pub why: &'static str,
}

/// Which values of a setting a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Just this one.
    Just(i64),
    /// All that have no row of their own.
    All,
}

/// What stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitute {
    /// Its file.
    pub file: &'static str,
    /// What it is to hold.
    pub value: Formula,
}

/// How the value of the substitute comes from that of the lacking setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Always this number.
    Constant(i64),
    /// So many times the shares that the directory has without it.
    TimesShares(u64),
    /// So many percent of the memory limit, or of `memory.high` where that is lower.
    PercentOfLimit,
    /// The same line of a device.
    SameLine,
}

/// Directories that a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// Pods' alone.
    Pods,
    /// Pods', and those beneath them.
    PodsAndContainers,
    /// The best-effort class's and pods'.
    BestEffortAndPods,
    /// The root group.
    Root,
}

const fn row(
    lacking: &'static str,
    values: Values,
    instead: Option<Substitute>,
    directories: Directories,
    why: &'static str,
) -> Equivalent {
    Equivalent { lacking, values, instead, directories, why }
}

const fn by(file: &'static str, value: Formula) -> Substitute {
    Substitute { file, value }
}

/// The table. A value without a row has no equivalent, and needs none: a group identity of 0 is what every group has.
pub const TABLE: &[Equivalent] = &[
    row(
        "cpu.bvt_warp_ns",
        Values::Just(-1),
        Some(by("cpu.idle", Formula::Constant(1))),
        Directories::PodsAndContainers,
        "an idle group's tasks yield to all others when these wake up, and count as none when a free CPU is looked \
         for; not on class directories, whose shares the kubelet keeps writing and the kernel then refuses",
    ),
    row(
        "cpu.bvt_warp_ns",
        Values::Just(1),
        Some(by("cpu.shares", Formula::TimesShares(2))),
        Directories::Pods,
        "twice the CPU time of a pod without an identity when CPUs are short, but no right to preempt; what lies in \
         the pod shares its weight",
    ),
    row(
        "cpu.bvt_warp_ns",
        Values::Just(2),
        Some(by("cpu.shares", Formula::TimesShares(4))),
        Directories::Pods,
        "four times the CPU time of a pod without an identity when CPUs are short, but no right to preempt; what lies \
         in the pod shares its weight",
    ),
    row(
        "memory.wmark_ratio",
        Values::All,
        Some(by("memory.high", Formula::PercentOfLimit)),
        Directories::PodsAndContainers,
        "reclaim begins at the same use, but whoever allocates does it and is slowed down by it, not a kernel thread",
    ),
    row(
        "memory.wmark_scale_factor",
        Values::All,
        None,
        Directories::PodsAndContainers,
        "memory.high reclaims down to itself: there is no lower mark to stop at",
    ),
    row(
        "memory.wmark_min_adj",
        Values::All,
        None,
        Directories::PodsAndContainers,
        "mainline has one mark for all groups at which the whole node's memory is reclaimed; memory.min and memory.low \
         protect from it",
    ),
    row(
        "blkio.cost.weight",
        Values::All,
        Some(by("io.weight", Formula::SameLine)),
        Directories::BestEffortAndPods,
        "the same controller under its v2 name, 1 to 10000 with a default of 100; v1 of mainline has none",
    ),
    row(
        "blkio.cost.qos",
        Values::All,
        Some(by("io.cost.qos", Formula::SameLine)),
        Directories::Root,
        "the same controller under its v2 name",
    ),
    row(
        "blkio.cost.model",
        Values::All,
        Some(by("io.cost.model", Formula::SameLine)),
        Directories::Root,
        "the same controller under its v2 name",
    ),
];

impl Equivalent {
    /// The controller that both belong to.
    pub fn controller(&self) -> Controller {
        // Files with a line for each device are of one controller.
        self.resource().map_or(Controller::Blkio, Resource::controller)
    }

    /// The setting that the kernel lacks, where it is one that a directory holds one value of.
    pub fn resource(&self) -> Option<Resource> {
        Resource::from_v1_name(self.lacking)
    }

    /// The setting that stands in, where it is such a one.
    pub fn substitute(&self) -> Option<Resource> {
        Resource::from_v1_name(self.instead?.file)
    }
}

impl Substitute {
    /// What the substitute is to hold in a directory that has these `shares` of its own; `None` where what is needed
    /// to know it is not known.
    pub fn value(self, shares: Option<CpuShares>) -> Option<Value> {
        match self.value {
            Formula::Constant(number) => Some(Value::Int(number)),
            Formula::TimesShares(factor) => {
                let (least, most) = SHARES_RANGE;
                Some(Value::Shares(CpuShares(shares?.0.saturating_mul(factor).clamp(least, most))))
            }
            // Whoever claims these has the limit or the device's line at hand.
            Formula::PercentOfLimit | Formula::SameLine => None,
        }
    }
}

/// The row for a value of a setting.
pub fn equivalent(resource: Resource, value: &Value) -> Option<&'static Equivalent> {
    let is_for = |row: &&Equivalent| match row.values {
        Values::All => true,
        Values::Just(number) => *value == Value::Int(number),
    };
    rows(resource).find(is_for)
}

/// All rows of a setting; none of one that mainline kernels have.
pub fn rows(resource: Resource) -> impl Iterator<Item = &'static Equivalent> {
    TABLE.iter().filter(move |row| row.resource() == Some(resource))
}

/// The settings that the table speaks of, lacking or standing in: whether a kernel has them decides what applies.
pub fn concerned() -> impl Iterator<Item = Resource> {
    TABLE.iter().flat_map(|row| [row.resource(), row.substitute()]).flatten()
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Just(number) => number.fmt(f),
            Self::All => f.write_str("any value"),
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(number) => number.fmt(f),
            Self::TimesShares(factor) => write!(f, "{factor} times the pod's own"),
            Self::PercentOfLimit => f.write_str("as many percent of the limit (no strategy asks for it yet)"),
            Self::SameLine => f.write_str("with the same line (no strategy asks for it yet)"),
        }
    }
}

impl fmt::Display for Directories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "pods",
            Self::PodsAndContainers => "pods and containers",
            Self::BestEffortAndPods => "the best-effort class and pods",
            Self::Root => "the root group",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_reason_and_settings_of_one_value_are_known_by_name() {
        for row in TABLE {
            assert!(row.why.len() > 20, "{row:?}");
            let of_devices = row.lacking.starts_with("blkio.");
            assert_eq!(row.resource().is_none(), of_devices, "{row:?}");
            let needs_resource = row.instead.is_some() && !of_devices;
            assert_eq!(row.substitute().is_some(), needs_resource, "{row:?}");
        }
    }

    #[test]
    fn identities_become_idle_or_weight_and_none_stays_none() {
        let of = |identity: i64, shares: u64| {
            let row = equivalent(Resource::BvtWarpNs, &Value::Int(identity))?;
            let value = row.instead?.value(Some(CpuShares(shares)))?;
            Some(format!("{} {value}", row.instead?.file))
        };
        assert_eq!(of(-1, 2).as_deref(), Some("cpu.idle 1"));
        assert_eq!(of(0, 1024), None);
        assert_eq!(of(1, 1024).as_deref(), Some("cpu.shares 2048"));
        assert_eq!(of(2, 512).as_deref(), Some("cpu.shares 2048"));
        assert_eq!(of(2, 262_144).as_deref(), Some("cpu.shares 262144"), "the kernel's largest");
        let row = equivalent(Resource::BvtWarpNs, &Value::Int(2)).unwrap();
        assert_eq!(row.instead.unwrap().value(None), None, "shares that nobody knows are not multiplied");
    }

    #[test]
    fn what_mainline_kernels_have_has_no_row() {
        for resource in [Resource::CpuIdle, Resource::CpuShares, Resource::MemoryHigh, Resource::CfsBurst] {
            assert_eq!(rows(resource).count(), 0, "{resource:?}");
        }
        assert!(concerned().any(|resource| resource == Resource::MemoryHigh));
    }
}
