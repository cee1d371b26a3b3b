//! What best-effort pods may use, ask for and use (`node_be`, collection.md 6.4): figures in, figures out. Who
//! reads the files is `node::be_files`.

use super::pods::{ContainerKind, PodTable};
use super::usage::CpuReading;
use crate::api::keys;
use crate::api::qos::QosClass;
use crate::units::{CfsQuota, MilliCpu, Nanos};

/// One round. A figure that is not known is absent, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeResources {
    /// When the use was sampled (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// What cpusets and quota leave; `None` where there is no BE directory.
    pub real_limit: Option<MilliCpu>,
    /// Batch CPU that pods of raw class BE ask for; `None` before a source of pods has delivered.
    pub request: Option<MilliCpu>,
    /// What the BE directory used; 0 in the first round.
    pub usage: Option<MilliCpu>,
}

/// Quota of the BE directory with the period that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeQuota {
    /// Microseconds per `period_us`.
    pub quota: CfsQuota,
    /// Length of the period in microseconds.
    pub period_us: i64,
}

/// What the kernel's settings leave to best effort, collection.md 6.4: 1000 for each CPU of the smallest CPU set
/// (`smallest_cpuset` CPUs; an empty set gives 0), at most what the quota allows in a second.
///
/// A period that no kernel has (0 or less) allows nothing to be said about the quota, so it does not count.
pub fn real_limit(smallest_cpuset: usize, quota: BeQuota) -> MilliCpu {
    let cpus = i64::try_from(smallest_cpuset).unwrap_or(i64::MAX).saturating_mul(1000);
    let by_quota = quota.quota.micros().filter(|_| quota.period_us > 0);
    let by_quota = by_quota.map(|micros| micros.saturating_mul(1000) / quota.period_us.max(1));
    MilliCpu(by_quota.map_or(cpus, |allowed| allowed.min(cpus)))
}

/// Batch CPU that pods ask for, collection.md 6.4: the requests of app and sidecar containers of all known pods
/// that are labelled BE. A negative request counts as none, a fraction of a milli-core as a whole one.
pub fn request(pods: &PodTable) -> MilliCpu {
    let be = pods.pods.values().filter(|pod| pod.qos == Some(QosClass::Be));
    let asked = be.flat_map(|pod| {
        let running = pod.containers.iter().filter(|container| container.kind != ContainerKind::Init);
        running.filter_map(|container| pod.spec(container)?.resources.requests.get(keys::BATCH_CPU))
    });
    asked.map(|quantity| MilliCpu(quantity.value().max(0))).sum()
}

/// The use of best effort between two samples of the BE directory's CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub struct BeUse {
    last: Option<(Nanos, CpuReading)>,
}

impl BeUse {
    /// The use since the last sample in milli-cores, collection.md 6.4: whole milliseconds of CPU time over whole
    /// milliseconds of time, rounded down. The first sample of all gives 0, as the reference has it.
    ///
    /// `None` if the directory is not there or is another one than before, if less than a millisecond passed, or
    /// if time or counter went back (collection.md 15 row 5).
    pub fn sample(&mut self, at: Nanos, now: Option<CpuReading>) -> Option<MilliCpu> {
        let Some((before, last)) = self.last else {
            self.last = now.map(|now| (at, now));
            return now.map(|_| MilliCpu(0));
        };
        let now = now?;
        self.last = Some((at, now));
        if now.identity != last.identity {
            return None;
        }
        let elapsed_ms = at.0.checked_sub(before.0)? / MILLISECOND;
        let used_ms = now.total.0.checked_sub(last.total.0)? / MILLISECOND;
        let milli = u128::from(used_ms).saturating_mul(1000).checked_div(elapsed_ms.into())?;
        Some(MilliCpu(i64::try_from(milli).unwrap_or(i64::MAX)))
    }
}

const MILLISECOND: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::api::pod::Pod;
    use crate::cgroup::naming::{CgroupDriver, Naming};

    fn quota(quota: i64, period_us: i64) -> BeQuota {
        BeQuota { quota: CfsQuota::from_raw(quota), period_us }
    }

    #[test]
    fn the_real_limit_follows_the_worked_examples() {
        for (smallest, of, limit) in [
            (4, quota(250_000, 100_000), 2500), // example 6
            (4, quota(-1, 100_000), 4000),      // row 41
            (4, quota(150_000, 100_000), 1500),
            (0, quota(150_000, 100_000), 0),
            (8, quota(99_999, 50_000), 1999),
        ] {
            assert_eq!(real_limit(smallest, of), MilliCpu(limit), "{smallest} CPUs, {of:?}");
        }
    }

    #[test]
    fn a_period_that_no_kernel_has_is_not_divided_by() {
        assert_eq!(real_limit(2, quota(1000, 0)), MilliCpu(2000));
        assert_eq!(real_limit(2, quota(i64::MAX, 1)), MilliCpu(2000));
    }

    fn table(pods: &[serde_json::Value]) -> PodTable {
        let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
        let pods = pods.iter().map(|pod| serde_json::from_value::<Pod>(pod.clone()).unwrap()).map(Arc::new);
        PodTable::build(pods, &naming, &PodTable::default()).0
    }

    fn asks(name: &str, batch_cpu: &str) -> serde_json::Value {
        json!({"name": name, "resources": {"requests": {"kubernetes.io/batch-cpu": batch_cpu}}})
    }

    #[test]
    fn the_request_follows_the_worked_example() {
        let mut sidecar = asks("s", "250");
        sidecar["restartPolicy"] = json!("Always");
        let labelled = json!({
            "metadata": {"uid": "u1", "labels": {"koordinator.sh/qosClass": "BE"}},
            "spec": {
                "containers": [asks("a", "500"), asks("b", "1000")],
                "initContainers": [sidecar, asks("i", "9000")],
            },
        });
        let plain = json!({
            "metadata": {"uid": "u2"},
            "spec": {"containers": [asks("a", "100")]},
            "status": {"qosClass": "BestEffort"},
        });
        assert_eq!(request(&table(&[labelled, plain])), MilliCpu(1750)); // row 43
        let odd = json!({
            "metadata": {"uid": "u3", "labels": {"koordinator.sh/qosClass": "BE"}},
            "spec": {"containers": [asks("a", "-5"), asks("b", "1500m")]},
        });
        assert_eq!(request(&table(&[odd])), MilliCpu(2));
    }

    fn time(id: u64, total: u64) -> CpuReading {
        CpuReading { identity: Some(id), total: Nanos(total), born: None }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_use_follows_the_worked_examples() {
        for (used, elapsed_ms, usage) in
            [(1_234_567_890, 1003, 1230), (2_500_999_999, 1000, 2500), (2_500_999_999, 1007, 2482)]
        {
            let mut be = BeUse::default();
            assert_eq!(be.sample(Nanos(S), Some(time(1, 5))), Some(MilliCpu(0)), "first round");
            let at = Nanos(S + elapsed_ms * MILLISECOND);
            assert_eq!(
                be.sample(at, Some(time(1, 5 + used))),
                Some(MilliCpu(usage)),
                "{used} in {elapsed_ms} ms"
            );
        }
    }

    #[test]
    fn a_counter_or_time_that_went_back_and_another_directory_give_no_figure() {
        let mut be = BeUse::default();
        be.sample(Nanos(S), Some(time(1, 9)));
        for (at, now) in [(2 * S, time(1, 3)), (2 * S, time(1, 4)), (S, time(1, 5)), (3 * S, time(2, S))] {
            assert_eq!(be.sample(Nanos(at), Some(now)), None, "at {at}: {now:?}");
        }
        assert_eq!(be.sample(Nanos(4 * S), Some(time(2, 2 * S))), Some(MilliCpu(1000)));
        assert_eq!(be.sample(Nanos(5 * S), None), None, "no directory");
        assert_eq!(be.sample(Nanos(6 * S), Some(time(2, 3 * S))), Some(MilliCpu(500)), "of two seconds");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_no_use_is_negative(rounds: Vec<(u64, Option<(u64, u64)>)>, q: i64, p: i64, n: usize) {
            let mut be = BeUse::default();
            for (at, now) in rounds {
                let now = now.map(|(id, total)| CpuReading { identity: Some(id % 2), total: Nanos(total), born: None });
                prop_assert!(be.sample(Nanos(at), now).is_none_or(|usage| usage.0 >= 0));
            }
            prop_assert!(real_limit(n, quota(q, p)).0 >= 0);
        }
    }
}
