//! Groups that nobody claims any more, and restores.

use super::*;

#[test]
fn h23_a_group_goes_ten_seconds_after_its_pod_and_not_before_pods_are_known() {
    let mut rig = Rig::mounted();
    rig.threads("kubepods/podu/c", &[1]);
    rig.apply(Wish::default().l3("u", 0xf).tasks(POD, "u"));
    rig.apply(Wish { unsynced: true, ..Wish::default() });
    rig.tick(60.0);
    assert_ne!(rig.schemata("koordlet-u"), "gone", "nobody said that it is withdrawn");
    rig.apply(Wish::default());
    rig.tick(9.0);
    assert_ne!(rig.schemata("koordlet-u"), "gone");
    rig.tick(1.0);
    assert_eq!((rig.schemata("koordlet-u").as_str(), rig.books.ledger.len()), ("gone", 0));
    assert_eq!(rig.keeper.next_deadline().map(|next| next > Nanos(0)), Some(true), "the mount is looked at");
}

#[test]
fn h23_a_removal_that_fails_is_tried_again() {
    let mut rig = Rig::mounted();
    rig.apply(Wish::default().l3("u", 0xf));
    rig.apply(Wish::default());
    rig.kernel.machine().faults.insert("remove", Errno::EBUSY);
    rig.tick(10.0);
    assert_ne!(rig.schemata("koordlet-u"), "gone");
    let refused: Vec<_> =
        rig.books.notices.iter().filter(|notice| notice.kind == NoticeKind::Refused).collect();
    assert_eq!(refused.len(), 1);
    rig.tick(1.0);
    assert_eq!(rig.schemata("koordlet-u"), "gone");
}

#[test]
fn a_pod_that_comes_back_keeps_its_group() {
    let mut rig = Rig::mounted();
    rig.apply(Wish::default().l3("u", 0xf));
    rig.apply(Wish::default());
    rig.tick(9.0);
    rig.apply(Wish::default().l3("u", 0xf));
    rig.tick(60.0);
    assert_ne!(rig.schemata("koordlet-u"), "gone");
    rig.apply(Wish::default());
    rig.tick(9.0);
    assert_ne!(rig.schemata("koordlet-u"), "gone", "it is spared anew");
}

#[test]
fn leftover_groups_of_pods_go_and_those_of_others_stay() {
    let mut rig = Rig::mounted();
    for name in ["koordlet-old", "LS", "BE", "admin"] {
        rig.kernel.put_group(name);
    }
    rig.apply(Wish::default());
    rig.tick(10.0);
    assert_eq!(rig.schemata("koordlet-old"), "gone");
    for name in ["LS", "BE", "admin", "."] {
        assert_ne!(rig.schemata(name), "gone", "{name}");
    }
}

#[test]
fn a_class_that_was_there_already_is_not_removed_and_one_that_we_made_is() {
    let mut rig = Rig::mounted();
    rig.kernel.put_group("LS");
    rig.apply(Wish::default().l3("LS", 0xf).l3("BE", 0x3));
    rig.apply(Wish::default());
    rig.tick(10.0);
    assert_ne!(rig.schemata("LS"), "gone");
    assert_eq!(rig.schemata("BE"), "gone");
}

#[test]
fn a_restore_removes_what_we_made_and_nothing_comes_back() {
    let mut rig = Rig::mounted();
    rig.kernel.put_group("koordlet-strange");
    rig.apply(Wish::default().l3("u", 0xf).mb("v", 20));
    let restore = |rig: &mut Rig| {
        let mut report = RestoreReport::default();
        rig.with(|keeper, books| keeper.restore(books, &mut report));
        report
    };
    let report = restore(&mut rig);
    assert_eq!(report.restored, ["/sys/fs/resctrl/koordlet-u", "/sys/fs/resctrl/koordlet-v"]);
    rig.tick(60.0);
    assert_eq!((rig.schemata("koordlet-u").as_str(), rig.books.ledger.len()), ("gone", 0));
    assert_ne!(rig.schemata("koordlet-strange"), "gone");
    assert_eq!(rig.state("L3:0=f;1=f"), TargetState::Left);
}

#[test]
fn a_restore_without_a_plan_goes_by_the_ledger() {
    let mut rig = Rig::mounted();
    rig.apply(Wish::default().l3("u", 0xf).l3("v", 0xf));
    rig.kernel.remove(&ResctrlGroup::of_pod("v").unwrap()).unwrap();
    let layout = Layout::of_folder(&rig.folder.path().join("cgroup")).unwrap();
    rig.keeper = Resctrl::new(Threads::new(Arc::new(layout), "/".into()), Box::new(rig.kernel.clone()));
    rig.kernel.machine().faults.insert("remove", Errno::EBUSY);
    let mut report = RestoreReport::default();
    rig.with(|keeper, books| keeper.restore(books, &mut report));
    assert_eq!((report.failed.len(), report.gone.len()), (1, 1), "{report:?}");
    let mut report = RestoreReport::default();
    rig.with(|keeper, books| keeper.restore(books, &mut report));
    assert_eq!(report.restored, ["/sys/fs/resctrl/koordlet-u"]);
    assert_eq!(rig.books.ledger.len(), 0);
}
