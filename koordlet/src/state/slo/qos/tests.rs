use serde_json::json;

use super::blkio::BlockKind;
use super::cpu::{CpuQos, CpuQosPolicy};
use super::network::{Bandwidth, NetworkQosPolicy};
use super::*;
use crate::units::{Bytes, Percent};

fn updated(mut qos: QosStrategy, section: &Value) -> (QosStrategy, Vec<SloNotice>) {
    let mut notices = Vec::new();
    qos.update(Some(section), &mut notices);
    (qos, notices)
}

fn of(section: &Value) -> QosStrategy {
    let (qos, notices) = updated(QosStrategy::default(), section);
    assert_eq!(notices, [], "{section}");
    qos
}

#[test]
fn without_a_section_classes_are_neutral_and_system_has_its_defaults() {
    let qos = of(&json!({}));
    assert_eq!(qos, QosStrategy::default());
    for class in [QosClass::Lse, QosClass::Lsr, QosClass::Ls, QosClass::Be] {
        assert_eq!(*qos.cpu.classes.of(class), CpuQos::default());
        assert_eq!(*qos.memory.of(class), MemoryQos::NEUTRAL);
        assert_eq!(*qos.resctrl.of(class), ResctrlQos::NEUTRAL);
    }
    // The default of SYSTEM and the neutral value are the same in these.
    assert_eq!((qos.memory.system, qos.resctrl.system), (MemoryQos::NEUTRAL, ResctrlQos::NEUTRAL));
    assert_eq!((qos.cpu.policy, qos.network.policy), (CpuQosPolicy::GroupIdentity, NetworkQosPolicy::Tc));
    assert!(!qos.blkio.root.enable && qos.blkio.classes.be.blocks.is_empty());
}

#[test]
fn an_enabled_member_has_the_defaults_of_its_class() {
    let on =
        json!({"cpuQOS": {"enable": true}, "memoryQOS": {"enable": true}, "resctrlQOS": {"enable": true}});
    let qos = of(&json!({"lsrClass": on, "lsClass": on, "beClass": on, "systemClass": on}));
    let cpu = |class| {
        let CpuQos { enable, group_identity, sched_idle, core_expeller } = *qos.cpu.classes.of(class);
        assert!(enable && sched_idle == 0);
        (group_identity, core_expeller)
    };
    let memory = |class| {
        let memory = qos.memory.of(class);
        (memory.wmark_ratio.0, memory.wmark_scale_permill, memory.wmark_min_adj)
    };
    let classes = [QosClass::Lsr, QosClass::Ls, QosClass::Be, QosClass::System];
    assert_eq!(classes.map(cpu), [(2, true), (2, true), (-1, false), (0, false)]);
    assert_eq!(classes.map(memory), [(95, 20, -25), (95, 20, -25), (95, 20, 50), (0, 50, 0)]);
    assert_eq!(classes.map(|class| qos.resctrl.of(class).cat_range_end.0), [100, 100, 30, 100]);
}

/// Vectors K2 and K3 of qos.md 13.
#[test]
fn what_is_off_is_neutral() {
    for (resctrl, range) in [
        (json!({"enable": true}), (0, 30, 100)),
        (json!({"enable": true, "catRangeEndPercent": 20}), (0, 20, 100)),
        (json!({"catRangeEndPercent": 20}), (0, 100, 100)),
    ] {
        let be = of(&json!({"beClass": {"resctrlQOS": resctrl}})).resctrl.be;
        assert_eq!((be.cat_range_start.0, be.cat_range_end.0, be.mba.0), range, "{resctrl}");
    }
    for (class, name, memory, want) in [
        (QosClass::Ls, "lsClass", json!({"enable": true, "minLimitPercent": 30}), [30, 0, 0, 95, 20, -25]),
        (QosClass::Ls, "lsClass", json!({"minLimitPercent": 30}), [0, 0, 0, 0, 50, 0]),
        (QosClass::Be, "beClass", json!({"enable": true, "wmarkRatio": 90}), [0, 0, 0, 90, 20, 50]),
        (QosClass::System, "systemClass", json!({"minLimitPercent": 10}), [10, 0, 0, 0, 50, 0]),
    ] {
        let qos = of(&json!({name: {"memoryQOS": memory}}));
        let MemoryQos {
            min_limit,
            low_limit,
            throttling,
            wmark_ratio,
            wmark_scale_permill,
            wmark_min_adj,
            ..
        } = *qos.memory.of(class);
        let got = [min_limit.0, low_limit.0, throttling.0, wmark_ratio.0, wmark_scale_permill, wmark_min_adj];
        assert_eq!(got, want, "{name} {memory}");
    }
    // Block I/O and network keep their fields.
    let off =
        json!({"lsClass": {"blkioQOS": {"blocks": [{"name": "a"}]}, "networkQOS": {"ingressLimit": 50}}});
    let qos = of(&off);
    assert_eq!(qos.blkio.classes.ls.blocks.len(), 1);
    assert_eq!(qos.network.classes.ls.ingress_limit, Bandwidth::Percent(Percent(50)));
}

#[test]
fn blocks_rates_and_page_cache_are_read() {
    let io = json!({"readIOPS": 1, "writeIOPS": 2, "readBPS": 3, "writeBPS": 0, "ioWeightPercent": 100, "readLatency": 4,
        "writeLatency": 5, "readLatencyPercent": 95, "writeLatencyPercent": 0, "enableUserModel": true, "modelReadBPS": 6,
        "modelWriteBPS": 7, "modelReadSeqIOPS": 8, "modelWriteSeqIOPS": 9, "modelReadRandIOPS": 10, "modelWriteRandIOPS": 11});
    let blocks =
        json!([{"name": "/dev/sdb", "type": "device", "ioCfg": io}, {"name": "vg", "type": "volumegroup"}]);
    let cache = json!({"enable": true, "pageCacheEnable": true, "pageCacheLimitPercent": 50,
        "pageCacheLimitSize": 4096, "pageCacheReclaimSync": false});
    let network = json!({"enable": true, "ingressRequest": 30, "ingressLimit": "50M", "egressRequest": 0, "egressLimit": 100});
    let qos = of(&json!({
        "policies": {"cpuPolicy": "coreSched", "netQOSPolicy": "terway-qos"},
        "cgroupRoot": {"blkioQOS": {"enable": true, "blocks": blocks}},
        "beClass": {"memoryQOS": cache, "networkQOS": network},
    }));
    assert_eq!((qos.cpu.policy, qos.network.policy), (CpuQosPolicy::CoreSched, NetworkQosPolicy::TerwayQos));
    let root = &qos.blkio.root;
    assert_eq!(serde_json::to_value(&root.blocks[0].io_cfg).unwrap(), io);
    assert_eq!(root.blocks[1].kind, Some(BlockKind::VolumeGroup));
    let memory = qos.memory.be;
    assert_eq!(
        (memory.page_cache_limit_size, memory.page_cache_reclaim_sync),
        (Some(Bytes(4096)), Some(false))
    );
    assert_eq!(serde_json::to_value(qos.network.classes.be).unwrap(), network);
}

#[test]
fn c131_each_mechanism_keeps_its_last_good_value() {
    let on = |member: &str, field: &str, value: Value| json!({"lsClass": {member: {"enable": true, field: value}}});
    for (member, field, bad) in [
        ("cpuQOS", "groupIdentity", json!("high")),
        ("memoryQOS", "wmarkRatio", json!(101)),
        ("memoryQOS", "wmarkMinAdj", json!(-26)),
        ("memoryQOS", "minLimitPercent", json!(-1)),
        ("memoryQOS", "pageCacheLimitSize", json!(-1)),
        ("resctrlQOS", "mbaPercent", json!(1.5)),
        ("blkioQOS", "blocks", json!({})),
        ("blkioQOS", "blocks", json!([5])),
        ("blkioQOS", "blocks", json!([{"type": "disk"}])),
        ("blkioQOS", "blocks", json!([{"ioCfg": {"ioWeightPercent": 0}}])),
        ("blkioQOS", "blocks", json!([{"ioCfg": {"modelReadBPS": 0}}])),
        ("networkQOS", "ingressLimit", json!("30%")),
        ("networkQOS", "ingressLimit", json!(101)),
        ("networkQOS", "ingressLimit", json!("-5M")),
    ] {
        let last = of(&json!({"lsClass": {"cpuQOS": {"enable": true}, "memoryQOS": {"enable": true},
            "resctrlQOS": {"enable": true}, "blkioQOS": {"enable": true}, "networkQOS": {"enable": true}}}));
        let (qos, notices) = updated(last.clone(), &on(member, field, bad.clone()));
        assert_eq!(notices.len(), 1, "{member} {field} {bad}: {notices:?}");
        assert!(
            notices[0].field.starts_with(&format!("spec.resourceQOSStrategy.lsClass.{member}.{field}")),
            "{notices:?}"
        );
        let kept = [
            qos.cpu.classes.ls.enable,
            qos.memory.ls.enable,
            qos.resctrl.ls.enable,
            qos.blkio.classes.ls.enable,
            qos.network.classes.ls.enable,
        ];
        let stays =
            ["cpuQOS", "memoryQOS", "resctrlQOS", "blkioQOS", "networkQOS"].map(|name| name == member);
        assert_eq!(kept, stays, "the others were replaced by what is off");
    }
}

#[test]
fn a_class_that_is_no_object_leaves_all_as_it_was() {
    let last = of(&json!({"lsClass": {"cpuQOS": {"enable": true}}}));
    for bad in [json!([]), json!({"beClass": 5}), json!({"policies": "tc"}), json!("x")] {
        let (qos, notices) = updated(last.clone(), &bad);
        assert_eq!((qos, notices.len()), (last.clone(), 1), "{bad}");
    }
    let (qos, notices) = updated(last, &json!({"bigClass": {}, "lsClass": {"gpuQOS": {}, "cpuQOS": null}}));
    assert!(!qos.cpu.classes.ls.enable);
    let fields: Vec<&str> = notices.iter().map(|notice| notice.field.as_str()).collect();
    assert_eq!(fields, ["spec.resourceQOSStrategy.lsClass.gpuQOS", "spec.resourceQOSStrategy.bigClass"]);
}
