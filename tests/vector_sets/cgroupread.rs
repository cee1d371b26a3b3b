//! Set `cgroupread`: file texts -> figures (collection.md 3.7).

use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::read::{self, PressureLine, StatError, Throttling};
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::Value as Setting;
use koordlet::units::{MemoryLimit, Nanos};
use serde_json::{Value, json};

use crate::set::{self, Check, Row, Verdict};

fn host(row: &Row) -> Layout {
    set::layout(row.text("cgroup"))
}

fn setting(row: &Row, resource: Resource) -> Verdict {
    let parsed = host(row).parse(resource, row.text("text"));
    row.compare(parsed.map(|value| {
        let value = match value {
            Setting::Shares(shares) => json!(shares.0),
            Setting::Quota(quota) => json!(quota.raw()),
            Setting::Cpus(cpus) => json!(cpus.to_string()),
            Setting::Memory(MemoryLimit::Bytes(bytes)) => json!(bytes),
            Setting::Memory(MemoryLimit::Unlimited) => json!(-1),
            Setting::Int(number) => json!(number),
        };
        json!({ "value": value })
    }))
}

fn cpu_acct_usage(row: &Row) -> Verdict {
    let parsed = host(row).parse_cpu_time(row.text("text"));
    row.compare(parsed.map(|time| json!({"ns": time.0.to_string()})))
}

fn cpu_stat(row: &Row) -> Verdict {
    if row.text("text").contains(" -") {
        let parsed = host(row).parse_throttling(row.text("text"));
        assert!(parsed.is_err(), "row {}", row.id);
        return Verdict::NotApplicable("no kernel counts below 0, and neither do our types: an error");
    }
    let parsed = host(row).parse_throttling(row.text("text"));
    row.compare(parsed.map(
        |found| json!({"periods": found.periods, "throttled": found.throttled, "throttled_ns": found.time.0}),
    ))
}

fn throttled_ratio(row: &Row) -> Verdict {
    let count = |key| u64::try_from(row.int(key).unwrap()).unwrap();
    let at = |periods, throttled| Throttling { periods, throttled, time: Nanos(0) };
    let earlier = at(count("prevPeriods"), count("prevThrottled"));
    match at(count("periods"), count("throttled")).ratio_since(&earlier) {
        Some(ratio) => row.compare(Ok::<_, StatError>(json!({ "ratio": ratio }))),
        // The reference skips no sample of that kind; C5 asks for it.
        None => Verdict::NotApplicable("a counter that goes back gives no figure (C5)"),
    }
}

fn memory_stat(row: &Row) -> Verdict {
    let parsed = host(row).parse_memory_stat(row.text("text"));
    row.compare(parsed.map(|stat| {
        json!({
            "cache": stat.cache.0,
            "rss": stat.rss.0,
            "usage": stat.without_page_cache().0,
            "usageWithPageCache": stat.with_page_cache().0,
        })
    }))
}

fn memory_usage(row: &Row) -> Verdict {
    let parsed = host(row).parse_memory_usage(row.text("text"));
    row.compare(parsed.map(|bytes| json!({"value": bytes.0.to_string()})))
}

/// The reference counts pages of other lines (C4): its amounts are compared where they are those of `total`
/// on v1; on v2 ours are the anonymous bytes of the text.
fn numa_pages(row: &Row) -> Verdict {
    let host = host(row);
    let parsed = host.parse_numa_memory(row.text("text"));
    if row.text("cgroup") == "v1" {
        let pages = parsed.map(|nodes| {
            let pages = nodes.iter().map(|(node, bytes)| json!([node, bytes.0 / host.page_size()]));
            json!({"pages": pages.collect::<Vec<_>>()})
        });
        return row.compare(pages);
    }
    let anon: Vec<Value> = row
        .text("text")
        .lines()
        .filter_map(|line| line.strip_prefix("anon "))
        .flat_map(str::split_ascii_whitespace)
        .filter_map(|field| field.strip_prefix('N')?.split_once('='))
        .map(|(node, bytes)| json!([node, bytes]))
        .collect();
    let sparse = |nodes: &[u32]| nodes.iter().zip(0..).any(|(node, index)| *node != index);
    match parsed {
        Err(error) => row.compare(Err(error)),
        Ok(nodes) => {
            let got: Vec<_> = nodes.iter().map(|(n, b)| json!([n.to_string(), b.0.to_string()])).collect();
            let ids: Vec<u32> = nodes.keys().copied().collect();
            if row.is_error() && !sparse(&ids) {
                return row.compare(Ok::<_, StatError>(json!(got)));
            }
            // Gaps in node ids are refused by the reference and are right (H09 of the hazards).
            row.compare_with(&json!(anon), &json!(got))
        }
    }
}

fn pids(row: &Row, resource: Resource) -> Verdict {
    row.compare(read::parse_pids(resource, row.text("text")).map(|ids| json!({ "ids": ids })))
}

fn psi_file(row: &Row) -> Verdict {
    let line = |line: PressureLine| json!({"avg10": line.avg10, "avg60": line.avg60, "avg300": line.avg300, "total": line.total});
    let parsed = read::parse_pressure(Resource::CpuPressure, row.text("text"));
    row.compare(parsed.map(|pressure| {
        json!({
            "some": pressure.some.map(line),
            "full": line(pressure.full.unwrap_or_default()),
            "fullSupported": pressure.full.is_some(),
        })
    }))
}

/// The check of each function, and its rows in the set.
pub(crate) const CHECKS: &[(&str, usize, Check)] = &[
    ("cpu_acct_usage", 6, cpu_acct_usage),
    ("cpu_period", 4, |row| setting(row, Resource::CfsPeriod)),
    ("cpu_quota", 7, |row| setting(row, Resource::CfsQuota)),
    ("cpu_shares", 4, |row| setting(row, Resource::CpuShares)),
    ("cpu_stat", 5, cpu_stat),
    ("cpuset", 4, |row| setting(row, Resource::Cpus)),
    ("memory_limit", 5, |row| setting(row, Resource::MemoryLimit)),
    ("memory_stat", 4, memory_stat),
    ("memory_usage", 1, memory_usage),
    ("numa_pages", 9, numa_pages),
    ("procs", 6, |row| pids(row, Resource::Procs)),
    ("psi_file", 7, psi_file),
    ("tasks", 2, |row| pids(row, Resource::Tasks)),
    ("throttled_ratio", 2, throttled_ratio),
];

#[test]
fn vector_cgroupread() {
    set::check("cgroupread", CHECKS);
}
