//! Lines: compared by meaning, put right, rounded, refused.

use super::*;

#[test]
fn h23_a_changed_wish_writes_the_line_that_differs() {
    let mut rig = Rig::mounted();
    rig.apply(Wish::default().l3("u", 0xf).mb("u", 20));
    rig.kernel.take_calls();
    rig.apply(Wish::default().l3("u", 0xf).mb("u", 50));
    assert_eq!(rig.kernel.take_calls(), ["line koordlet-u MB:0=50;1=50;"]);
    // No longer claimed: as in the root group.
    rig.apply(Wish::default().l3("u", 0xf));
    assert_eq!(rig.kernel.take_calls(), ["line koordlet-u MB:0=100;1=100;"]);
    assert_eq!(rig.schemata("koordlet-u"), "L3:0=00f;1=00f MB:0= 100;1= 100");
}

#[test]
fn h23_a_group_from_before_a_restart_is_made_what_it_should_be() {
    let mut rig = Rig::mounted();
    rig.kernel.put_group("koordlet-u");
    rig.apply(Wish::default().l3("u", 0xf));
    assert_eq!(rig.schemata("koordlet-u"), "L3:0=00f;1=00f MB:0= 100;1= 100");
    assert_eq!(rig.kernel.take_calls(), ["line koordlet-u L3:0=f;1=f;"]);
    assert_eq!(rig.books.ledger.len(), 1, "it is ours from now on");
}

#[test]
fn h23_what_others_write_is_put_right_and_a_removed_group_made_again() {
    let mut rig = Rig::mounted();
    rig.threads("kubepods/podu/c", &[1]);
    rig.apply(Wish::default().l3("u", 0xf).tasks(POD, "u"));
    rig.kernel.put_lines("koordlet-u", 0x7ff, 100);
    rig.books.notices.clear();
    rig.tick(9.0);
    assert_eq!(rig.schemata("koordlet-u"), "L3:0=7ff;1=7ff MB:0= 100;1= 100");
    rig.tick(1.0);
    assert_eq!(rig.schemata("koordlet-u"), "L3:0=00f;1=00f MB:0= 100;1= 100");
    assert_eq!(
        rig.books.notices.iter().map(|notice| notice.kind).collect::<Vec<_>>(),
        [NoticeKind::ForeignWrite]
    );
    rig.kernel.remove(&ResctrlGroup::of_pod("u").unwrap()).unwrap();
    rig.tick(10.0);
    assert_eq!(rig.schemata("koordlet-u"), "L3:0=00f;1=00f MB:0= 100;1= 100");
    assert_eq!(rig.kernel.threads_of("koordlet-u"), [1]);
}

#[test]
fn a_refused_line_tells_what_the_kernel_says_and_does_not_stop_the_other() {
    for (mask, status) in [
        (0x1, "Need at least 2 bits in the mask"),
        (0x5, "The mask 5 has non-consecutive 1-bits"),
        (0xfff, "Mask out of range"),
        (0, "Mask out of range"),
    ] {
        let mut rig = Rig::mounted();
        rig.apply(Wish::default().l3("u", mask).mb("u", 20));
        let refused: Vec<_> =
            rig.books.notices.iter().filter(|notice| notice.kind == NoticeKind::Refused).collect();
        assert_eq!(refused.len(), 1);
        assert!(refused[0].text.contains(status), "{}", refused[0].text);
        assert_eq!(rig.schemata("koordlet-u"), "L3:0=7ff;1=7ff MB:0= 20;1= 20");
        let report = &rig.keeper.explain(&rig.books.ledger)[1];
        assert_eq!(
            (report.state, report.path.as_str()),
            (TargetState::Refused, "/sys/fs/resctrl/koordlet-u/schemata")
        );
        assert!(report.detail.as_ref().unwrap().contains(status));
        // Back-off, and not told again.
        let told = rig.books.notices.len();
        rig.kernel.take_calls();
        rig.tick(1.0);
        rig.tick(0.5);
        assert_eq!((rig.kernel.take_calls().len(), rig.books.notices.len()), (1, told));
        // Another wish is another question.
        rig.apply(Wish::default().l3("u", 0x3).mb("u", 20));
        assert_eq!(rig.state("L3:0=3;1=3"), TargetState::Held);
    }
}

#[test]
fn unknown_caches_and_bandwidths_out_of_range_are_refused() {
    let mut rig = Rig::mounted();
    let strange = SchemataLine::of_all(SchemataResource::L3, 0xf, [0, 5]).unwrap();
    let mut wish = Wish::default().mb("u", 130);
    wish.lines.push(("u", strange));
    rig.apply(wish);
    assert_eq!(rig.state("L3:0=f;5=f"), TargetState::Refused);
    assert_eq!(rig.state("MB:0=130;1=130"), TargetState::Refused);
    let said = |text: &str| rig.books.notices.iter().any(|notice| notice.text.contains(text));
    assert!(said("Unknown domain") && said("MB value 130 out of range [10,100]"), "{:?}", rig.books.notices);
}

#[test]
fn bandwidth_that_the_kernel_rounds_is_held_and_not_written_again() {
    let mut rig = Rig::mounted();
    rig.apply(Wish::default().mb("u", 33));
    assert_eq!(rig.schemata("koordlet-u"), "L3:0=7ff;1=7ff MB:0= 40;1= 40");
    rig.kernel.take_calls();
    rig.tick(10.0);
    assert_eq!(rig.kernel.take_calls(), [""; 0]);
    let report = rig.keeper.explain(&rig.books.ledger).remove(1);
    assert_eq!(
        (report.state, report.detail.as_deref()),
        (TargetState::Held, Some("the kernel rounds it to MB:0=40;1=40"))
    );
}

#[test]
fn more_groups_than_the_cpu_has_are_refused_until_one_is_free() {
    let mut rig = Rig::mounted();
    let three = Wish::default().l3("a", 0xf).l3("b", 0xf).l3("c", 0xf);
    rig.apply(three.clone().l3("d", 0x3));
    assert_eq!(rig.state("L3:0=3;1=3"), TargetState::Refused);
    let refused: Vec<_> =
        rig.books.notices.iter().filter(|notice| notice.kind == NoticeKind::Refused).collect();
    assert!(refused.len() == 1 && refused[0].text.contains("Out of CLOSIDs"), "{refused:?}");
    rig.kernel.remove(&ResctrlGroup::of_pod("c").unwrap()).unwrap();
    rig.apply(Wish::default().l3("a", 0xf).l3("b", 0xf).l3("d", 0x3));
    rig.tick(60.0);
    assert_eq!(rig.state("L3:0=3;1=3"), TargetState::Held);
}

#[test]
fn without_a_ledger_no_group_is_made() {
    let mut rig = Rig::mounted();
    rig.books.ledger = Ledger::unwritable().unwrap();
    rig.apply(Wish::default().l3("u", 0xf));
    assert_eq!((rig.state("L3:0=f;1=f"), rig.kernel.take_calls()), (TargetState::Refused, vec![]));
    rig.books.ledger = Ledger::in_memory();
    rig.tick(1.0);
    assert_eq!(rig.state("L3:0=f;1=f"), TargetState::Held);
}
