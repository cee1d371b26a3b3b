//! Series that are read when they are scraped.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// One series of a family: labels and value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

impl Sample {
    /// A series without labels.
    pub fn plain(value: f64) -> Self {
        Self { labels: Vec::new(), value }
    }

    /// A series with one label.
    pub fn with(label: &'static str, label_value: impl Into<String>, value: f64) -> Self {
        Self { labels: vec![(label, label_value.into())], value }
    }
}

/// What kind of family it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKind {
    /// Goes both ways.
    Gauge,
    /// Only grows; its name gets `_total`.
    Counter,
}

/// A family whose series a function yields at each scrape.
pub struct Live {
    name: &'static str,
    help: &'static str,
    kind: LiveKind,
    read: Box<dyn Fn() -> Vec<Sample> + Send + Sync>,
}

impl Live {
    /// A family. `read` must be cheap and must not wait.
    pub fn new(
        name: &'static str,
        help: &'static str,
        kind: LiveKind,
        read: impl Fn() -> Vec<Sample> + Send + Sync + 'static,
    ) -> Self {
        Self { name, help, kind, read: Box::new(read) }
    }

    /// Counters of another room by name, one series each under `label`.
    pub fn counters(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(&'static str, u64)> + Send + Sync + 'static,
    ) -> Self {
        let read =
            move || read().into_iter().map(|(of, count)| Sample::with(label, of, count as f64)).collect();
        Self::new(name, help, LiveKind::Counter, read)
    }

    /// A gauge without labels; no series while `read` yields nothing.
    pub fn gauge(
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, help, LiveKind::Gauge, move || read().map(Sample::plain).into_iter().collect())
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let samples = (self.read)();
        if samples.is_empty() {
            return Ok(());
        }
        let kind = match self.kind {
            LiveKind::Gauge => MetricType::Gauge,
            LiveKind::Counter => MetricType::Counter,
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for Sample { labels, value } in &samples {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let mut series = family.encode_family(&labels)?;
            match self.kind {
                LiveKind::Gauge => series.encode_gauge(value)?,
                LiveKind::Counter => series.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
            }
        }
        Ok(())
    }
}
