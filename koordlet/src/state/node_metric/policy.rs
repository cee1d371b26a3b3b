//! What a NodeMetric's spec asks for, defaults and floors applied (collection.md 9.1).

use std::time::Duration;

use crate::api::duration::parse_duration;
use crate::api::node_metric::NodeMetricSpec;
use crate::state::series::class::Scope;
use crate::state::series::metric::Metric;
use crate::state::series::shared::SharedSeries;

/// Least time that a mean is made of.
const LEAST_AGGREGATE: Duration = Duration::from_mins(1);
/// Least time between two reports.
const LEAST_INTERVAL: Duration = Duration::from_secs(30);
/// Windows at most. Each costs four looks into the series and some hundred bytes of every report.
const MAX_WINDOWS: usize = 16;
/// Who asks the series to keep samples.
const ASKER: &str = "node metric";

/// Which memory of node, pods and host applications is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Without page cache; also what an unknown text means.
    #[default]
    WithoutPageCache,
    /// With page cache, less what has not been touched for long; where cold memory is not measured, without page
    /// cache.
    WithHotPageCache,
    /// With page cache.
    WithPageCache,
}

/// The series that memory is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySeries {
    /// Of the node.
    pub node: Metric,
    /// Of pods.
    pub pod: Metric,
    /// Of host applications.
    pub host_app: Metric,
}

impl MemoryPolicy {
    fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "" | "usageWithoutPageCache" => Self::WithoutPageCache,
            "usageWithHotPageCache" => Self::WithHotPageCache,
            "usageWithPageCache" => Self::WithPageCache,
            _ => return None,
        })
    }

    /// The series; `cold_memory` says whether cold memory is measured. One choice for all (collection.md 15 row 8).
    pub fn series(self, cold_memory: bool) -> MemorySeries {
        match self {
            Self::WithPageCache => MemorySeries {
                node: Metric::NodeMemoryUsageWithPageCache,
                pod: Metric::PodMemoryUsageWithPageCache,
                host_app: Metric::HostAppMemoryUsageWithPageCache,
            },
            Self::WithHotPageCache if cold_memory => MemorySeries {
                node: Metric::NodeMemoryWithHotPageUsage,
                pod: Metric::PodMemoryWithHotPageUsage,
                host_app: Metric::HostAppMemoryWithHotPageUsage,
            },
            Self::WithoutPageCache | Self::WithHotPageCache => MemorySeries {
                node: Metric::NodeMemoryUsage,
                pod: Metric::PodMemoryUsage,
                host_app: Metric::HostAppMemoryUsage,
            },
        }
    }
}

/// What to report, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPolicy {
    /// What a mean is made of; a minute at least.
    pub aggregate: Duration,
    /// Time between two reports; 30 s at least.
    pub interval: Duration,
    /// Windows of the percentiles; one at least.
    pub windows: Vec<Duration>,
    /// Which memory counts.
    pub memory: MemoryPolicy,
}

impl Default for ReportPolicy {
    fn default() -> Self {
        Self {
            aggregate: Duration::from_mins(5),
            interval: Duration::from_mins(1),
            windows: [5, 10, 30].map(Duration::from_mins).into(),
            memory: MemoryPolicy::default(),
        }
    }
}

impl ReportPolicy {
    /// The policy of a spec, and what in it cannot be read, by field: such a field counts as absent.
    pub fn of_spec(spec: &NodeMetricSpec) -> (Self, Vec<String>) {
        let mut policy = Self::default();
        let mut problems = Vec::new();
        let Some(written) = &spec.collect_policy else { return (policy, problems) };
        let seconds = |seconds: i64, least: Duration| {
            Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).max(least)
        };
        if let Some(aggregate) = written.aggregate_duration_seconds {
            policy.aggregate = seconds(aggregate, LEAST_AGGREGATE);
        }
        if let Some(interval) = written.report_interval_seconds {
            policy.interval = seconds(interval, LEAST_INTERVAL);
        }
        if let Some(text) = &written.node_memory_collect_policy {
            policy.memory = MemoryPolicy::from_text(text).unwrap_or_else(|| {
                problems.push(format!(
                    "nodeMemoryCollectPolicy: {text:.40?} is not known, usageWithoutPageCache applies"
                ));
                MemoryPolicy::default()
            });
        }
        let durations = written.node_aggregate_policy.iter().flat_map(|policy| &policy.durations);
        let windows = read_windows(durations, &mut problems);
        if !windows.is_empty() {
            policy.windows = windows;
        }
        (policy, problems)
    }

    /// Whether memory with page cache must be collected though no flag says so (collection.md 15 row 9).
    pub fn wants_page_cache(&self) -> bool {
        self.memory == MemoryPolicy::WithPageCache
    }

    /// Asks the series to keep samples for as long as a report looks back.
    pub fn keep_in(&self, series: &SharedSeries) {
        let longest = self.windows.iter().copied().max().unwrap_or_default().max(self.aggregate);
        series.keep(ASKER, Scope::Node, longest);
        series.keep(ASKER, Scope::Workload, self.aggregate);
    }
}

fn read_windows<'a>(
    durations: impl Iterator<Item = &'a String>,
    problems: &mut Vec<String>,
) -> Vec<Duration> {
    let mut windows = Vec::new();
    for text in durations {
        match parse_duration(text) {
            Err(error) => problems.push(format!("nodeAggregatePolicy.durations: {error}")),
            Ok(_) if windows.len() == MAX_WINDOWS => {
                problems.push(format!(
                    "nodeAggregatePolicy.durations: more than {MAX_WINDOWS}, the first ones apply"
                ));
                break;
            }
            Ok(window) => windows.push(window),
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(written: &serde_json::Value) -> (ReportPolicy, Vec<String>) {
        let spec = json!({ "metricCollectPolicy": written });
        ReportPolicy::of_spec(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_spec_is_laid_over_the_defaults_and_floors_hold() {
        // Row 50 of collection.md 17.
        let (small, problems) = policy(&json!({
            "reportIntervalSeconds": 10, "aggregateDurationSeconds": 30,
            "nodeAggregatePolicy": {"durations": ["1m0s"]},
        }));
        let minute = Duration::from_mins(1);
        assert_eq!((small.interval, small.aggregate), (Duration::from_secs(30), minute));
        assert_eq!((small.windows, small.memory), (vec![minute], MemoryPolicy::WithoutPageCache));
        assert!(problems.is_empty());
        let default = ReportPolicy::default();
        assert_eq!(ReportPolicy::of_spec(&NodeMetricSpec::default()).0, default);
        assert_eq!(policy(&json!({"nodeAggregatePolicy": {"durations": []}})).0, default);
    }

    #[test]
    fn c081_seconds_are_seconds_and_none_overflows() {
        assert_eq!(policy(&json!({"aggregateDurationSeconds": 300})).0.aggregate, Duration::from_mins(5));
        let far = policy(&json!({"aggregateDurationSeconds": i64::MAX, "reportIntervalSeconds": i64::MIN})).0;
        assert_eq!(far.aggregate, Duration::from_secs(i64::MAX.unsigned_abs()));
        assert_eq!(far.interval, LEAST_INTERVAL);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_spoils_nothing_else() {
        let (read, problems) = policy(&json!({
            "nodeMemoryCollectPolicy": "all", "reportIntervalSeconds": 45,
            "nodeAggregatePolicy": {"durations": ["soon", "2m", "-1s"]},
        }));
        assert_eq!(read.windows, [Duration::from_mins(2)]);
        assert_eq!((read.memory, read.interval.as_secs()), (MemoryPolicy::WithoutPageCache, 45));
        assert_eq!(problems.len(), 3, "{problems:?}");
        let many = vec!["1m"; 1000];
        let (read, problems) = policy(&json!({"nodeAggregatePolicy": {"durations": many}}));
        assert_eq!((read.windows.len(), problems.len()), (MAX_WINDOWS, 1));
    }

    #[test]
    fn one_kind_of_memory_counts_for_all() {
        let node = |policy: MemoryPolicy, cold| policy.series(cold).node;
        assert_eq!(node(MemoryPolicy::WithHotPageCache, true), Metric::NodeMemoryWithHotPageUsage);
        assert_eq!(node(MemoryPolicy::WithHotPageCache, false), Metric::NodeMemoryUsage);
        let with = MemoryPolicy::WithPageCache.series(true);
        assert_eq!(
            (with.pod, with.host_app),
            (Metric::PodMemoryUsageWithPageCache, Metric::HostAppMemoryUsageWithPageCache)
        );
    }

    #[test]
    fn c9_the_page_cache_policy_asks_for_its_samples() {
        let asks = |text: &str| policy(&json!({"nodeMemoryCollectPolicy": text})).0.wants_page_cache();
        assert!(asks("usageWithPageCache"));
        assert!(!asks("usageWithHotPageCache") && !asks(""));
    }
}
