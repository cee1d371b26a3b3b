//! Every annotation, label and resource name that is read or written, once.

/// Pod label: Koordinator QoS class (`LSE`, `LSR`, `LS`, `BE`, `SYSTEM`).
pub const QOS_CLASS: &str = "koordinator.sh/qosClass";
/// Pod label: priority class (`koord-prod`, `koord-mid`, `koord-batch`, `koord-free`).
pub const PRIORITY_CLASS: &str = "koordinator.sh/priority-class";
/// Pod label: sub-priority.
pub const SUB_PRIORITY: &str = "koordinator.sh/priority";
/// Pod annotation: what the scheduler allocated (cpuset, NUMA resources).
pub const RESOURCE_STATUS: &str = "scheduling.koordinator.sh/resource-status";
/// Pod annotation: batch resources per container, from the webhook.
pub const EXTENDED_RESOURCE_SPEC: &str = "node.koordinator.sh/extended-resource-spec";
/// Node and topology annotation: CPUs and resources kept from pods.
pub const NODE_RESERVATION: &str = "node.koordinator.sh/reservation";
/// Node and topology annotation: CPUs of the SYSTEM class.
pub const SYSTEM_QOS_RESOURCE: &str = "node.koordinator.sh/system-qos-resource";
/// Node annotation: CPU normalization ratio, a decimal text.
pub const CPU_NORMALIZATION_RATIO: &str = "node.koordinator.sh/cpu-normalization-ratio";
/// Node annotation: allocatable resources before amplification, a resource list.
pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";
/// Topology annotation: the kubelet's CPU manager policy.
pub const CPU_MANAGER_POLICY: &str = "kubelet.koordinator.sh/cpu-manager-policy";
/// Resource name: native CPU.
pub const CPU: &str = "cpu";
/// Resource name: bytes of memory.
pub const MEMORY: &str = "memory";
/// Resource name: batch CPU, whole milli-cores.
pub const BATCH_CPU: &str = "kubernetes.io/batch-cpu";
/// Resource name: batch memory, bytes.
pub const BATCH_MEMORY: &str = "kubernetes.io/batch-memory";
/// Resource name: mid CPU, whole milli-cores.
pub const MID_CPU: &str = "kubernetes.io/mid-cpu";
/// Resource name: mid memory, bytes.
pub const MID_MEMORY: &str = "kubernetes.io/mid-memory";
/// Annotation of a mirror pod: UID of the static pod that it mirrors.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
