//! What group identity comes to on kernels without it.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::cgroup::layout::Layout;
use crate::cgroup::value::Value;
use crate::claims::claim::Owner;
use crate::claims::testing::{BE_DIR, BOUNDED, UNBOUNDED, dir, plan_of, pod, said, table, tree};
use crate::units::CpuShares;

const MAINLINE: [Resource; 3] = [Resource::CpuShares, Resource::CpuIdle, Resource::MemoryHigh];

fn requests(cpu: &str) -> Json {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

/// Two pods: `b` is best effort, `l` asks for half a core.
fn pods() -> PodTable {
    table([pod("b", "BE", json!({"containers": [{"name": "c"}]})), pod("l", "LS", requests("500m"))])
}

fn identity(path: &str, identity: i64) -> Claim {
    let reason = Reason { text: "its identity".to_owned(), inputs: BTreeMap::new() };
    let target = CgroupTarget::new(&dir(path), Resource::BvtWarpNs);
    Claim::hold(target, Value::Int(identity), Owner::GroupIdentity, Arc::new(reason))
}

/// All that group identity claims of the two pods and their class directories.
fn claims() -> Vec<Claim> {
    let of_be = [
        BE_DIR,
        "kubepods/besteffort/podb",
        "kubepods/besteffort/podb/c",
        "kubepods/besteffort/podb/sandbox",
    ];
    let of_ls = ["kubepods/burstable", "kubepods/burstable/podl", "kubepods/burstable/podl/c", "host/app"];
    let of_be = of_be.into_iter().map(|path| identity(path, -1));
    of_be.chain(of_ls.into_iter().map(|path| identity(path, 2))).collect()
}

fn substituted(files: &[Resource], policy: KubeletCpuPolicy, mut claims: Vec<Claim>) -> Vec<Claim> {
    let (pods, files) = (pods(), files.iter().copied().collect());
    let topology = Topology { kubelet_policy: policy, ..Topology::default() };
    let tree = tree(&pods);
    let host = MainlineHost { files: &files, pods: &pods, tree: &tree, topology: Some(&topology) };
    substitute(&mut claims, host);
    claims
}

fn lines(claims: &[Claim]) -> Vec<String> {
    let line = |claim: &Claim| {
        let Wish::Hold(value) = &claim.wish else { panic!("{claim:?}") };
        format!("{} {value}", claim.target)
    };
    claims.iter().map(line).collect()
}

#[test]
fn best_effort_pods_become_idle_and_ls_pods_heavier_and_classes_stay_alone() {
    let claims = substituted(&MAINLINE, KubeletCpuPolicy::None, claims());
    assert_eq!(
        lines(&claims),
        [
            "kubepods/besteffort/podb CpuIdle 1",
            "kubepods/besteffort/podb/c CpuIdle 1",
            "kubepods/besteffort/podb/sandbox CpuIdle 1",
            "kubepods/burstable/podl CpuShares 2048",
        ]
    );
    let reason = &claims[0].reason;
    let start =
        "its identity; this kernel has no cpu.bvt_warp_ns, so cpu.idle stands in (--mainline-equivalents): ";
    assert!(reason.text.starts_with(start), "{reason:?}");
    assert_eq!(reason.inputs["insteadOf"], "cpu.bvt_warp_ns -1");
    assert_eq!(claims[3].reason.inputs["timesShares"], "4");
    assert!(claims.iter().all(|claim| claim.owner == Owner::GroupIdentity));
}

#[test]
fn containers_that_the_kubelet_has_rewritten_are_left_alone() {
    for policy in [KubeletCpuPolicy::Static, KubeletCpuPolicy::Unknown] {
        let claims = substituted(&MAINLINE, policy, claims());
        let wanted = ["kubepods/besteffort/podb CpuIdle 1", "kubepods/burstable/podl CpuShares 2048"];
        assert_eq!(lines(&claims), wanted, "{policy:?}");
    }
}

#[test]
fn a_kernel_with_the_vendors_file_or_without_kubepods_is_left_as_it_is() {
    let vendor = [Resource::CpuShares, Resource::CpuIdle, Resource::BvtWarpNs];
    for files in [&vendor[..], &[]] {
        assert_eq!(substituted(files, KubeletCpuPolicy::None, claims()), claims(), "{files:?}");
    }
}

#[test]
fn what_a_kernel_has_nothing_for_is_dropped() {
    let old = substituted(&[Resource::CpuShares], KubeletCpuPolicy::None, claims());
    assert_eq!(lines(&old), ["kubepods/burstable/podl CpuShares 2048"], "no cpu.idle before 5.15");
    let zeros = claims().into_iter().map(|claim| identity(claim.target.dir.as_str(), 0)).collect();
    assert!(substituted(&MAINLINE, KubeletCpuPolicy::None, zeros).is_empty());
    let stray = vec![identity("kubepods/burstable/podgone", 1), identity("nobody/knows", -1)];
    assert!(substituted(&MAINLINE, KubeletCpuPolicy::None, stray).is_empty());
    let mut left = vec![identity("kubepods/besteffort/podb", -1)];
    left[0].wish = Wish::Leave;
    assert!(substituted(&MAINLINE, KubeletCpuPolicy::None, left).is_empty());
}

#[test]
fn claims_on_other_settings_pass_and_batch_shares_come_before_an_identitys_weight() {
    let batch = Claim::hold(
        CgroupTarget::new(&dir("kubepods/burstable/podl"), Resource::CpuShares),
        Value::Shares(CpuShares(102)),
        Owner::BatchResource,
        Arc::new(Reason { text: "a batch request".to_owned(), inputs: BTreeMap::new() }),
    );
    let mut claims = claims();
    claims.push(batch);
    let claims = substituted(&MAINLINE, KubeletCpuPolicy::None, claims);
    for semantics in [BOUNDED, UNBOUNDED] {
        let plan = plan_of(&pods(), None, semantics, claims.clone());
        assert_eq!(said(&plan, "kubepods/burstable/podl", Resource::CpuShares), "hold 102");
        let chain = &plan.entries[&CgroupTarget::new(&dir("kubepods/burstable/podl"), Resource::CpuShares)];
        let owners: Vec<Owner> = chain.claims.iter().map(|claim| claim.owner).collect();
        assert_eq!(owners, [Owner::BatchResource, Owner::GroupIdentity, Owner::PodSpec]);
        assert_eq!(said(&plan, "kubepods/besteffort/podb", Resource::CpuIdle), "hold 1");
        assert_eq!(said(&plan, "kubepods/besteffort/podb", Resource::CpuShares), "release 2");
    }
}

/// The same claims are other files with other texts on the two kinds of host, v1 and v2.
#[test]
fn what_stands_in_is_written_as_each_kind_of_host_takes_it() {
    for (entries, idle, weight) in [
        (
            &["cpu", "memory"][..],
            "cpu/kubepods/besteffort/podb/cpu.idle 1",
            "cpu/kubepods/burstable/podl/cpu.shares 2048",
        ),
        (
            &["cgroup.controllers"],
            "kubepods/besteffort/podb/cpu.idle 1",
            "kubepods/burstable/podl/cpu.weight 79",
        ),
    ] {
        let root = tempfile::tempdir().unwrap();
        for entry in entries {
            std::fs::create_dir(root.path().join(entry)).unwrap();
        }
        let layout = Layout::of_folder(root.path()).unwrap();
        let claims = substituted(&MAINLINE, KubeletCpuPolicy::Static, claims());
        let written = claims.iter().map(|claim| {
            let Wish::Hold(value) = &claim.wish else { panic!("{claim:?}") };
            let CgroupTarget { dir, resource } = &claim.target;
            let path = layout.path(&layout.file(dir, *resource).unwrap()).unwrap();
            let path = path.strip_prefix(root.path().canonicalize().unwrap()).unwrap().display().to_string();
            format!("{path} {}", layout.format(*resource, value).unwrap())
        });
        assert_eq!(written.collect::<Vec<_>>(), [idle, weight]);
    }
}
