//! Set `conversions`: milli-cores, shares, weight, quota (collection.md 3.8).

use koordlet::cgroup::codec::{shares_of_weight, weight_of_shares};
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::{Value, ValueError};
use koordlet::units::{CfsQuota, CpuShares, MilliCpu};
use serde_json::json;

use crate::set::{self, Check, Row, Verdict};

fn milli_to_shares_quota(row: &Row) -> Verdict {
    let milli = MilliCpu(row.int("milli").unwrap());
    let (shares, quota) = (CpuShares::from_milli(milli), CfsQuota::from_milli(milli));
    row.compare(Ok::<_, ValueError>(json!({"shares": shares.0, "quota": quota.raw()})))
}

/// The recorded texts are what would be written; a wish is a number before it comes here.
fn shares_to_weight(row: &Row) -> Verdict {
    let host = set::layout("v2");
    let shares = row.text("shares").parse().map(CpuShares).map_err(|error| format!("{error}"));
    let checked = shares.and_then(|shares| {
        host.check(Resource::CpuShares, &Value::Shares(shares)).map_err(|error| error.to_string())?;
        Ok(json!({"weight": weight_of_shares(shares)}))
    });
    row.compare(checked)
}

fn weight_to_shares(row: &Row) -> Verdict {
    let weight = row.int("weight").and_then(|weight| u64::try_from(weight).ok());
    let shares = weight.and_then(shares_of_weight).ok_or("out of range");
    row.compare(shares.map(|shares| json!({"shares": shares.0})))
}

/// The check of each function, and its rows in the set.
pub(crate) const CHECKS: &[(&str, usize, Check)] = &[
    ("milli_to_shares_quota", 22, milli_to_shares_quota),
    ("shares_to_weight", 19, shares_to_weight),
    ("weight_to_shares", 18, weight_to_shares),
];

#[test]
fn vector_conversions() {
    set::check("conversions", CHECKS);
}
