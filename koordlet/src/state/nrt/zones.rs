//! Zones, collection.md 10.5: one per NUMA node, with the resources that are ours.

use crate::api::keys;
use crate::api::quantity::Quantity;
use crate::host::numa::NumaInfo;
use crate::units::Bytes;

use super::NrtInput;
use super::wanted::NrtError;

/// A resource of a zone. What is available is what is allocatable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedResource {
    /// Name.
    pub name: &'static str,
    /// All of it: CPUs, or bytes.
    pub capacity: Quantity,
    /// What pods may have of it.
    pub allocatable: Quantity,
}

impl WantedResource {
    /// An amount of this resource as Kubernetes writes it, collection.md 9.4.
    pub fn text(&self, amount: Quantity) -> String {
        if self.name == keys::CPU { amount.decimal_text() } else { amount.binary_text() }
    }
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedZone {
    /// `node-<id>`.
    pub name: String,
    /// Resources by name.
    pub resources: Vec<WantedResource>,
}

/// The zones, by name as text.
pub(super) fn wanted(input: &NrtInput<'_>) -> Result<Vec<WantedZone>, NrtError> {
    let numa = &input.numa.numa_infos;
    let cpus = &input.cpus.total_info.node_to_cpu;
    if numa.is_empty() || numa.len() != cpus.len() {
        return Err(NrtError::NodeCount { memory: numa.len(), cpus: cpus.len() });
    }
    let taken = |name| per_zone_reservation(input, name, numa.len());
    let (cpu_taken, memory_taken) = (taken(keys::CPU), taken(keys::MEMORY));
    let mut zones: Vec<WantedZone> = numa
        .iter()
        .map(|info| {
            let count = cpus.get(&info.node).map_or(0, Vec::len);
            let count = Quantity::from_integer(i64::try_from(count).unwrap_or(i64::MAX));
            let Memory { plain, pages_2mi, pages_1gi } = Memory::of(info, input.hugepages);
            let none = Quantity::default();
            WantedZone {
                name: format!("node-{}", info.node),
                resources: vec![
                    resource(keys::CPU, count, cpu_taken),
                    resource(keys::HUGEPAGES_1GI, quantity(pages_1gi), none),
                    resource(keys::HUGEPAGES_2MI, quantity(pages_2mi), none),
                    resource(keys::MEMORY, quantity(plain), memory_taken),
                ],
            }
        })
        .collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(zones)
}

/// A NUMA node's memory.
struct Memory {
    plain: Bytes,
    pages_2mi: Bytes,
    pages_1gi: Bytes,
}

impl Memory {
    /// Hugepages are no plain memory. Where they are not told apart all of it counts as plain.
    fn of(info: &NumaInfo, hugepages: bool) -> Self {
        let total = Bytes(info.mem_info.get("MemTotal").unwrap_or(0).saturating_mul(1024));
        let pages =
            |kib: u64| info.huge_pages.get(&kib).filter(|_| hugepages).map_or(Bytes(0), |p| p.bytes());
        let (pages_2mi, pages_1gi) = (pages(2048), pages(1_048_576));
        Self { plain: total - pages_2mi - pages_1gi, pages_2mi, pages_1gi }
    }
}

fn quantity(bytes: Bytes) -> Quantity {
    Quantity::from_integer(i64::try_from(bytes.0).unwrap_or(i64::MAX))
}

fn resource(name: &'static str, capacity: Quantity, taken: Quantity) -> WantedResource {
    WantedResource { name, capacity, allocatable: capacity.minus(taken).max(Quantity::default()) }
}

/// What each zone loses to the node's reservation, capacity less allocatable in its status: where the Node's label
/// asks for it, and both are known.
fn per_zone_reservation(input: &NrtInput<'_>, name: &str, zones: usize) -> Quantity {
    let none = Quantity::default();
    if input.node.metadata.labels.get(keys::ENABLE_NUMA_RESERVATION).is_none_or(|label| label != "true") {
        return none;
    }
    let status = &input.node.status;
    match (status.capacity.get(name), status.allocatable.get(name)) {
        (Some(capacity), Some(allocatable)) => capacity.minus(*allocatable).max(none).share_of(zones),
        _ => none,
    }
}
