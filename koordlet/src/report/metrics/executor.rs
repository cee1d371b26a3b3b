//! The executor's series: the reference's histogram of writes, and own counters.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::live::Live;
use crate::executor::ExecutorStats;

pub(super) fn register(registry: &mut Registry, stats: &Arc<ExecutorStats>) {
    registry.register_collector(Box::new(WriteTimes(Arc::clone(stats))));
    let read = Arc::clone(stats);
    let help = "What the executor did and met";
    let live = Live::counters("executor_actions", help, "action", move || read.figures());
    registry.register_collector(Box::new(live));
}

/// `resource_update_duration_milliseconds`, without the label `node` as in the reference.
#[derive(Debug)]
struct WriteTimes(Arc<ExecutorStats>);

impl Collector for WriteTimes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "resource_update_duration_milliseconds",
            "Time of a write to the kernel",
            None,
            MetricType::Histogram,
        )?;
        for (status, taken) in [("success", true), ("failed", false)] {
            let (sum, buckets) = self.0.write_times.histogram(taken);
            let count = buckets.iter().map(|(_, count)| count).sum();
            if count > 0 {
                let labels = [("status", status), ("type", "cgroup")];
                family
                    .encode_family(&labels)?
                    .encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}
