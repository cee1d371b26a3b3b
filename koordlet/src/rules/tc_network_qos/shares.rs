//! The policy's figures -> the share of each class, hooks.md 11.5.

use std::fmt;

use crate::claims::network::{ClassId, ClassShare};
use crate::rules::bandwidth;
use crate::state::slo::Slo;
use crate::state::slo::qos::network::{NetworkQos, NetworkQosPolicy};
use crate::units::BitRate;

/// Least rate of a class: traffic control knows no class without one.
const LEAST: BitRate = BitRate(8_000);

/// What a class is promised and may use of what goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// At least.
    pub request: BitRate,
    /// At most; 0 is no limit.
    pub limit: BitRate,
}

/// The policy under which traffic is shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcRule {
    /// Of the node; above 0.
    pub total: BitRate,
    /// Of LSE, LSR and LS.
    pub ls: Promise,
    /// Of BE.
    pub be: Promise,
}

impl TcRule {
    /// The rule of a policy; `None` where another one brings network QoS about, or the node's total is not said, without
    /// which there is nothing to share.
    pub fn of(slo: &Slo) -> Option<Self> {
        let network = &slo.qos.network;
        let total = bandwidth::bits(slo.system.total_network_bandwidth);
        if network.policy != NetworkQosPolicy::Tc || total.bytes_per_second() == 0 {
            return None;
        }
        let (ls, be) = (promise(&network.classes.ls, total), promise(&network.classes.be, total));
        Some(Self { total, ls, be })
    }

    /// The share of the root and of each shared class. Promises above the total are cut to it, and a limit below a
    /// promise is raised to it.
    pub fn share(&self, class: ClassId) -> ClassShare {
        let share = |rate: BitRate, ceil: BitRate, priority| {
            let rate = rate.max(LEAST).min(self.total);
            let ceil = if ceil.0 == 0 { self.total } else { ceil.min(self.total) };
            ClassShare { rate, ceil: ceil.max(rate), priority }
        };
        match class {
            ClassId::ROOT => share(self.total, self.total, 0),
            ClassId::LS => share(self.ls.request, self.ls.limit, 2),
            ClassId::BE => share(self.be.request, self.be.limit, 3),
            _ => share(self.total - self.ls.request - self.be.request, self.total, 1),
        }
    }

    /// The share of one pod of a class that may send `limit` at most: it is promised that, as far as its class may send
    /// at all.
    pub fn own_share(&self, class: ClassId, limit: BitRate) -> ClassShare {
        let of_class = self.share(class);
        let rate = limit.max(LEAST).min(of_class.ceil);
        ClassShare { rate, ceil: rate, priority: of_class.priority }
    }
}

impl fmt::Display for TcRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, ls, be } = self;
        write!(f, "total {total} bit/s, LS {} to {}, BE {} to {}", ls.request, ls.limit, be.request, be.limit)
    }
}

/// What goes out of a class; one that is off is promised nothing and has no limit.
fn promise(class: &NetworkQos, total: BitRate) -> Promise {
    if !class.enable {
        return Promise::default();
    }
    Promise {
        request: bandwidth::of_total(class.egress_request, total),
        limit: bandwidth::of_total(class.egress_limit, total),
    }
}
