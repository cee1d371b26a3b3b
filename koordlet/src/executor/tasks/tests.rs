//! The keeper on a kernel with core scheduling that keeps what it is told.

use super::fake::FakeTasks;
use super::*;
use crate::claims::claim::Owner;
use crate::executor::keeper_testing::{TestBooks, held};
use crate::executor::report::TargetState;

mod cookies;
mod scores;

struct Rig {
    tasks: FakeTasks,
    keeper: Tasks,
    books: TestBooks,
    now: Nanos,
}

fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).unwrap()
}

fn cookie_of(group: &str) -> TaskValue {
    TaskValue::CookieOf(group.into())
}

/// A plan that holds these directories' tasks at these values.
fn plan(wishes: &[(&str, TaskValue)]) -> Plan {
    let synced = [Owner::CoreSched, Owner::OomScoreAdj].into();
    let mut plan = Plan { synced, ..Plan::default() };
    for (path, value) in wishes {
        let (attribute, owner) = match value {
            TaskValue::OomScoreAdj(_) => (TaskAttribute::OomScoreAdj, Owner::OomScoreAdj),
            TaskValue::CookieOf(_) | TaskValue::NoCookie => {
                (TaskAttribute::CoreSchedCookie, Owner::CoreSched)
            }
        };
        let target = TaskTarget { dir: dir(path), attribute };
        plan.tasks.insert(target.clone(), held(target, value.clone(), owner));
    }
    plan
}

impl Rig {
    fn new() -> Self {
        let tasks = FakeTasks::new();
        let keeper = Self::keeper(&tasks);
        Self { tasks, keeper, books: TestBooks::new(), now: Nanos(1_000_000_000) }
    }

    fn keeper(tasks: &FakeTasks) -> Tasks {
        Tasks::new(Box::new(tasks.clone()), "/cgroup/cpu".into())
    }

    /// Another agent on the same kernel.
    fn restart(&mut self) {
        self.keeper = Self::keeper(&self.tasks);
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut Tasks, &mut Books<'_>) -> T) -> T {
        f(&mut self.keeper, &mut self.books.at(self.now))
    }

    fn apply(&mut self, wishes: &[(&str, TaskValue)]) {
        let plan = Arc::new(plan(wishes));
        self.with(|keeper, books| keeper.apply(&plan, books));
    }

    /// Lets time pass, with a turn whenever one is due.
    fn pass(&mut self, seconds: u64) {
        let end = self.now + Nanos(seconds * 1_000_000_000);
        while let Some(due) = self.keeper.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.with(Keeper::tick);
        }
        self.now = end;
    }

    fn event(&mut self, event: &CgroupEvent) {
        self.with(|keeper, books| keeper.cgroup_event(event, books));
    }

    fn born(&mut self, path: &str) {
        let event = CgroupEvent::Born { controllers: vec![Controller::Cpu], id: 1, dir: dir(path) };
        self.event(&event);
    }

    fn report(&self, path: &str) -> (TargetState, Option<String>, Option<String>) {
        let reports = self.keeper.explain(&self.books.ledger);
        let found = reports.into_iter().find(|report| report.path == format!("/cgroup/cpu/{path}")).unwrap();
        (found.state, found.value, found.detail)
    }

    fn calls(&self) -> u64 {
        self.tasks.state().calls
    }
}

#[test]
fn without_claims_nothing_is_looked_at() {
    let mut rig = Rig::new();
    for pid in 0..100 {
        rig.tasks.start(&format!("pod/c{pid}"), pid + 1);
    }
    rig.apply(&[]);
    rig.born("pod/c1");
    rig.event(&CgroupEvent::Lost { count: 5 });
    rig.pass(3600);
    assert_eq!((rig.calls(), rig.keeper.next_deadline()), (0, None));
}

#[test]
fn an_unchanged_plan_looks_at_nothing() {
    let mut rig = Rig::new();
    rig.tasks.start("pod/a", 7);
    let wishes = [("pod/a", cookie_of("g")), ("pod/a", TaskValue::OomScoreAdj(5))];
    rig.apply(&wishes);
    let calls = rig.calls();
    rig.apply(&wishes);
    assert_eq!(rig.calls(), calls);
}

#[test]
fn a_directory_is_looked_at_twice_a_minute() {
    let mut rig = Rig::new();
    rig.tasks.start("pod/a", 7);
    rig.apply(&[("pod/a", TaskValue::OomScoreAdj(5))]);
    rig.pass(10);
    let calls = rig.calls();
    rig.pass(60);
    assert_eq!(rig.calls() - calls, 4, "its processes and the value of one, each time");
}

#[test]
fn what_is_born_is_looked_at_until_its_processes_are_there() {
    let mut rig = Rig::new();
    rig.apply(&[("pod/a", TaskValue::OomScoreAdj(5))]);
    assert_eq!(rig.report("pod/a/oom_score_adj").0, TargetState::Pending);
    rig.tasks.state().dirs.insert("pod/a".into());
    rig.born("pod/a");
    rig.now = rig.now + Nanos(30_000_000);
    rig.with(Keeper::tick);
    assert_eq!(
        rig.report("pod/a/oom_score_adj"),
        (TargetState::Pending, Some("5".into()), Some("0 tasks".into()))
    );
    rig.tasks.start("pod/a", 7);
    rig.pass(1);
    assert_eq!(rig.tasks.score_of(7), 5);
    assert_eq!(
        rig.report("pod/a/oom_score_adj"),
        (TargetState::Held, Some("5".into()), Some("1 task".into()))
    );
}

#[test]
fn a_directory_that_goes_is_forgotten_without_a_word() {
    let mut rig = Rig::new();
    rig.tasks.start("pod/a", 7);
    rig.apply(&[("pod/a", cookie_of("g")), ("pod/a", TaskValue::OomScoreAdj(5))]);
    assert_eq!(rig.books.stats.tasks.figures().len(), 1);
    rig.tasks.end(7);
    rig.tasks.state().dirs.clear();
    rig.event(&CgroupEvent::Died { controllers: vec![Controller::Cpu], id: 1, dir: dir("pod/a") });
    rig.pass(1);
    assert_eq!(rig.report("pod/a/oom_score_adj").0, TargetState::Pending);
    assert!(rig.books.stats.tasks.figures().is_empty());
    rig.apply(&[]);
    assert!(rig.books.notices.is_empty());
}

#[test]
fn a_dry_run_changes_nothing_and_counts_the_tasks() {
    let mut rig = Rig::new();
    rig.books.dry_run = true;
    rig.tasks.start("pod/a", 7);
    rig.tasks.fork(7, 8);
    rig.apply(&[("pod/a", cookie_of("g")), ("pod/a", TaskValue::OomScoreAdj(5))]);
    rig.pass(100);
    assert_eq!((rig.tasks.cookie_of(7), rig.tasks.score_of(7)), (0, 0));
    let (state, value, detail) = rig.report("pod/a/core_sched_cookie");
    assert_eq!(state, TargetState::DryRun);
    assert_eq!(value.as_deref(), Some("cookie of group \"g\""));
    assert_eq!(detail.as_deref(), Some("group \"g\", 2 tasks"));
    rig.apply(&[]);
    assert_eq!(rig.books.stats.figures().iter().find(|(name, _)| *name == "written"), Some(&("written", 0)));
}

#[test]
fn a_turn_has_a_bound() {
    let mut rig = Rig::new();
    let paths: Vec<String> = (1..=200).map(|pid| format!("pod/c{pid}")).collect();
    for (pid, path) in (1..).zip(&paths) {
        rig.tasks.start(path, pid);
    }
    let wishes: Vec<_> = paths.iter().map(|path| (path.as_str(), TaskValue::OomScoreAdj(5))).collect();
    rig.apply(&wishes);
    rig.now = rig.now + Nanos(100_000_000_000);
    let calls = rig.calls();
    rig.with(Keeper::tick);
    assert_eq!(rig.calls() - calls, 2 * TURN as u64);
    assert!(rig.keeper.next_deadline().unwrap() <= rig.now, "the others are due at once");
}
