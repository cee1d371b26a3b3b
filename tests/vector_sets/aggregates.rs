//! `aggregates.jsonl`: what a window of one or of several series comes to.

use std::sync::Arc;

use koordlet::state::series::aggregates::Aggregates;
use koordlet::state::series::key::SeriesKey;
use koordlet::state::series::metric::{Metric, Property};
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::units::Nanos;
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};

#[test]
fn vector_aggregates() {
    check("aggregates", &[("series_query", 33, query)]);
}

/// The values have three places, so that they come back from four bytes as they were: no tolerance.
fn query(row: &Row) -> Verdict {
    row.compare(figures(row).map(|figures| {
        json!({
            "avg": figures.avg, "count": figures.count, "last": figures.last,
            "p50": figures.p50, "p90": figures.p90, "p95": figures.p95, "p99": figures.p99,
        })
    }))
}

fn figures(row: &Row) -> Result<Aggregates, String> {
    let series = SharedSeries::new(SeriesSettings::default());
    // One series after the other: their times interleave.
    for (uid, points) in row.input.get("series").and_then(Value::as_object).into_iter().flatten() {
        let key = SeriesKey::pod(Metric::PodCpuUsage, &Arc::from(uid.as_str()));
        for point in points.as_array().into_iter().flatten() {
            let at = nanos(point.get(0))?;
            let value = point.get(1).and_then(Value::as_f64).ok_or("a point without a value")?;
            if series.append(at, [(key.clone(), value)]) > 0 {
                return Err(series.last_refusal().map_or_else(|| "refused".into(), |why| why.to_string()));
            }
        }
    }
    let uid = row.text("pod_uid");
    let matching = [(Property::PodUid, uid)];
    let matching = if uid.is_empty() { &[] } else { &matching[..] };
    let (from, to) = (nanos(row.input.get("from"))?, nanos(row.input.get("to"))?);
    series.query(Metric::PodCpuUsage, matching, from, to).map_err(|error| error.to_string())
}

/// Seconds, with a fraction perhaps.
fn nanos(value: Option<&Value>) -> Result<Nanos, String> {
    let seconds = value.and_then(Value::as_f64).ok_or("a time that is no number")?;
    let time = std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    u64::try_from(time.as_nanos()).map(Nanos).map_err(|error| error.to_string())
}
