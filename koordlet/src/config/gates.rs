//! Feature gates: the reference's names, defaults and parsing rules, qos.md 3.

use std::collections::BTreeMap;
use std::fmt;

/// How far a feature is, which decides its default and which of `AllAlpha` and `AllBeta` covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// On by default.
    Beta,
}

macro_rules! gates {
    ($($variant:ident $name:literal $stage:ident: $doc:literal,)*) => {
        /// A feature gate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Gate {
            $(#[doc = $doc] $variant,)*
        }

        impl Gate {
            /// All gates.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name in `--feature-gates`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Stage.
            pub fn stage(self) -> Stage {
                match self { $(Self::$variant => Stage::$stage,)* }
            }
        }
    };
}

gates! {
    Accelerators "Accelerators" Alpha: "GPU collection.",
    AuditEvents "AuditEvents" Alpha: "Audit log on disk.",
    AuditEventsHttpHandler "AuditEventsHTTPHandler" Alpha: "The `/events` endpoint.",
    BatchResource "BatchResource" Beta: "Batch resources of BE pods.",
    BeCpuEvict "BECPUEvict" Alpha: "Eviction by BE CPU satisfaction.",
    BeCpuManager "BECPUManager" Alpha: "BE cpusets by NUMA share pool.",
    BeCpuSuppress "BECPUSuppress" Beta: "CPU suppression.",
    BeMemoryEvict "BEMemoryEvict" Alpha: "Eviction of BE pods by node memory use.",
    BlkIoReconcile "BlkIOReconcile" Alpha: "Block I/O limits.",
    CgroupReconcile "CgroupReconcile" Alpha: "Memory QoS.",
    ColdPageCollector "ColdPageCollector" Alpha: "Cold memory.",
    CoreSched "CoreSched" Alpha: "Core scheduling.",
    CpiCollector "CPICollector" Alpha: "Cycles per instruction.",
    CpuAllocatableEvict "CPUAllocatableEvict" Alpha: "Eviction by allocatable CPU.",
    CpuBurst "CPUBurst" Beta: "CPU burst.",
    CpuEvict "CPUEvict" Alpha: "Eviction by node CPU use.",
    CpuNormalization "CPUNormalization" Alpha: "CPU normalization.",
    CpuSetAllocator "CPUSetAllocator" Beta: "Cpusets that the scheduler chose.",
    GpuEnvInject "GPUEnvInject" Alpha: "GPU environment of containers.",
    GroupIdentity "GroupIdentity" Beta: "Group identity (bvt).",
    HamiCoreVgpuMonitor "HamiCoreVGPUMonitor" Alpha: "vGPU monitor.",
    HugePageReport "HugePageReport" Alpha: "Hugepages in the topology report.",
    Libpfm4 "Libpfm4" Alpha: "libpfm4 as source of counters.",
    MemoryAllocatableEvict "MemoryAllocatableEvict" Alpha: "Eviction by allocatable memory.",
    MemoryEvict "MemoryEvict" Alpha: "Eviction by node memory use.",
    NodeMetricPromMetrics "NodeMetricPromMetrics" Alpha: "NodeMetric as Prometheus series.",
    NodeTopologyReport "NodeTopologyReport" Beta: "NodeResourceTopology report.",
    OomScoreAdj "OOMScoreAdj" Alpha: "OOM scores of containers.",
    PerCpuMetric "PerCPUMetric" Alpha: "One series for each CPU of a pool.",
    PodResourcesProxy "PodResourcesProxy" Alpha: "Pod-resources proxy.",
    PsiCollector "PSICollector" Alpha: "Pressure stall information.",
    RdmaDeviceInject "RDMADeviceInject" Alpha: "RDMA devices of containers.",
    RdmaDevices "RDMADevices" Alpha: "RDMA collection.",
    RdtResctrl "RdtResctrl" Beta: "Last-level cache and memory bandwidth by class.",
    Resctrl "Resctrl" Alpha: "Last-level cache and memory bandwidth by pod.",
    ResctrlCollector "ResctrlCollector" Alpha: "resctrl monitoring.",
    SystemConfig "SystemConfig" Alpha: "Kernel settings of the node.",
    TcNetworkQos "TCNetworkQoS" Alpha: "Network QoS by tc.",
    TerwayQos "TerwayQoS" Alpha: "Network QoS by Terway.",
}

/// An item of `--feature-gates` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No `=`.
    #[error("{0:?} has no `=`: gates are given as Name=true or Name=false")]
    NoValue(String),
    /// No such gate; case counts.
    #[error("there is no gate {0:?}")]
    Unknown(String),
    /// Not one of Go's forms of a boolean.
    #[error("gate {name}: {value:?} is not true or false")]
    NotBool {
        /// Gate.
        name: String,
        /// What was given.
        value: String,
    },
}

/// Go's boolean: `1 t T true TRUE True` and the six false forms.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Which features are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    given: BTreeMap<Gate, bool>,
    all_alpha: Option<bool>,
    all_beta: Option<bool>,
}

impl Gates {
    /// Parses the values of `--feature-gates` in the order given; the last value of a name counts, and a
    /// name given by itself beats `AllAlpha` and `AllBeta`. All mistakes are returned at once.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, Vec<GateError>> {
        let mut gates = Self::default();
        let mut errors = Vec::new();
        for item in texts.into_iter().flat_map(|text| text.split(',')).map(str::trim) {
            if item.is_empty() {
                continue;
            }
            if let Err(error) = gates.set(item) {
                errors.push(error);
            }
        }
        if errors.is_empty() { Ok(gates) } else { Err(errors) }
    }

    fn set(&mut self, item: &str) -> Result<(), GateError> {
        let (name, value) = item.split_once('=').ok_or_else(|| GateError::NoValue(item.into()))?;
        let (name, value) = (name.trim(), value.trim());
        let on =
            parse_bool(value).ok_or_else(|| GateError::NotBool { name: name.into(), value: value.into() })?;
        match name {
            "AllAlpha" => self.all_alpha = Some(on),
            "AllBeta" => self.all_beta = Some(on),
            _ => {
                let gate = Gate::ALL.iter().find(|gate| gate.name() == name);
                let gate = gate.ok_or_else(|| GateError::Unknown(name.into()))?;
                self.given.insert(*gate, on);
            }
        }
        Ok(())
    }

    /// Whether `gate` is on.
    pub fn is_on(&self, gate: Gate) -> bool {
        let by_stage = match gate.stage() {
            Stage::Alpha => self.all_alpha.unwrap_or(false),
            Stage::Beta => self.all_beta.unwrap_or(true),
        };
        self.given.get(&gate).copied().unwrap_or(by_stage)
    }
}

impl fmt::Display for Gates {
    /// The gates that are on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for gate in Gate::ALL.iter().filter(|gate| self.is_on(**gate)) {
            write!(f, "{separator}{}", gate.name())?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(texts: &[&str], gate: Gate) -> bool {
        Gates::parse(texts.iter().copied()).unwrap().is_on(gate)
    }

    #[test]
    fn a_name_given_by_itself_beats_the_groups_in_any_order() {
        assert!(on(&[], Gate::BeCpuSuppress));
        assert!(!on(&[], Gate::CpuNormalization));
        assert!(on(&["AllAlpha=true"], Gate::CpuNormalization));
        assert!(!on(&["CPUNormalization=false,AllAlpha=true"], Gate::CpuNormalization));
        assert!(on(&["AllBeta=false,CPUBurst=true"], Gate::CpuBurst));
        assert!(!on(&["AllBeta=false"], Gate::CpuBurst));
        assert!(!on(&["CPUBurst=true", "CPUBurst=0"], Gate::CpuBurst));
        assert!(on(&[" CPUNormalization = T ,, "], Gate::CpuNormalization));
    }

    #[test]
    fn every_bad_item_is_reported() {
        let errors = Gates::parse(["cpuburst=true,CPUBurst,CPUBurst=yes,CPUBurst=true=false"]).unwrap_err();
        assert_eq!(errors.len(), 4);
        assert!(matches!(&errors[0], GateError::Unknown(name) if name == "cpuburst"));
    }
}
