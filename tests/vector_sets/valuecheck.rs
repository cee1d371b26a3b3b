//! Set `valuecheck`: which values a resource takes (collection.md 3.6). Recorded texts are read as the file's
//! text and then checked as a value.

use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use serde_json::json;

use crate::set::{self, Check, Row, Verdict};

/// Why rows of a resource cannot apply to us.
fn not_applicable(row: &Row) -> Option<&'static str> {
    let (resource, text) = (row.text("resource"), row.text("value"));
    if resource.starts_with("blkio.") {
        return Some("no block I/O value yet: its strategy is not built");
    }
    if resource == "net_cls.classid" && row.text("cgroup") == "v2" {
        return Some("v2 has no network classes: the reference checks a value that it cannot write there");
    }
    if resource == "net_cls.classid" && text.starts_with("0x") {
        return Some(
            "a class is a number here, and written in decimal: how its text is spelt cannot be a value",
        );
    }
    if resource == "cpu.cfs_period_us" {
        return Some("the period is never written");
    }
    let any = matches!(resource, "cpu.cfs_quota_us" | "memory.limit_in_bytes");
    if any && text != "max" && !text.parse::<i64>().is_ok_and(|number| number >= -1) {
        return Some("a quota or limit is a number from -1 on here: other text cannot be a value");
    }
    None
}

fn value_check(row: &Row) -> Verdict {
    if let Some(reason) = not_applicable(row) {
        return Verdict::NotApplicable(reason);
    }
    let host = set::layout(row.text("cgroup"));
    let Some(resource) = Resource::from_v1_name(row.text("resource")) else {
        return Verdict::Wrong("no such resource".into());
    };
    let dir = CgroupDir::new("kubepods").unwrap();
    if host.file(&dir, resource).is_none() {
        return row.compare(Err("not registered"));
    }
    // The recorded text is what would be written: v2's file shows the period beside a quota.
    let two_fields = resource == Resource::CfsQuota && row.text("cgroup") == "v2";
    let text = format!("{}{}", row.text("value"), if two_fields { " 100000" } else { "" });
    let parsed = host.parse(resource, &text);
    let valid = parsed.is_ok_and(|value| host.check(resource, &value).is_ok());
    match row.defect.as_deref() {
        // v1's cap on burst is the reference's own: the kernel takes up to 2^44 us.
        Some("Q17") => {
            let taken = text.parse().is_ok_and(|burst: i64| (0..1 << 44).contains(&burst));
            row.compare_with(&json!(taken), &json!(valid))
        }
        _ => row.compare(Ok::<_, String>(json!({ "valid": valid }))),
    }
}

/// The check of each function, and its rows in the set.
pub(crate) const CHECKS: &[(&str, usize, Check)] = &[("value_check", 103, value_check)];

#[test]
fn vector_valuecheck() {
    set::check("valuecheck", CHECKS);
}
