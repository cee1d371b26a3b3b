//! RDMA device inject: the character devices of the RDMA functions that the scheduler gave to a pod, hooks.md 11.3.

use super::injection::{DeviceWish, Injection};
use super::plugin::{News, Plugin};
use super::rule_pod::RulePod;
use super::rule_set::{RuleError, RuleNotice};
use crate::api::device_allocation::{DeviceAllocation, device_allocations};
use crate::api::keys;
use crate::claims::claim::Owner;
use crate::state::pods::ContainerEntry;
use crate::state::snapshot::Snapshot;

/// The connection manager's device, which every user of RDMA needs.
const CONNECTION_MANAGER: &str = "/dev/infiniband/rdma_cm";

/// The rule; it depends on the pod alone.
#[derive(Debug, Default)]
pub struct RdmaDevice;

impl RdmaDevice {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "rdma device inject";
}

impl Plugin for RdmaDevice {
    fn owner(&self) -> Option<Owner> {
        None
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        news.tell_faults(
            Self::NAME,
            keys::DEVICE_ALLOCATED,
            |pod| device_allocations(&pod.pod.metadata.annotations).err(),
            notices,
        );
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced
    }

    fn inject(
        &self,
        pod: &RulePod<'_>,
        _: &ContainerEntry,
        injection: &mut Injection,
    ) -> Result<(), RuleError> {
        let annotations = &pod.entry().pod.metadata.annotations;
        let Some(devices) = device_allocations(annotations)? else { return Ok(()) };
        if devices.rdma().is_empty() {
            return Ok(());
        }
        injection.devices.push(DeviceWish::Path(CONNECTION_MANAGER.to_owned()));
        injection.devices.extend(devices.rdma().iter().flat_map(functions).map(DeviceWish::VerbsOfPci));
        Ok(())
    }
}

/// The PCI addresses of a device: of its virtual functions if such were given, else its own.
fn functions(device: &DeviceAllocation) -> Vec<String> {
    let virtual_ones = &device.extension.vfs;
    if virtual_ones.is_empty() {
        return vec![device.id.clone()];
    }
    virtual_ones.iter().map(|function| function.bus_id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claims::testing::annotated;

    fn injected(allocated: &str) -> Result<Vec<DeviceWish>, RuleError> {
        let annotations = json!({ keys::DEVICE_ALLOCATED: allocated });
        let pod = annotated("u", "", annotations, json!({"containers": [{"name": "c"}]}));
        let mut injection = Injection::default();
        RdmaDevice.inject(&RulePod::new(&pod), &pod.containers[0], &mut injection)?;
        Ok(injection.devices)
    }

    #[test]
    fn each_function_has_a_device_beside_the_connection_managers() {
        let devices = injected(
            r#"{"rdma":[{"minor":0,"id":"0000:1f:00.0","extension":{"vfs":[{"busID":"0000:1f:00.2"},
                {"busID":"0000:1f:00.3"}]}},{"minor":1,"id":"0000:90:00.0"}]}"#,
        );
        let verbs = |address: &str| DeviceWish::VerbsOfPci(address.to_owned());
        let want = [
            DeviceWish::Path(CONNECTION_MANAGER.to_owned()),
            verbs("0000:1f:00.2"),
            verbs("0000:1f:00.3"),
            verbs("0000:90:00.0"),
        ];
        assert_eq!(devices.unwrap(), want);
    }

    #[test]
    fn without_an_rdma_device_nothing_is_added() {
        for allocated in ["{}", r#"{"rdma":[]}"#, r#"{"gpu":[{"minor":0}]}"#] {
            assert_eq!(injected(allocated).unwrap(), [], "{allocated}");
        }
        assert!(injected("{bad").is_err());
    }
}
