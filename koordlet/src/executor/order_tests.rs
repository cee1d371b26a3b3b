//! The rows of the table in `order`, and the worked examples of hooks.md 18.

use super::*;
use crate::units::{CfsQuota, CpuShares, MemoryLimit};

fn change(dir: &str, resource: Resource, now: Value, want: Value) -> Change {
    Change { dir: CgroupDir::new(dir).unwrap(), resource, now: Some(now), want }
}

fn quota(raw: i64) -> Value {
    Value::Quota(CfsQuota::from_raw(raw))
}

fn cpus(list: &str) -> Value {
    Value::Cpus(list.parse().unwrap())
}

fn texts(changes: &[Change]) -> Vec<String> {
    steps(changes)
        .iter()
        .map(|step| {
            let change = &changes[step.change];
            format!("{} {:?} {}", change.dir, change.resource, step.value)
        })
        .collect()
}

#[test]
fn c006_row_27_a_quota_shrinks_child_first() {
    let changes = [
        change("p", Resource::CfsQuota, quota(200_000), quota(160_000)),
        change("p/c", Resource::CfsQuota, quota(200_000), quota(160_000)),
    ];
    assert_eq!(texts(&changes), ["p/c CfsQuota 160000", "p CfsQuota 160000"]);
}

#[test]
fn c006_row_28_a_quota_grows_parent_first() {
    let changes = [
        change("p/c", Resource::CfsQuota, quota(160_000), quota(200_000)),
        change("p", Resource::CfsQuota, quota(160_000), quota(-1)),
    ];
    assert_eq!(texts(&changes), ["p CfsQuota -1", "p/c CfsQuota 200000"]);
}

#[test]
fn row_29_c027_cpusets_are_widened_to_the_union_from_outside_and_narrowed_from_inside() {
    let moved: Vec<_> =
        ["be", "be/p", "be/p/c"].map(|dir| change(dir, Resource::Cpus, cpus("0-1"), cpus("2-3"))).into();
    assert_eq!(
        texts(&moved),
        ["be Cpus 0-3", "be/p Cpus 0-3", "be/p/c Cpus 2-3", "be/p Cpus 2-3", "be Cpus 2-3"]
    );
    let single = [change("p", Resource::Cpus, cpus("0-1"), cpus("1-2"))];
    assert_eq!(texts(&single), ["p Cpus 1-2"]);
}

#[test]
fn only_levels_that_differ_get_a_union() {
    let changes = [
        change("be", Resource::Cpus, cpus("0-3"), cpus("2-3")),
        change("be/p", Resource::Cpus, cpus("0-1"), cpus("2-3")),
    ];
    assert_eq!(texts(&changes), ["be/p Cpus 2-3", "be Cpus 2-3"]);
}

#[test]
fn c007_burst_leaves_before_the_quota_and_comes_after_it() {
    let shrink = [
        change("c", Resource::CfsQuota, quota(200_000), quota(150_000)),
        change("c", Resource::CfsBurst, Value::Int(200_000), Value::Int(150_000)),
    ];
    assert_eq!(texts(&shrink), ["c CfsBurst 150000", "c CfsQuota 150000"]);
    let grow = [
        change("c", Resource::CfsBurst, Value::Int(0), Value::Int(200_000)),
        change("c", Resource::CfsQuota, quota(150_000), quota(200_000)),
    ];
    assert_eq!(texts(&grow), ["c CfsQuota 200000", "c CfsBurst 200000"]);
}

#[test]
fn c012_shares_are_written_after_idle_is_cleared_and_before_it_is_set() {
    let shares =
        change("c", Resource::CpuShares, Value::Shares(CpuShares(3)), Value::Shares(CpuShares(2048)));
    let clear = [shares.clone(), change("c", Resource::CpuIdle, Value::Int(1), Value::Int(0))];
    assert_eq!(texts(&clear), ["c CpuIdle 0", "c CpuShares 2048"]);
    let set = [change("c", Resource::CpuIdle, Value::Int(0), Value::Int(1)), shares];
    assert_eq!(texts(&set), ["c CpuShares 2048", "c CpuIdle 1"]);
}

#[test]
fn memory_and_swap_goes_before_memory_when_raising_and_after_it_when_lowering() {
    let limit = |bytes| Value::Memory(MemoryLimit::Bytes(bytes));
    let raise = [
        change("c", Resource::MemoryLimit, limit(1), Value::Memory(MemoryLimit::Unlimited)),
        change("c", Resource::MemswLimit, limit(1), Value::Memory(MemoryLimit::Unlimited)),
    ];
    assert_eq!(texts(&raise), ["c MemswLimit -1", "c MemoryLimit -1"]);
    let lower = [
        change("c", Resource::MemswLimit, limit(9), limit(4)),
        change("c", Resource::MemoryLimit, limit(9), limit(4)),
    ];
    assert_eq!(texts(&lower), ["c MemoryLimit 4", "c MemswLimit 4"]);
}

#[test]
fn memory_protection_widens_at_the_parent_and_narrows_at_the_child_first() {
    let min = |dir: &str, now, want| {
        let bytes = |b| Value::Memory(MemoryLimit::Bytes(b));
        change(dir, Resource::MemoryMin, bytes(now), bytes(want))
    };
    assert_eq!(texts(&[min("p/c", 0, 9), min("p", 0, 9)]), ["p MemoryMin 9", "p/c MemoryMin 9"]);
    assert_eq!(texts(&[min("p", 9, 0), min("p/c", 9, 0)]), ["p/c MemoryMin 0", "p MemoryMin 0"]);
}

#[test]
fn mems_come_before_cpus() {
    let changes = [
        change("c", Resource::Cpus, cpus(""), cpus("0-1")),
        change("c", Resource::Mems, cpus(""), cpus("0")),
    ];
    assert_eq!(texts(&changes), ["c Mems 0", "c Cpus 0-1"]);
}

#[test]
fn a_failed_widening_stops_what_is_beneath_and_a_failed_narrowing_stops_its_parents() {
    let at = |dir: &str| change(dir, Resource::Cpus, cpus("0"), cpus("1"));
    let (be, pod, other) = (at("be"), at("be/p"), at("ls"));
    assert!(blocks((&be, Pass::Widen), (&pod, Pass::Narrow)));
    assert!(blocks((&be, Pass::Widen), (&be, Pass::Narrow)));
    assert!(blocks((&pod, Pass::Narrow), (&be, Pass::Narrow)));
    assert!(!blocks((&pod, Pass::Widen), (&be, Pass::Narrow)));
    assert!(!blocks((&be, Pass::Widen), (&other, Pass::Narrow)));
    let burst = change("c", Resource::CfsBurst, Value::Int(2), Value::Int(1));
    let narrow_quota = change("c", Resource::CfsQuota, quota(2000), quota(1000));
    assert!(blocks((&burst, Pass::Narrow), (&narrow_quota, Pass::Narrow)));
    assert!(!blocks((&burst, Pass::Narrow), (&be, Pass::Narrow)));
}
