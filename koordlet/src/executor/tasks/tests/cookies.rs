//! Cookies: shared by group, put right, taken over and cleared.

use nix::errno::Errno;

use super::*;

fn shared_by(rig: &Rig, pids: &[i32]) -> Option<u64> {
    let first = rig.tasks.cookie_of(pids[0]);
    pids.iter().all(|pid| rig.tasks.cookie_of(*pid) == first).then_some(first)
}

#[test]
fn containers_of_a_group_share_a_cookie_and_groups_do_not() {
    let mut rig = Rig::new();
    for (path, pid) in [("p1/a", 1), ("p1/a", 2), ("p1/sandbox", 3), ("p2/b", 4), ("p3/c", 5)] {
        rig.tasks.start(path, pid);
    }
    rig.apply(&[
        ("p1/a", cookie_of("g")),
        ("p1/sandbox", cookie_of("g")),
        ("p2/b", cookie_of("g")),
        ("p3/c", cookie_of("h-expeller")),
    ]);
    assert_eq!(shared_by(&rig, &[1, 2, 3, 4]), Some(101));
    assert_eq!(rig.tasks.cookie_of(5), 102);
    assert_eq!(
        rig.report("p1/a/core_sched_cookie"),
        (TargetState::Held, Some("101".into()), Some("group \"g\", 2 tasks".into()))
    );
    let figures = rig.books.stats.tasks.figures();
    assert_eq!(figures[&dir("p3/c")].cookie, Some(("h-expeller".into(), 102)));
    let counts = rig.books.stats.tasks.cookie_counts(rig.now);
    assert_eq!(counts.iter().map(|each| each.count).collect::<Vec<_>>(), [3, 1]);
    assert!(counts.iter().all(|each| each.succeeded));
}

/// hooks.md 17 row 31: also of processes that are known, and of one that got the number of a dead one.
#[test]
fn h31_known_processes_with_another_cookie_are_put_right() {
    let mut rig = Rig::new();
    for pid in [1, 2] {
        rig.tasks.start("p/a", pid);
    }
    rig.apply(&[("p/a", cookie_of("g"))]);
    rig.tasks.change(1, |process| process.cookie = 55);
    rig.tasks.end(2);
    rig.tasks.start("p/a", 2);
    rig.pass(31);
    let cookie = shared_by(&rig, &[1, 2]);
    assert!(cookie.is_some_and(|cookie| cookie != 0 && cookie != 55), "{cookie:?}");
}

/// hooks.md 17 row 28.
#[test]
fn h28_cookies_of_an_agent_before_are_taken_over_as_soon_as_they_can_be_read() {
    let mut rig = Rig::new();
    for (path, pid) in [("p1/a", 1), ("p2/b", 2)] {
        rig.tasks.start(path, pid);
    }
    let wishes = [("p1/a", cookie_of("g")), ("p2/b", cookie_of("g"))];
    rig.apply(&wishes);
    rig.tasks.start("p1/a", 3);
    rig.restart();
    rig.apply(&wishes);
    assert_eq!(shared_by(&rig, &[1, 2, 3]), Some(101), "the group keeps its cookie");
    // Nothing can be read at first.
    rig.restart();
    rig.tasks.state().unreadable = 6;
    rig.apply(&wishes);
    rig.pass(100);
    assert_eq!(shared_by(&rig, &[1, 2, 3]), Some(101));
    // An agent that comes up with the policy off clears what it finds.
    rig.restart();
    rig.apply(&[("p1/a", TaskValue::NoCookie), ("p2/b", TaskValue::NoCookie)]);
    assert_eq!(shared_by(&rig, &[1, 2, 3]), Some(0));
    assert_eq!(rig.keeper.next_deadline(), None, "where no cookie is wished nothing more is looked at");
}

#[test]
fn two_cookies_of_one_group_become_one() {
    let mut rig = Rig::new();
    for (path, pid, cookie) in [("p1/a", 1, 7), ("p2/b", 2, 8)] {
        rig.tasks.start(path, pid);
        rig.tasks.change(pid, |process| process.cookie = cookie);
    }
    rig.apply(&[("p1/a", cookie_of("g")), ("p2/b", cookie_of("g"))]);
    assert_eq!(shared_by(&rig, &[1, 2]), Some(7));
}

#[test]
fn a_container_that_changes_its_group_changes_its_cookie() {
    let mut rig = Rig::new();
    for (path, pid) in [("p1/a", 1), ("p2/b", 2)] {
        rig.tasks.start(path, pid);
    }
    rig.apply(&[("p1/a", cookie_of("g")), ("p2/b", cookie_of("g"))]);
    rig.apply(&[("p1/a", cookie_of("h")), ("p2/b", cookie_of("g"))]);
    assert_eq!((rig.tasks.cookie_of(1), rig.tasks.cookie_of(2)), (102, 101));
    rig.apply(&[("p1/a", cookie_of("g")), ("p2/b", cookie_of("g"))]);
    assert_eq!(shared_by(&rig, &[1, 2]), Some(101), "found although the first of the group is stale");
}

#[test]
fn cookies_are_cleared_when_nobody_wishes_them() {
    let mut rig = Rig::new();
    for (path, pid) in [("p1/a", 1), ("p2/b", 2), ("p3/c", 3)] {
        rig.tasks.start(path, pid);
    }
    rig.tasks.change(3, |process| process.cookie = 9);
    rig.apply(&[("p1/a", cookie_of("g")), ("p2/b", cookie_of("g"))]);
    rig.tasks.fork(1, 4);
    rig.apply(&[("p1/a", TaskValue::NoCookie)]);
    let cookies = [1, 2, 3, 4].map(|pid| rig.tasks.cookie_of(pid));
    assert_eq!(cookies, [0, 0, 9, 0], "of what was claimed alone");
    assert!(rig.books.stats.tasks.figures().is_empty() && rig.keeper.cookies.groups().is_empty());
}

#[test]
fn a_restore_clears_all_cookies_and_ends_all_looks() {
    let mut rig = Rig::new();
    rig.tasks.start("p/a", 1);
    rig.apply(&[("p/a", cookie_of("g"))]);
    let mut report = RestoreReport::default();
    rig.with(|keeper, books| keeper.restore(books, &mut report));
    assert_eq!(report.restored, ["/cgroup/cpu/p/a/core_sched_cookie"]);
    rig.apply(&[("p/a", cookie_of("h"))]);
    rig.pass(100);
    assert_eq!((rig.tasks.cookie_of(1), rig.keeper.next_deadline()), (0, None));
    assert_eq!(rig.report("p/a/core_sched_cookie").0, TargetState::Left);
}

#[test]
fn a_refusal_is_told_once_and_tried_again() {
    let mut rig = Rig::new();
    rig.tasks.start("p/a", 1);
    rig.tasks.state().refuse = Some(Errno::EPERM);
    rig.apply(&[("p/a", cookie_of("g"))]);
    rig.pass(20);
    let (state, _, detail) = rig.report("p/a/core_sched_cookie");
    assert!(state == TargetState::Refused && detail.unwrap().contains("EPERM"));
    assert_eq!(rig.books.notices.len(), 1);
    assert!(rig.books.stats.tasks.cookie_counts(rig.now).iter().all(|each| !each.succeeded));
    rig.tasks.state().refuse = None;
    rig.pass(60);
    assert_eq!(rig.tasks.cookie_of(1), 101);
    assert_eq!(rig.books.stats.tasks.cookie_counts(rig.now).len(), 2);
    rig.pass(400);
    assert!(rig.books.stats.tasks.cookie_counts(rig.now).is_empty(), "old counts end");
}

#[test]
fn a_group_outlives_its_first_process_and_is_swept_when_all_is_gone() {
    let mut rig = Rig::new();
    for (path, pid) in [("p1/a", 1), ("p2/b", 2)] {
        rig.tasks.start(path, pid);
    }
    let wishes = [("p1/a", cookie_of("g")), ("p2/b", cookie_of("g"))];
    rig.apply(&wishes);
    rig.tasks.end(1);
    rig.tasks.start("p1/a", 5);
    rig.pass(1000);
    assert_eq!(shared_by(&rig, &[2, 5]), Some(101), "groups that are looked at do not expire");
    rig.tasks.state().dirs.clear();
    rig.tasks.state().processes.clear();
    rig.pass(2000);
    assert!(rig.keeper.cookies.groups().is_empty() && rig.keeper.cookies.containers().is_empty());
}

/// Sources deliver one after another when an agent starts.
#[test]
fn cookies_are_taken_over_until_all_pods_are_known() {
    let mut rig = Rig::new();
    for (path, pid) in [("p1/a", 1), ("p2/b", 2), ("p3/c", 3)] {
        rig.tasks.start(path, pid);
        rig.tasks.change(pid, |process| process.cookie = 7);
    }
    let mut first = plan(&[("p1/a", cookie_of("g"))]);
    first.synced.clear();
    let first = Arc::new(first);
    rig.with(|keeper, books| keeper.apply(&first, books));
    rig.apply(&[("p1/a", cookie_of("g")), ("p2/b", TaskValue::NoCookie)]);
    assert_eq!([1, 2].map(|pid| rig.tasks.cookie_of(pid)), [7, 0]);
    // From then on a cookie that a container comes with is not one of ours.
    rig.apply(&[("p1/a", cookie_of("g")), ("p2/b", TaskValue::NoCookie), ("p3/c", TaskValue::NoCookie)]);
    assert_eq!(rig.tasks.cookie_of(3), 7);
}
