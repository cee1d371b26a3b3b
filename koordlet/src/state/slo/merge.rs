//! A NodeSLO spec laid over the defaults, qos.md 1.7. Nonsense in a field keeps the last good value of its whole part
//! of the policy, so that fields which belong together never mix two specs. The parts are the sections, and of
//! `resourceQOSStrategy` what drives one kernel mechanism, in all classes.

use std::sync::Arc;

use super::burst::CpuBurst;
use super::extensions::{self, Extensions};
use super::fields::{Faults, SloNotice};
use super::system::SystemStrategy;
use super::{Slo, host_applications, thresholds};
use crate::api::node_slo::NodeSloSpec;

/// Lays each new spec over the defaults and keeps the last good value of each part.
#[derive(Debug, Default)]
pub struct SloMerger {
    slo: Slo,
    extension_defaults: Extensions,
}

impl SloMerger {
    /// One that keeps the extensions with these keys, each laid over its default.
    pub fn with_extensions(defaults: Extensions) -> Self {
        let slo = Slo { extensions: defaults.clone(), ..Slo::default() };
        Self { slo, extension_defaults: defaults }
    }

    /// The policy in force.
    pub fn slo(&self) -> &Slo {
        &self.slo
    }

    /// The source has synced and has no NodeSLO: what is in force stays, at first the defaults.
    pub fn absent(&mut self) {
        self.slo.synced = true;
    }

    /// Takes a new spec; `None` when it is deeply equal to the last one. A part with a bad field stays as it was;
    /// the rest applies.
    pub fn apply(&mut self, spec: &NodeSloSpec) -> Option<Vec<SloNotice>> {
        if self.slo.synced && *self.slo.spec == *spec {
            return None;
        }
        let mut notices = Vec::new();
        let slo = &mut self.slo;
        slo.synced = true;
        slo.spec = Arc::new(spec.clone());
        let stays = format!("CPU suppression and eviction stay as they were: {}", slo.suppress);
        let section = spec.resource_used_threshold_with_be.as_ref();
        if let Some(read) = checked(&stays, &mut notices, |faults| thresholds::read(section, faults)) {
            (slo.suppress, slo.evict) = read;
        }
        slo.qos.update(spec.resource_qos_strategy.as_ref(), &mut notices);
        let section = spec.cpu_burst_strategy.as_ref();
        renew(&mut slo.burst, "CPU burst", &mut notices, |faults| CpuBurst::read(section, faults));
        let section = spec.system_strategy.as_ref();
        renew(&mut slo.system, "the system strategy", &mut notices, |faults| {
            SystemStrategy::read(section, faults)
        });
        let (section, defaults) = (spec.extensions.as_ref(), &self.extension_defaults);
        renew(&mut slo.extensions, "the part for extensions", &mut notices, |faults| {
            extensions::read(defaults, section, faults)
        });
        slo.host_applications =
            host_applications::read(spec.host_applications.as_ref(), &slo.host_applications, &mut notices);
        Some(notices)
    }
}

/// Replaces a part of the policy, unless a field of it is refused.
pub(super) fn renew<T>(
    part: &mut T,
    name: &str,
    notices: &mut Vec<SloNotice>,
    read: impl FnOnce(&mut Faults) -> T,
) {
    if let Some(read) = checked(&format!("{name} stays as it was"), notices, read) {
        *part = read;
    }
}

/// Reads a part of the policy; `None` when a field is refused, and the notices say what `stays`.
fn checked<T>(stays: &str, notices: &mut Vec<SloNotice>, read: impl FnOnce(&mut Faults) -> T) -> Option<T> {
    let mut faults = Faults::default();
    let value = read(&mut faults);
    let Faults { refused, odd } = faults;
    notices.extend(odd);
    let usable = refused.is_empty().then_some(value);
    notices.extend(refused.into_iter().map(|notice| SloNotice { applies: stays.to_owned(), ..notice }));
    usable
}

#[cfg(test)]
mod tests;
