//! The keeper on a folder that behaves like the kernel, and cgroups of both versions.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::folder_kernel::{FolderKernel, lines_of};
use super::*;
use crate::cgroup::layout::Layout;
use crate::claims::claim::Owner;
use crate::claims::resctrl::{ResctrlTarget, ResctrlValue};
use crate::executor::keeper_testing::{TestBooks, held};
use crate::executor::report::TargetState;
use crate::resctrl::schemata::{SchemataLine, SchemataResource};

mod giving_back;
mod lines;

const OWNER: Owner = Owner::PodResctrl;
const POD: &str = "kubepods/podu";

struct Rig {
    folder: tempfile::TempDir,
    kernel: FolderKernel,
    keeper: Resctrl,
    books: TestBooks,
    time: Duration,
    tasks_file: &'static str,
}

/// What a test wishes for pods.
#[derive(Clone, Default)]
struct Wish {
    lines: Vec<(&'static str, SchemataLine)>,
    members: Vec<(&'static str, &'static str)>,
    unsynced: bool,
}

impl Wish {
    fn line(mut self, uid: &'static str, resource: SchemataResource, value: u64) -> Self {
        self.lines.push((uid, SchemataLine::of_all(resource, value, [0, 1]).unwrap()));
        self
    }

    fn l3(self, uid: &'static str, mask: u64) -> Self {
        self.line(uid, SchemataResource::L3, mask)
    }

    fn mb(self, uid: &'static str, percent: u64) -> Self {
        self.line(uid, SchemataResource::Mb, percent)
    }

    fn tasks(mut self, dir: &'static str, uid: &'static str) -> Self {
        self.members.push((dir, uid));
        self
    }

    fn plan(self) -> Arc<Plan> {
        let mut plan = Plan::default();
        if !self.unsynced {
            plan.synced.insert(OWNER);
        }
        let group = |uid| ResctrlGroup::known(uid).unwrap_or_else(|| ResctrlGroup::of_pod(uid).unwrap());
        let lines = self
            .lines
            .into_iter()
            .map(|(uid, line)| (ResctrlTarget::Line(group(uid), line.resource), ResctrlValue::Line(line)));
        let members = self.members.into_iter().map(|(dir, uid)| {
            (ResctrlTarget::Tasks(CgroupDir::new(dir).unwrap()), ResctrlValue::Group(group(uid)))
        });
        let mount = [(ResctrlTarget::Mount, ResctrlValue::Mounted)];
        for (target, value) in lines.chain(members).chain(mount) {
            plan.resctrl.insert(target.clone(), held(target, value, OWNER));
        }
        Arc::new(plan)
    }
}

#[expect(clippy::disallowed_methods, reason = "a fixture file in a temporary directory")]
fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Rig {
    fn new(unified: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cgroup = folder.path().join("cgroup");
        let tasks_file = if unified {
            put(&cgroup.join("cgroup.controllers"), "cpu\n");
            "cgroup.threads"
        } else {
            fs::create_dir_all(cgroup.join("cpu")).unwrap();
            "tasks"
        };
        let layout = Arc::new(Layout::of_folder(&cgroup).unwrap());
        let kernel = FolderKernel::new(folder.path());
        let keeper = Resctrl::new(Threads::new(layout, "/sys/fs/cgroup".into()), Box::new(kernel.clone()));
        Self { folder, kernel, keeper, books: TestBooks::new(), time: Duration::ZERO, tasks_file }
    }

    /// With the file system mounted, and nothing said of that.
    fn mounted() -> Self {
        let rig = Self::new(false);
        rig.kernel.mount().unwrap();
        rig.kernel.take_calls();
        rig
    }

    /// A directory with these threads, all alive.
    fn threads(&self, dir: &str, threads: &[u32]) {
        let hierarchy = if self.tasks_file == "tasks" { "cgroup/cpu" } else { "cgroup" };
        let text = lines_of(threads);
        put(&self.folder.path().join(hierarchy).join(dir).join(self.tasks_file), &text);
        self.kernel.machine().alive.extend(threads);
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut Resctrl, &mut Books<'_>) -> T) -> T {
        f(&mut self.keeper, &mut self.books.at(Nanos(u64::try_from(self.time.as_nanos()).unwrap())))
    }

    fn apply(&mut self, wish: Wish) {
        let plan = wish.plan();
        self.with(|keeper, books| keeper.apply(&plan, books));
    }

    fn tick(&mut self, seconds: f64) {
        self.time += Duration::from_secs_f64(seconds);
        self.with(Keeper::tick);
    }

    fn born(&mut self, dir: &str) {
        let (controllers, dir) = (vec![Controller::Cpu], CgroupDir::new(dir).unwrap());
        let event = CgroupEvent::Born { controllers, id: 1, dir };
        self.with(|keeper, books| keeper.cgroup_event(&event, books));
    }

    fn schemata(&self, group: &str) -> String {
        let text = fs::read_to_string(self.folder.path().join("resctrl").join(group).join("schemata"));
        text.unwrap_or_else(|_| "gone".to_owned()).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn states(&self) -> Vec<(String, TargetState)> {
        let reports = self.keeper.explain(&self.books.ledger);
        reports.into_iter().map(|report| (report.value.unwrap_or_default(), report.state)).collect()
    }

    fn state(&self, value: &str) -> TargetState {
        let states = self.states();
        states.iter().find(|(text, _)| text == value).unwrap_or_else(|| panic!("{value}: {states:?}")).1
    }
}

#[test]
fn a_pods_group_is_made_its_lines_written_and_its_tasks_moved() {
    for unified in [false, true] {
        let mut rig = Rig::new(unified);
        rig.threads("kubepods/podu", &[]);
        rig.threads("kubepods/podu/sandbox", &[7]);
        rig.threads("kubepods/podu/c", &[11, 12]);
        rig.threads("kubepods/podu/c/nested", &[13]);
        rig.threads("kubepods/podux", &[99]);
        rig.apply(Wish::default().l3("u", 0xf).mb("u", 20).tasks(POD, "u"));
        assert_eq!(rig.schemata("koordlet-u"), "L3:0=00f;1=00f MB:0= 20;1= 20");
        assert_eq!(rig.kernel.threads_of("koordlet-u"), [7, 11, 12, 13], "c092: also of nested groups");
        let calls = rig.kernel.take_calls();
        let want = [
            "mount ",
            "make koordlet-u",
            "line koordlet-u L3:0=f;1=f;",
            "line koordlet-u MB:0=20;1=20;",
            "move 7",
            "move 11",
            "move 12",
            "move 13",
        ];
        assert_eq!(calls, want, "one line a write, one thread a write");
        let made: Vec<_> =
            rig.books.notices.iter().map(|notice| (notice.kind, notice.target.as_str())).collect();
        assert_eq!(made, [(NoticeKind::GroupMade, "/sys/fs/resctrl/koordlet-u")]);
        for value in ["mounted", "L3:0=f;1=f", "MB:0=20;1=20", "koordlet-u"] {
            assert_eq!(rig.state(value), TargetState::Held, "{value}");
        }
        for _ in 0..5 {
            rig.tick(10.0);
        }
        assert_eq!(rig.kernel.take_calls(), [""; 0], "nothing is written twice");
    }
}

#[test]
fn tasks_that_come_later_are_moved_and_dead_ones_are_no_error() {
    let mut rig = Rig::mounted();
    rig.threads("kubepods/podu/c", &[1, 2]);
    rig.kernel.machine().alive.remove(&2);
    rig.apply(Wish::default().l3("u", 0xf).tasks(POD, "u"));
    assert_eq!(rig.kernel.threads_of("koordlet-u"), [1]);
    assert_eq!(rig.state("koordlet-u"), TargetState::Held);
    // A new container: the runtime moves its process in after the directory was made.
    rig.threads("kubepods/podu/c", &[1]);
    rig.threads("kubepods/podu/d", &[]);
    rig.born("kubepods/podu/d");
    rig.tick(0.01);
    rig.threads("kubepods/podu/d", &[5]);
    rig.tick(0.02);
    assert_eq!(rig.kernel.threads_of("koordlet-u"), [1, 5]);
    // An exec: nobody tells of it.
    rig.threads("kubepods/podu/c", &[1, 6, 0]);
    rig.tick(10.0);
    assert_eq!(rig.kernel.threads_of("koordlet-u"), [1, 5, 6], "and 0 would have been ourselves");
    rig.threads("kubepods/podu/d", &[5, 8]);
    rig.with(|keeper, books| keeper.cgroup_event(&CgroupEvent::Lost { count: 1 }, books));
    rig.tick(0.0);
    assert_eq!(rig.kernel.threads_of("koordlet-u"), [1, 5, 6, 8]);
}

#[test]
fn a_pods_own_group_is_left_out_of_its_class() {
    let mut rig = Rig::mounted();
    rig.threads("kubepods/besteffort/podu/c", &[1]);
    rig.threads("kubepods/besteffort/podv/c", &[2]);
    let wish = Wish::default().l3("BE", 0x3).l3("u", 0xf);
    rig.apply(wish.tasks("kubepods/besteffort", "BE").tasks("kubepods/besteffort/podu", "u"));
    assert_eq!((rig.kernel.threads_of("BE"), rig.kernel.threads_of("koordlet-u")), (vec![2], vec![1]));
}

#[test]
fn a_mount_that_fails_is_told_once_and_tried_again() {
    let mut rig = Rig::new(false);
    rig.kernel.machine().faults.insert("mount", Errno::ENODEV);
    rig.apply(Wish::default().l3("u", 0xf));
    assert_eq!((rig.state("mounted"), rig.books.notices.len()), (TargetState::Refused, 1));
    assert_eq!(rig.state("L3:0=f;1=f"), TargetState::Pending);
    rig.kernel.machine().faults.insert("mount", Errno::ENODEV);
    rig.tick(1.0);
    assert_eq!(rig.books.notices.len(), 1);
    rig.tick(2.0);
    rig.tick(0.0);
    assert_eq!(rig.state("L3:0=f;1=f"), TargetState::Held);
}

#[test]
fn a_dry_run_writes_nothing() {
    let mut rig = Rig::new(false);
    rig.books.dry_run = true;
    rig.apply(Wish::default().l3("u", 0xf).tasks(POD, "u"));
    assert_eq!(rig.kernel.take_calls(), [""; 0]);
    assert_eq!(rig.state("mounted"), TargetState::DryRun);
    rig.kernel.mount().unwrap();
    rig.kernel.put_group("koordlet-w");
    rig.kernel.take_calls();
    for _ in 0..3 {
        rig.tick(10.0);
    }
    assert_eq!((rig.kernel.take_calls(), rig.books.ledger.len()), (vec![], 0));
    for value in ["L3:0=f;1=f", "koordlet-u"] {
        assert_eq!(rig.state(value), TargetState::DryRun, "{value}");
    }
}

#[test]
fn what_nobody_claims_costs_nothing() {
    let mut rig = Rig::new(false);
    rig.kernel.put_group("koordlet-other");
    let mut plan = Plan::default();
    plan.synced.insert(OWNER);
    let plan = Arc::new(plan);
    rig.with(|keeper, books| keeper.apply(&plan, books));
    assert_eq!((rig.kernel.take_calls(), rig.keeper.next_deadline()), (vec![], None));
    rig.tick(60.0);
    assert_eq!(
        rig.schemata("koordlet-other"),
        "L3:0=7ff;1=7ff MB:0= 100;1= 100",
        "not ours: the plugin is off"
    );
}
