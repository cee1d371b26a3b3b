//! `scheduling.koordinator.sh/device-allocated`: devices that the scheduler gave to a pod (hooks.md 11.2, 11.3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::annotations::{AnnotationError, Annotations, parse};
use super::pod::ResourceList;
use super::{keys, null_default};

/// The key of GPUs.
const GPU: &str = "gpu";
/// The key of RDMA devices.
const RDMA: &str = "rdma";

/// Devices by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceAllocations {
    kinds: BTreeMap<String, Option<Vec<DeviceAllocation>>>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAllocation {
    /// Its number on the node.
    #[serde(deserialize_with = "null_default")]
    pub minor: i32,
    /// What of it was given.
    #[serde(deserialize_with = "null_default")]
    pub resources: ResourceList,
    /// Its id; of an RDMA device the PCI address.
    #[serde(deserialize_with = "null_default")]
    pub id: String,
    /// More about it.
    #[serde(deserialize_with = "null_default")]
    pub extension: DeviceExtension,
}

/// More about a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceExtension {
    /// Its virtual functions, if such were given and not the device itself.
    #[serde(deserialize_with = "null_default")]
    pub vfs: Vec<VirtualFunction>,
}

/// A virtual function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VirtualFunction {
    /// Its PCI address.
    #[serde(rename = "busID", deserialize_with = "null_default")]
    pub bus_id: String,
}

impl DeviceAllocations {
    /// GPUs.
    pub fn gpus(&self) -> &[DeviceAllocation] {
        self.of_kind(GPU)
    }

    /// RDMA devices.
    pub fn rdma(&self) -> &[DeviceAllocation] {
        self.of_kind(RDMA)
    }

    fn of_kind(&self, kind: &str) -> &[DeviceAllocation] {
        self.kinds.get(kind).and_then(Option::as_deref).unwrap_or_default()
    }
}

/// The annotation of a pod.
///
/// # Errors
/// It is not the JSON that is expected.
pub fn device_allocations(annotations: &Annotations) -> Result<Option<DeviceAllocations>, AnnotationError> {
    parse(annotations, keys::DEVICE_ALLOCATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<DeviceAllocations>, AnnotationError> {
        device_allocations(&Annotations::from([(keys::DEVICE_ALLOCATED.to_owned(), text.to_owned())]))
    }

    #[test]
    fn devices_have_numbers_resources_and_functions() {
        let text = r#"{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-core":"50"},"id":null}],
                       "rdma":[{"minor":0,"id":"0000:1f:00.0","extension":{"vfs":[{"busID":"0000:1f:00.2","minor":1}]}}],
                       "fpga":null}"#;
        let devices = read(text).unwrap().unwrap();
        assert_eq!((devices.gpus()[0].minor, devices.gpus()[0].resources[keys::GPU_CORE].value()), (3, 50));
        assert_eq!(devices.rdma()[0].extension.vfs[0].bus_id, "0000:1f:00.2");
        for text in ["{}", "null", r#"{"gpu":null}"#] {
            let devices = read(text).unwrap().unwrap();
            assert!(devices.gpus().is_empty() && devices.rdma().is_empty(), "{text}");
        }
        for text in ["{bad", "[]", r#"{"gpu":{}}"#, r#"{"gpu":[{"minor":"x"}]}"#] {
            assert!(read(text).unwrap_err().to_string().contains(keys::DEVICE_ALLOCATED), "{text}");
        }
    }
}
