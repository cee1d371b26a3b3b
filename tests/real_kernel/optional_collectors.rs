//! The collectors that a gate switches on: each gives figures of this machine or says what is missing, and none
//! keeps the agent from starting.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::{
    Agent, Class, Controller, Driver, Manifests, NodeManifest, Tree, binary, guest_scale, need, offers,
};
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::host::roots::Roots;
use koordlet::node::pressure::PressureCollector;
use koordlet::node::rounds::Collect as _;
use koordlet::state::facts::Facts;
use koordlet::state::pods::PodTable;
use koordlet::state::series::key::{PsiDegree, PsiResource, SeriesKey};
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::units::Nanos;
use serde_json::Value;
use tokio::sync::watch;

const GATES: &str = "PSICollector=true,ColdPageCollector=true,BlkIOReconcile=true";

fn doctor(tree: &Tree, gates: &str) -> Result<Vec<Value>> {
    let output = Command::new(binary::koordlet()?)
        .args(["doctor", "-o", "json", "--ebpf=off"])
        .arg(format!("--kubelet-cgroup-root={}", tree.root()))
        .arg(format!("--cgroup-driver={}", tree.driver().flag()))
        .arg(format!("--feature-gates={gates}"))
        .env("agent_mode", "hostMode")
        .output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    ensure!(report["ok"] == true, "{report:#}");
    Ok(report["checks"].as_array().context("no checks")?.clone())
}

fn check<'a>(checks: &'a [Value], name: &str) -> Result<(&'a str, &'a str)> {
    let found = checks.iter().find(|check| check["name"] == name).with_context(|| format!("no {name}"))?;
    let text = |key: &str| found[key].as_str().with_context(|| format!("{name} has no {key}"));
    Ok((text("status")?, text("detail")?))
}

#[test]
fn doctor_says_of_each_collector_whether_it_is_on_and_why_not() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let off = doctor(&tree, "")?;
    for (name, gate) in [
        ("collector-psi", "--feature-gates=PSICollector=true switches it on"),
        ("collector-cold-memory", "--feature-gates=ColdPageCollector=true switches it on"),
        ("collector-disks", "--feature-gates=BlkIOReconcile=true switches it on"),
        ("collector-page-cache", "--enable-pagecache-collector switches it on"),
        ("collector-devices", "not supported by this agent"),
    ] {
        let (status, detail) = check(&off, name)?;
        ensure!(status == "off" && detail.contains(gate), "{name}: {status} {detail}");
    }
    let on = doctor(&tree, GATES)?;
    let (status, detail) = check(&on, "collector-psi")?;
    let expected = if tree.is_v2() { ("ok", "on") } else { ("missing", "no cpu.pressure in") };
    ensure!(status == expected.0 && detail.contains(expected.1), "{status} {detail}");
    kit::skip::note(format_args!("pressure here: {status}, {detail}"));
    let (status, detail) = check(&on, "collector-cold-memory")?;
    ensure!(status == "missing" && detail.contains("kidled"), "{status} {detail}");
    let (status, detail) = check(&on, "collector-disks")?;
    ensure!(status == "ok" && detail.contains("disks"), "{status} {detail}");
    Ok(())
}

#[test]
fn c071_the_agent_starts_whatever_the_kernel_lacks_and_says_so_once() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::new()?;
    let manifests = Manifests::new()?;
    manifests.write("node", &NodeManifest::this_host("node-1"))?;
    let agent = Agent::of(&tree, &manifests)?
        .flag("feature-gates", GATES)
        .flag("psi-collector-interval", "100ms")
        .flag("coldpage-collector-interval", "100ms");
    let running = agent.start()?;
    let off = |collector: &str| {
        let log = running.log();
        log.lines().filter(|line| line.contains("collector is off") && line.contains(collector)).count()
    };
    let both = || off("cold-memory") == 1 && off("psi") == usize::from(!tree.is_v2());
    ensure!(kit::until(kit::patience(), both), "{}", running.log());
    std::thread::sleep(Duration::from_millis(500));
    ensure!(both() && !running.log().contains("round failed"), "{}", running.log());
    Ok(())
}

/// A pod of two busy threads on one CPU, and its collector.
struct Contended {
    collector: PressureCollector,
    facts: Facts,
    series: SharedSeries,
    _pods: watch::Sender<Arc<PodTable>>,
}

impl Contended {
    fn new(tree: &Tree, pod: &str) -> Result<Self> {
        let table = kit::one_pod(pod, &[] as &[&str])?;
        let (pods, reader) = watch::channel(Arc::new(table));
        let (facts, series) = (Facts::default(), SharedSeries::new(SeriesSettings::default()));
        let layout = Arc::new(Layout::detect(&Roots::host())?);
        let kubepods = CgroupDir::new(&tree.kubepods())?;
        let collector =
            PressureCollector::new(layout, kubepods, reader, facts.pressure.clone(), series.clone());
        Ok(Self { collector, facts, series, _pods: pods })
    }

    /// Percent of the last 10 s in which a thread of the pod waited for a CPU.
    fn waited(&mut self, at: u64) -> Option<f64> {
        self.collector.round(Nanos(at)).ok()?;
        self.facts.pressure.get()?.pods.get("1")?.cpu.some.map(|line| line.avg10)
    }
}

#[test]
fn a_pod_whose_threads_wait_for_a_cpu_has_pressure() -> Result<()> {
    need!(offers::cgroup_v2());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let pod = format!("{}/pod1", tree.class_dir(Class::Burstable));
    tree.make(&pod)?;
    if !tree.file(Controller::Cpu, &pod, "cpu.pressure").exists() {
        kit::skip!("needs a kernel with pressure figures of groups");
    }
    tree.write(Controller::Cpuset, &pod, "cpuset.cpus", "0")?;
    let mut contended = Contended::new(&tree, &pod)?;
    ensure!(contended.waited(1).is_some(), "an idle pod has figures, too");
    let _busy = tree.spin(&pod, 2)?;
    let mut at = 1;
    let waits = kit::until(Duration::from_secs(guest_scale(30, 120)), || {
        at += 1;
        contended.waited(at).is_some_and(|percent| percent > 1.0)
    });
    let last = contended.waited(at + 1);
    ensure!(waits, "after two threads shared a CPU: {last:?}");
    let key = SeriesKey::pod_psi(&"1".into(), PsiResource::Cpu, PsiDegree::Some);
    let stored = contended.series.newest(&key, Nanos(0), Nanos(u64::MAX)).context("nothing stored")?;
    ensure!(Some(stored.1) == last, "{stored:?} {last:?}");
    kit::skip::note(format_args!("two threads on one CPU: cpu some avg10 = {} %", stored.1));
    Ok(())
}
