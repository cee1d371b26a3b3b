//! Which series: a kind and the values of its properties, in typed form (collection.md 5.2). Ids are shared text,
//! so that a key costs no allocation.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::metric::{Metric, Property};

macro_rules! value {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The reference's text.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

value! {
    /// What of best-effort CPU is measured, collection.md 6.4.
    BeAllocation {
        /// Used.
        Usage "usage",
        /// Left by cpusets and quota.
        RealLimit "real-limit",
        /// Asked for.
        Request "request",
    }
}
value! {
    /// What is counted, collection.md 6.8.
    CpiResource {
        /// CPU cycles.
        Cycle "cycle",
        /// Instructions retired.
        Instruction "instruction",
    }
}
value! {
    /// What is waited for, collection.md 6.9.
    PsiResource {
        /// CPU.
        Cpu "cpu",
        /// Memory.
        Memory "mem",
        /// Block I/O.
        Io "io",
    }
}
value! {
    /// Who waits.
    PsiDegree {
        /// At least one task.
        Some "some",
        /// All tasks.
        Full "full",
    }
}
value! {
    /// Which memory traffic, collection.md 6.12.
    MbType {
        /// To the own NUMA node.
        Local "mbm_local_bytes",
        /// All.
        Total "mbm_total_bytes",
    }
}

/// The one window of pressure that is written, in seconds.
const PSI_PRECISION: &str = "10";
/// The one resource of `node_be`.
const BE_RESOURCE: &str = "cpu";

/// The property values of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Instance {
    Node,
    Numa(u32),
    Be(BeAllocation),
    Pod(Arc<str>),
    Container(Arc<str>),
    HostApp(Arc<str>),
    PodContainer(Arc<str>, Arc<str>),
    Cpi(Arc<str>, Arc<str>, CpiResource),
    PodPsi(Arc<str>, PsiResource, PsiDegree),
    ContainerPsi(Arc<str>, Arc<str>, PsiResource, PsiDegree),
    Llc(&'static str, u32),
    Mb(&'static str, u32, MbType),
}

impl Instance {
    /// The properties that it has values of, in the order of the kinds that take it.
    pub(super) fn properties(&self) -> &'static [Property] {
        use Property::{
            BeAllocation, BeResource, CacheId, ContainerId, CpiResource, HostAppName, MbType, NumaNodeId,
            PodUid, PsiDegree, PsiPrecision, PsiResource, Qos,
        };
        match self {
            Self::Node => &[],
            Self::Numa(_) => &[NumaNodeId],
            Self::Be(_) => &[BeResource, BeAllocation],
            Self::Pod(_) => &[PodUid],
            Self::Container(_) => &[ContainerId],
            Self::HostApp(_) => &[HostAppName],
            Self::PodContainer(..) => &[PodUid, ContainerId],
            Self::Cpi(..) => &[PodUid, ContainerId, CpiResource],
            Self::PodPsi(..) => &[PodUid, PsiResource, PsiPrecision, PsiDegree],
            Self::ContainerPsi(..) => &[PodUid, ContainerId, PsiResource, PsiPrecision, PsiDegree],
            Self::Llc(..) => &[Qos, CacheId],
            Self::Mb(..) => &[Qos, CacheId, MbType],
        }
    }

    /// The value of a property; `None` if it has none of that name.
    pub(super) fn value(&self, property: Property) -> Option<Cow<'_, str>> {
        let number = |n: &u32| Some(Cow::Owned(n.to_string()));
        let text = match property {
            Property::NumaNodeId | Property::CacheId => match self {
                Self::Numa(id) | Self::Llc(_, id) | Self::Mb(_, id, _) => return number(id),
                _ => None,
            },
            Property::PodUid => self.pod(),
            Property::ContainerId => self.container(),
            Property::HostAppName => self.host_app(),
            Property::BeResource => matches!(self, Self::Be(_)).then_some(BE_RESOURCE),
            Property::PsiPrecision => {
                matches!(self, Self::PodPsi(..) | Self::ContainerPsi(..)).then_some(PSI_PRECISION)
            }
            Property::BeAllocation | Property::CpiResource | Property::MbType => match self {
                Self::Be(what) => Some(what.text()),
                Self::Cpi(.., what) => Some(what.text()),
                Self::Mb(.., what) => Some(what.text()),
                _ => None,
            },
            Property::PsiResource | Property::PsiDegree => match self {
                Self::PodPsi(_, resource, degree) | Self::ContainerPsi(_, _, resource, degree) => {
                    Some(if property == Property::PsiResource { resource.text() } else { degree.text() })
                }
                _ => None,
            },
            Property::Qos => match self {
                Self::Llc(qos, _) | Self::Mb(qos, ..) => Some(*qos),
                _ => None,
            },
        };
        // `node_be`, CPI and bandwidth share a branch above: the property must be the instance's own.
        text.filter(|_| self.properties().contains(&property)).map(Cow::Borrowed)
    }

    fn pod(&self) -> Option<&str> {
        match self {
            Self::Pod(pod)
            | Self::PodContainer(pod, _)
            | Self::Cpi(pod, ..)
            | Self::PodPsi(pod, ..)
            | Self::ContainerPsi(pod, ..) => Some(pod),
            _ => None,
        }
    }

    fn container(&self) -> Option<&str> {
        match self {
            Self::Container(id)
            | Self::PodContainer(_, id)
            | Self::Cpi(_, id, _)
            | Self::ContainerPsi(_, id, ..) => Some(id),
            _ => None,
        }
    }

    fn host_app(&self) -> Option<&str> {
        match self {
            Self::HostApp(name) => Some(name),
            _ => None,
        }
    }
}

/// One series. A kind whose properties are others than those given makes a key that no series can have: `append`
/// refuses it ([`Refusal::Properties`](super::refusal::Refusal)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesKey {
    metric: Metric,
    instance: Instance,
}

impl SeriesKey {
    pub(super) fn new(metric: Metric, instance: Instance) -> Self {
        Self { metric, instance }
    }

    /// Of the whole node.
    pub fn node(metric: Metric) -> Self {
        Self::new(metric, Instance::Node)
    }

    /// Of a NUMA node.
    pub fn numa(metric: Metric, node: u32) -> Self {
        Self::new(metric, Instance::Numa(node))
    }

    /// Of a pod, by UID.
    pub fn pod(metric: Metric, uid: &Arc<str>) -> Self {
        Self::new(metric, Instance::Pod(Arc::clone(uid)))
    }

    /// Of a container, by its full id (`runtime://id`).
    pub fn container(metric: Metric, id: &Arc<str>) -> Self {
        Self::new(metric, Instance::Container(Arc::clone(id)))
    }

    /// Of a host application, by name.
    pub fn host_app(metric: Metric, name: &Arc<str>) -> Self {
        Self::new(metric, Instance::HostApp(Arc::clone(name)))
    }

    /// `node_be`: CPU of best-effort pods, milli-cores.
    pub fn be(what: BeAllocation) -> Self {
        Self::new(Metric::NodeBe, Instance::Be(what))
    }

    /// `container_cpi`
    pub fn cpi(pod: &Arc<str>, container: &Arc<str>, what: CpiResource) -> Self {
        Self::new(Metric::ContainerCpi, Instance::Cpi(Arc::clone(pod), Arc::clone(container), what))
    }

    /// `pod_psi` over 10 s.
    pub fn pod_psi(pod: &Arc<str>, resource: PsiResource, degree: PsiDegree) -> Self {
        Self::new(Metric::PodPsi, Instance::PodPsi(Arc::clone(pod), resource, degree))
    }

    /// `container_psi` over 10 s.
    pub fn container_psi(
        pod: &Arc<str>,
        container: &Arc<str>,
        resource: PsiResource,
        degree: PsiDegree,
    ) -> Self {
        let instance = Instance::ContainerPsi(Arc::clone(pod), Arc::clone(container), resource, degree);
        Self::new(Metric::ContainerPsi, instance)
    }

    /// `pod_psi_cpu_full_supported`
    pub fn pod_psi_full_supported(pod: &Arc<str>) -> Self {
        Self::pod(Metric::PodPsiCpuFullSupported, pod)
    }

    /// `container_psi_cpu_full_supported`
    pub fn container_psi_full_supported(pod: &Arc<str>, container: &Arc<str>) -> Self {
        let instance = Instance::PodContainer(Arc::clone(pod), Arc::clone(container));
        Self::new(Metric::ContainerPsiCpuFullSupported, instance)
    }

    /// `resctrl_resource_llc` of a class (`LSR`, `LS`, `BE`) in a cache.
    pub fn llc(qos: &'static str, cache: u32) -> Self {
        Self::new(Metric::ResctrlLlc, Instance::Llc(qos, cache))
    }

    /// `resctrl_resource_mb` of a class in a cache.
    pub fn mb(qos: &'static str, cache: u32, what: MbType) -> Self {
        Self::new(Metric::ResctrlMb, Instance::Mb(qos, cache, what))
    }

    /// The kind.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The pod's UID, where the series has one.
    pub fn pod_uid(&self) -> Option<&str> {
        self.instance.pod()
    }

    /// The container's full id, where the series has one.
    pub fn container_id(&self) -> Option<&str> {
        self.instance.container()
    }

    /// The host application's name, where the series has one.
    pub fn host_app_name(&self) -> Option<&str> {
        self.instance.host_app()
    }

    /// Whether the properties are those of the kind.
    pub fn is_complete(&self) -> bool {
        self.metric.properties() == self.instance.properties()
    }

    pub(super) fn instance(&self) -> &Instance {
        &self.instance
    }
}

impl fmt::Display for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.metric)?;
        let mut separator = '{';
        for property in self.instance.properties() {
            let value = self.instance.value(*property).unwrap_or_default();
            write!(f, "{separator}{}={value:?}", property.name())?;
            separator = ',';
        }
        f.write_str(if separator == '{' { "" } else { "}" })
    }
}
