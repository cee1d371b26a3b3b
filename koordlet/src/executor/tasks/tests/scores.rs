//! OOM scores: held, inherited, given back.

use super::*;

#[test]
fn every_process_holds_the_score_and_gets_its_own_back() {
    let mut rig = Rig::new();
    for pid in [1, 2] {
        rig.tasks.start("p/a", pid);
    }
    rig.tasks.change(2, |process| process.score = 300);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(-500))]);
    assert_eq!([1, 2].map(|pid| rig.tasks.score_of(pid)), [-500, -500]);
    assert_eq!(rig.books.stats.tasks.figures()[&dir("p/a")].score, Some(-500));
    // Children inherit, before and after a look.
    rig.tasks.fork(2, 3);
    rig.pass(40);
    rig.tasks.fork(3, 4);
    rig.tasks.fork(1, 5);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(700))]);
    assert_eq!([1, 2, 3, 4, 5].map(|pid| rig.tasks.score_of(pid)), [700; 5]);
    rig.apply(&[]);
    assert_eq!([1, 2, 3, 4, 5].map(|pid| rig.tasks.score_of(pid)), [0, 300, 300, 300, 0]);
    assert!(rig.books.stats.tasks.figures().is_empty() && rig.keeper.next_deadline().is_none());
}

#[test]
fn a_process_from_outside_is_found_and_a_foreign_value_is_told() {
    let mut rig = Rig::new();
    rig.tasks.start("p/a", 1);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(100))]);
    rig.tasks.start("p/a", 2);
    rig.tasks.change(2, |process| process.score = 999);
    rig.pass(40);
    assert_eq!(rig.tasks.score_of(2), 100);
    assert!(rig.books.notices.is_empty(), "it is new, nobody wrote over ours");
    for _ in 0..3 {
        rig.tasks.change(1, |process| process.score = 5);
        rig.pass(30);
        assert_eq!(rig.tasks.score_of(1), 100);
    }
    assert_eq!(rig.books.notices.len(), 2, "once a minute at most");
    assert!(rig.books.notices.iter().all(|notice| notice.kind == NoticeKind::ForeignWrite));
    rig.apply(&[]);
    assert_eq!([1, 2].map(|pid| rig.tasks.score_of(pid)), [0, 999]);
}

#[test]
fn what_others_changed_since_the_last_look_stays_theirs_when_the_claim_goes() {
    let mut rig = Rig::new();
    rig.tasks.start("p/a", 1);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(100))]);
    rig.tasks.change(1, |process| process.score = 42);
    rig.apply(&[]);
    assert_eq!(rig.tasks.score_of(1), 42);
}

#[test]
fn after_a_restart_the_former_value_is_not_known_and_ours_stays() {
    let mut rig = Rig::new();
    rig.tasks.start("p/a", 1);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(100))]);
    rig.restart();
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(100))]);
    rig.tasks.start("p/a", 2);
    rig.pass(40);
    rig.apply(&[]);
    assert_eq!([1, 2].map(|pid| rig.tasks.score_of(pid)), [100, 0], "the second one's was seen");
}

#[test]
fn the_number_of_a_dead_process_does_not_bring_its_value_to_another() {
    let mut rig = Rig::new();
    rig.tasks.start("p/a", 1);
    rig.tasks.change(1, |process| process.score = 300);
    rig.tasks.start("p/a", 2);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(100))]);
    rig.tasks.end(1);
    rig.tasks.start("p/a", 1);
    rig.tasks.change(1, |process| process.score = 7);
    rig.pass(40);
    assert_eq!(rig.tasks.score_of(1), 100);
    rig.apply(&[]);
    assert_eq!(rig.tasks.score_of(1), 7);
}

/// Without CAP_SYS_RESOURCE a value below what the process may have is refused: others are set all the same.
#[test]
fn a_refused_score_is_told_once_and_the_rest_holds() {
    let mut rig = Rig::new();
    rig.tasks.state().floor = 0;
    for pid in [1, 2] {
        rig.tasks.start("p/a", pid);
    }
    rig.tasks.change(2, |process| process.score = -100);
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(-100))]);
    rig.pass(200);
    let (state, value, detail) = rig.report("p/a/oom_score_adj");
    assert_eq!((state, value.as_deref()), (TargetState::Refused, Some("-100")));
    assert!(detail.unwrap().contains("EACCES"));
    assert_eq!(rig.books.notices.len(), 1);
    assert_eq!(rig.books.stats.tasks.figures()[&dir("p/a")].score, Some(-100), "one process holds it");
    rig.apply(&[("p/a", TaskValue::OomScoreAdj(10))]);
    assert_eq!([1, 2].map(|pid| rig.tasks.score_of(pid)), [10, 10]);
}

#[test]
fn processes_that_end_between_two_calls_are_nothing_to_tell() {
    let mut rig = Rig::new();
    let ghost = Pid::from_raw(9);
    let look = rig.keeper.scores.hold(&rig.tasks, &dir("p/a"), 5, &[ghost]);
    assert!(look.error.is_none() && look.holders == 0);
    let look = rig.keeper.cookies.hold(&rig.tasks, &dir("p/a"), &"g".into(), &[ghost], rig.now);
    assert!(look.error.is_none() && look.holders == 0 && rig.keeper.cookies.groups().is_empty());
}
