//! Bandwidths as policy and pods give them -> bits a second, the one unit of all network QoS here: the reference
//! divides a pod's limit by 8 twice, and takes percentages of bits for bytes (hooks.md 17, H21).

use crate::api::annotations::{AnnotationError, PodNetworkQos, network_qos};
use crate::api::pod::Pod;
use crate::api::quantity::Quantity;
use crate::state::slo::qos::network::Bandwidth;
use crate::units::{BitRate, Percent};

/// A quantity of bits a second; what is below 0 counts as 0.
pub fn bits(amount: Quantity) -> BitRate {
    BitRate(u64::try_from(amount.value()).unwrap_or_default())
}

/// A bandwidth of the policy: an amount, or a percentage of the node's total (hooks.md 11.4, 11.5).
pub fn of_total(bandwidth: Bandwidth, total: BitRate) -> BitRate {
    match bandwidth {
        Bandwidth::Amount(amount) => bits(amount),
        Bandwidth::Percent(Percent(percent)) => {
            let percent = u128::try_from(percent.clamp(0, 100)).unwrap_or_default();
            BitRate(u64::try_from(u128::from(total.0) * percent / 100).unwrap_or(u64::MAX))
        }
    }
}

/// A pod's own limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodLimits {
    /// Of what comes in; `None` where the annotation has no such key.
    pub ingress: Option<BitRate>,
    /// Of what goes out.
    pub egress: Option<BitRate>,
}

/// The limits of a pod's annotation `koordinator.sh/networkQOS`; `None` without one.
///
/// # Errors
/// It cannot be read.
pub fn pod_limits(pod: &Pod) -> Result<Option<PodLimits>, AnnotationError> {
    let limits = network_qos(pod)?.map(|PodNetworkQos { ingress_limit, egress_limit }| PodLimits {
        ingress: ingress_limit.map(bits),
        egress: egress_limit.map(bits),
    });
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bits_and_percentages_are_of_the_total() {
        let amount = |text: &str| of_total(Bandwidth::Amount(text.parse().unwrap()), BitRate(1000)).0;
        assert_eq!([amount("50M"), amount("1500m"), amount("-5"), amount("0")], [50_000_000, 2, 0, 0]);
        let percent = |percent, total| of_total(Bandwidth::Percent(Percent(percent)), BitRate(total)).0;
        assert_eq!([percent(0, 1000), percent(40, 1_000_000_000), percent(33, 10)], [0, 400_000_000, 3]);
        assert_eq!(percent(100, u64::MAX), u64::MAX);
    }
}
