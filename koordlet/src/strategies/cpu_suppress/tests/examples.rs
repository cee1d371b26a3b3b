//! Worked examples of qos.md 11 and known faults.

use super::*;

#[test]
fn w1_the_amount_and_its_terms() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.set_capacity(16_000, 15_500);
    world.pod("a", Some(QosClass::Ls), KubeQos::Burstable, 4.1, "");
    world.pod("b", Some(QosClass::Lsr), KubeQos::Guaranteed, 1.0, "");
    world.pod("c", Some(QosClass::Be), KubeQos::Burstable, 1.3, "");
    world.pod("d", None, KubeQos::BestEffort, 0.2, "");
    world.host_app("nginx", "LS", "", 0.3);
    world.set_node_use(7.2);
    let mut state = cpus_state("0-15");
    world.step(&mut state);
    let amount = state.amount.clone().unwrap();
    assert_eq!(amount.ls_pods, MilliCpu(5100));
    assert_eq!((amount.ls_host_apps, amount.system), (MilliCpu(300), MilliCpu(500)));
    assert_eq!(amount.amount, MilliCpu(4500));

    world.policy().min = Some(Percent(35));
    let outcome = world.step(&mut state);
    assert_eq!(outcome.figures.unwrap().amount, MilliCpu(5600));
    assert_eq!(outcome.figures.unwrap().ls_used, MilliCpu(5100));
}

#[test]
fn w1_an_unknown_pod_counts_as_latency_sensitive_and_system_never_below_zero() {
    let mut world = World::new(20, SuppressPolicy::Cpuset);
    world.policy().threshold = Percent(70);
    world.set_usage("gone", 8.0);
    world.set_usage("be", 4.0);
    world.set_node_use(11.0);
    let outcome = world.step(&mut cpus_state("0-19"));
    assert_eq!(outcome.figures.unwrap().amount, MilliCpu(6000));
}

#[test]
fn a_host_application_in_the_be_tree_is_not_latency_sensitive() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.host_app("batch", "BE", "KubepodsBesteffort", 1.0);
    world.host_app("other", "BE", "CgroupRoot", 2.0);
    world.set_node_use(3.0);
    let mut state = SuppressState::default();
    world.step(&mut state);
    let amount = state.amount.unwrap();
    assert_eq!((amount.ls_host_apps, amount.system), (MilliCpu(2000), MilliCpu(0)));
}

#[test]
fn q40_the_order_of_samples_does_not_change_the_amount() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    for index in 0..10 {
        world.set_usage(&format!("p{index}"), 0.1);
    }
    world.set_node_use(1.0);
    let mut state = SuppressState::default();
    world.step(&mut state);
    assert_eq!(state.amount.unwrap().ls_pods, MilliCpu(1000));
}

#[test]
fn w2_every_level_gets_the_chosen_cpus() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.pod("lsr", Some(QosClass::Lsr), KubeQos::Guaranteed, 0.0, "0-1");
    world.set_amount(4500);
    let outcome = world.step(&mut cpus_state("2-3,10-11"));
    let want = "2-3,8-10".to_owned();
    let paths = [BE_DIR, "kubepods/besteffort/podbe", "kubepods/besteffort/podbe/c"];
    let all: BTreeMap<String, String> =
        paths.iter().map(|path| (format!("{path} Cpus"), want.clone())).collect();
    assert_eq!(values(&outcome), all);
}

#[test]
fn w2_under_the_static_policy_only_containers_are_narrowed() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.pod("lsr", Some(QosClass::Lsr), KubeQos::Guaranteed, 0.0, "0-1");
    world.topology().kubelet_policy = KubeletCpuPolicy::Static;
    world.set_amount(4500);
    world.topology().kubelet_policy = KubeletCpuPolicy::Static;
    let outcome = world.step(&mut cpus_state("2-3,10-11"));
    assert_eq!(be_cpus(&outcome).unwrap(), "0-15");
    let pod = "kubepods/besteffort/podbe";
    assert_eq!(value(&outcome, pod, Resource::Cpus).unwrap(), "0-15");
    assert_eq!(value(&outcome, &format!("{pod}/c"), Resource::Cpus).unwrap(), "2-3,8-10");
}

#[test]
fn q7_growth_is_limited_under_the_static_policy_too() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.topology().kubelet_policy = KubeletCpuPolicy::Static;
    let mut state = cpus_state("0-3");
    let mut sizes = Vec::new();
    for _ in 0..4 {
        world.set_amount(9000);
        world.topology().kubelet_policy = KubeletCpuPolicy::Static;
        let outcome = world.step(&mut state);
        sizes.push(set(&value(&outcome, "kubepods/besteffort/podbe/c", Resource::Cpus).unwrap()).len());
    }
    assert_eq!(sizes, [6, 8, 9, 9]);
}

#[test]
fn q3_too_few_cpus_are_all_taken_and_reported() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.pod("lse", Some(QosClass::Lse), KubeQos::Guaranteed, 0.0, "0-11");
    world.set_amount(6000);
    let outcome = world.step(&mut cpus_state("0-15"));
    assert_eq!(be_cpus(&outcome).unwrap(), "12-15");
    assert_eq!(outcome.notices, [Condition::TooFewCpus]);
}

#[test]
fn c034_be_never_gets_reserved_or_exclusive_cpus() {
    let mut world = World::new(8, SuppressPolicy::Cpuset);
    let node = Arc::make_mut(world.snapshot.node.as_mut().unwrap());
    node.metadata.annotations.insert(keys::NODE_RESERVATION.into(), r#"{"reservedCPUs":"0"}"#.into());
    world.pod("lse", Some(QosClass::Lse), KubeQos::Guaranteed, 0.0, "6-7");
    world.set_amount(4000);
    world.snapshot_ls(3.0); // the reserved CPU counts as system use
    let cpus = set(&be_cpus(&world.step(&mut cpus_state("0-7"))).unwrap());
    assert_eq!(cpus.len(), 4);
    assert!(cpus.is_subset(&set("1-5")), "{cpus}");
}

#[test]
fn w4_the_be_directory_is_limited_and_nothing_beneath_it() {
    let mut world = World::new(16, SuppressPolicy::CfsQuota);
    world.set_amount(4500);
    let outcome = world.step(&mut quota_state(200_000));
    let want = [
        ("kubepods/besteffort CfsQuota", "360000"),
        ("kubepods/besteffort/podbe CfsQuota", "-1"),
        ("kubepods/besteffort/podbe/c CfsQuota", "-1"),
    ];
    let want: BTreeMap<_, _> = want.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    assert_eq!(values(&outcome), want);
    assert_eq!(outcome.figures.unwrap().limit, Some(MilliCpu(3600)));
    assert_eq!(outcome.figures.unwrap().policy, Some("cfsQuota"));
}

#[test]
fn w4_a_table_of_quotas() {
    for (amount, present, want) in [
        (4500, -1, "450000"),
        (4500, 445_000, "445000"),
        (4500, 900_000, "450000"),
        (-200, 450_000, "2000"),
        (100, -1, "10000"), // Q4
    ] {
        let mut world = World::new(16, SuppressPolicy::CfsQuota);
        world.set_amount(amount);
        let outcome = world.step(&mut quota_state(present));
        assert_eq!(be_quota(&outcome).unwrap(), want, "{amount} {present}");
    }
}

#[test]
fn c001_after_a_foreign_reset_the_applied_quota_is_claimed_in_one_step() {
    let mut world = World::new(32, SuppressPolicy::CfsQuota);
    world.set_amount(3200);
    let mut state = quota_state(320_000);
    let before = world.step(&mut state);
    assert_eq!(be_quota(&before).unwrap(), "320000");
    // Another writer sets -1 in the kernel; the next step does not start from there.
    let after = world.step(&mut state);
    assert_eq!(after.claims, before.claims);
}

#[test]
fn c002_from_unlimited_to_the_target_at_once() {
    let mut world = World::new(100, SuppressPolicy::CfsQuota);
    world.set_amount(50_000);
    assert_eq!(be_quota(&world.step(&mut quota_state(-1))).unwrap(), "5000000");
}

#[test]
fn c024_no_container_is_claimed_wider_than_the_directories_above_it() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.pod("own", Some(QosClass::Be), KubeQos::BestEffort, 0.0, "14-15");
    world.set_amount(2000);
    let outcome = world.step(&mut cpus_state("0-15"));
    let claims: BTreeMap<CgroupDir, CpuSet> = outcome
        .claims
        .iter()
        .map(|claim| {
            let CgroupTarget { dir, .. } = &claim.target;
            let Wish::Hold(Value::Cpus(cpus)) = &claim.wish else { panic!("{claim:?}") };
            (dir.clone(), cpus.clone())
        })
        .collect();
    assert_eq!(claims.len(), 5);
    for (dir, cpus) in &claims {
        let above = dir.parent().and_then(|parent| claims.get(&parent));
        assert!(above.is_none_or(|above| cpus.is_subset(above)), "{dir} {cpus}");
        assert!(!cpus.is_empty()); // C026
    }
}

#[test]
fn c027_a_move_to_other_cpus_is_the_same_at_every_level() {
    // The order (union down, narrow up) is the executor's; here all levels agree before and after.
    let mut world = World::new(4, SuppressPolicy::Cpuset);
    world.set_amount(2000);
    let mut state = cpus_state("0-1");
    world.step(&mut state);
    world.pod("lse", Some(QosClass::Lse), KubeQos::Guaranteed, 0.0, "0-1");
    let outcome = world.step(&mut state);
    assert!(values(&outcome).values().all(|cpus| cpus == "2-3"), "{:?}", values(&outcome));
}

#[test]
fn q6_a_pod_keeps_its_own_cpus_and_others_do_not_get_them() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.pod("own", Some(QosClass::Be), KubeQos::BestEffort, 0.0, "14-15");
    world.set_amount(2000);
    let outcome = world.step(&mut cpus_state("0-15"));
    assert_eq!(value(&outcome, "kubepods/besteffort/podown/c", Resource::Cpus).unwrap(), "14-15");
    assert_eq!(value(&outcome, "kubepods/besteffort/podbe/c", Resource::Cpus).unwrap(), "0-1");
    assert_eq!(be_cpus(&outcome).unwrap(), "0-1,14-15");
}

#[test]
fn a_known_container_is_claimed_before_its_directory_exists_and_a_finished_pod_is_not() {
    let mut world = World::new(16, SuppressPolicy::CfsQuota);
    world.pod("late", Some(QosClass::Be), KubeQos::BestEffort, 0.0, "");
    world.pod("done", Some(QosClass::Be), KubeQos::BestEffort, 0.0, "");
    let table = Arc::make_mut(&mut world.snapshot.pods);
    let done = Arc::make_mut(table.pods.get_mut("done").unwrap());
    Arc::make_mut(&mut done.pod).status.phase = "Succeeded".into();
    Arc::make_mut(&mut world.snapshot.tree).dirs.clear();
    let outcome = world.step(&mut quota_state(-1));
    let late = "kubepods/besteffort/podlate/c";
    assert_eq!(value(&outcome, late, Resource::CfsQuota).as_deref(), Some("-1"));
    assert_eq!(value(&outcome, "kubepods/besteffort/poddone", Resource::CfsQuota), None);
}

#[test]
fn groups_inside_a_container_are_left_to_it() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    let deep = dir("kubepods/besteffort/podbe/c/deep");
    Arc::make_mut(&mut world.snapshot.tree).dirs.insert(deep, DirKind::Nested);
    let outcome = world.step(&mut cpus_state("0-15"));
    assert_eq!(outcome.claims.len(), 3);
}

#[test]
fn a_reason_carries_the_formula_with_its_figures() {
    let mut world = World::new(16, SuppressPolicy::CfsQuota);
    world.set_amount(4500);
    let outcome = world.step(&mut quota_state(200_000));
    let reason = &outcome.claims.first().unwrap().reason;
    assert_eq!(
        reason.text,
        "16000 x 100 % - LS pods 11500 - host applications 0 - system 0 = 4500 m; quota 450000 us, in this \
         step at most 160000 us up: 360000 us (qos.md 5.1)"
    );
    let names: Vec<&str> = reason.inputs.keys().copied().collect();
    let want = [
        "amount_m",
        "capacity_m",
        "ls_host_apps_m",
        "ls_pods_m",
        "reserved_m",
        "step_us",
        "system_m",
        "target_us",
        "threshold_percent",
    ];
    assert_eq!(names, want);
}
