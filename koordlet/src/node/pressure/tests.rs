//! Pressure on folders that stand for kernels with and without it.

use std::io;

use nix::errno::Errno;

use super::*;
use crate::node::testing::{FolderHost, dir, pods};
use crate::state::series::key::{PsiDegree, PsiResource, SeriesKey};
use crate::state::series::settings::SeriesSettings;

const SOME: &str = "some avg10=1.50 avg60=0.80 avg300=0.20 total=42\n";
const FULL: &str = "full avg10=0.50 avg60=0.10 avg300=0.00 total=7\n";
const UID: &str = "u1";
const POD: &str = "kubepods/podu1";
const CONTAINER: &str = "containerd://u1-c";

struct Agent {
    collector: PressureCollector,
    pressure: Published<NodePressure>,
    series: SharedSeries,
    _pods: watch::Sender<Arc<PodTable>>,
}

impl Agent {
    fn new(host: &FolderHost) -> Self {
        let (pods, reader) = watch::channel(pods(&[(UID, POD)]));
        let (pressure, series) = (Published::default(), SharedSeries::new(SeriesSettings::default()));
        let collector =
            PressureCollector::new(host.layout(), dir("kubepods"), reader, pressure.clone(), series.clone());
        Self { collector, pressure, series, _pods: pods }
    }

    fn round(&mut self, at: u64) -> Option<Arc<NodePressure>> {
        self.collector.round(Nanos(at)).unwrap();
        self.pressure.get()
    }

    fn newest(&self, key: &SeriesKey) -> Option<f64> {
        self.series.newest(key, Nanos(0), Nanos(u64::MAX)).map(|(_, value)| value)
    }
}

/// The three files of a group; `prefix` is where its hierarchy is.
fn group(host: &FolderHost, prefix: &str, group: &str, cpu: &str) {
    host.put(&format!("{prefix}/{group}/cpu.pressure"), cpu);
    for file in ["memory.pressure", "io.pressure"] {
        host.put(&format!("{prefix}/{group}/{file}"), &format!("{SOME}{FULL}"));
    }
}

fn tree(host: &FolderHost, prefix: &str) {
    for each in ["kubepods", POD, "kubepods/podu1/c"] {
        group(host, prefix, each, SOME);
    }
}

fn text(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[test]
fn pods_and_containers_have_figures_on_both_versions() {
    for (folders, prefix) in [(["cgroup.controllers"], "cgroup"), (["cpuacct"], "cgroup/cpuacct")] {
        let host = FolderHost::new(&folders);
        tree(&host, prefix);
        group(&host, prefix, "kubepods/podu1/c", &format!("{SOME}{FULL}"));
        let mut agent = Agent::new(&host);
        let found = agent.round(5).unwrap();
        let (pod, container) = (found.pods[UID], found.containers[&(UID.into(), CONTAINER.into())]);
        assert_eq!((found.at, found.pods.len(), found.containers.len()), (Nanos(5), 1, 1));
        assert_eq!(text(pod.cpu.some.map(|line| line.avg10)), "1.5");
        assert!(pod.cpu.full.is_none() && pod.memory.full.is_some(), "an old kernel's CPU");
        assert_eq!(text(container.cpu.full.map(|line| line.avg10)), "0.5");
        assert_eq!(offer(&host.layout(), Some(&dir("kubepods"))).state, crate::host::offers::State::Ok);
    }
}

#[test]
fn averages_over_10_s_are_stored_and_a_degree_that_is_not_told_is_not() {
    let host = FolderHost::new(&["cgroup.controllers"]);
    tree(&host, "cgroup");
    let mut agent = Agent::new(&host);
    agent.round(5);
    let (uid, id) = (Arc::from(UID), Arc::from(CONTAINER));
    for (key, expected) in [
        (SeriesKey::pod_psi(&uid, PsiResource::Cpu, PsiDegree::Some), "1.5"),
        (SeriesKey::pod_psi(&uid, PsiResource::Cpu, PsiDegree::Full), ""),
        (SeriesKey::pod_psi(&uid, PsiResource::Memory, PsiDegree::Full), "0.5"),
        (SeriesKey::container_psi(&uid, &id, PsiResource::Io, PsiDegree::Some), "1.5"),
        (SeriesKey::pod_psi_full_supported(&uid), "0"),
        (SeriesKey::container_psi_full_supported(&uid, &id), "0"),
    ] {
        assert_eq!(text(agent.newest(&key)), expected, "{key}");
    }
}

#[test]
fn c071_a_kernel_without_the_files_ends_the_collector_with_a_reason() {
    let host = FolderHost::new(&["cpuacct/kubepods/podu1"]);
    let mut agent = Agent::new(&host);
    assert!(agent.round(1).is_none());
    assert!(agent.collector.is_over());
    let offer = offer(&host.layout(), Some(&dir("kubepods")));
    assert_eq!(offer.state, crate::host::offers::State::Missing);
    assert!(offer.detail.contains("no cpu.pressure in kubepods"), "{}", offer.detail);
    // All three are needed.
    host.put("cgroup/cpuacct/kubepods/cpu.pressure", SOME);
    let mut agent = Agent::new(&host);
    agent.round(1);
    assert!(agent.collector.is_over());
    // Without the hierarchy, too.
    let mut agent = Agent::new(&FolderHost::new(&["memory"]));
    agent.round(1);
    assert!(agent.collector.is_over());
}

#[test]
fn c072_files_whose_reading_is_not_supported_are_as_none() {
    let host = FolderHost::new(&["cgroup.controllers"]);
    tree(&host, "cgroup");
    let mut agent = Agent::new(&host);
    assert!(agent.round(1).is_some());
    let source = || io::Error::from(Errno::EOPNOTSUPP);
    let read = || GroupFileError::Read { resource: Resource::CpuPressure, source: source() };
    let open = ReadError::Io { path: "/cpu.pressure".into(), source: source() };
    assert!(is_without_feature(&read()) && is_without_feature(&GroupFileError::Open(open)));
    let other = GroupFileError::Read { resource: Resource::CpuPressure, source: Errno::EIO.into() };
    assert!(!is_without_feature(&other));
    agent.collector.take(Err(read()));
    assert!(agent.collector.is_over() && agent.pressure.get().is_none());
    assert!(agent.round(2).is_none(), "nothing is read any more");
}

#[test]
fn it_waits_for_the_kubepods_directory() {
    let host = FolderHost::new(&["cgroup.controllers"]);
    let mut agent = Agent::new(&host);
    assert!(agent.round(1).is_none() && !agent.collector.is_over());
    assert_eq!(offer(&host.layout(), Some(&dir("kubepods"))).state, crate::host::offers::State::Missing);
    tree(&host, "cgroup");
    assert_eq!(agent.round(2).unwrap().pods.len(), 1);
}

#[test]
fn one_group_that_is_gone_or_cannot_be_understood_keeps_the_others() {
    let host = FolderHost::new(&["cgroup.controllers"]);
    tree(&host, "cgroup");
    let mut agent = Agent::new(&host);
    for bad in ["", "\n", "full avg10=0 avg60=0 avg300=0 total=0\n", "some avg10=x\n"] {
        host.put("cgroup/kubepods/podu1/c/cpu.pressure", bad);
        let found = agent.round(1).unwrap();
        assert_eq!((found.pods.len(), found.containers.len()), (1, 0), "{bad:?}");
    }
    host.remove("cgroup/kubepods/podu1/c");
    assert_eq!(agent.round(2).unwrap().containers.len(), 0);
    group(&host, "cgroup", "kubepods/podu1/c", SOME);
    assert_eq!(agent.round(3).unwrap().containers.len(), 1, "it came back");
    host.put("cgroup/kubepods/memory.pressure", "junk\n");
    assert!(Agent::new(&host).collector.round(Nanos(1)).is_err(), "tried again in the next round");
}
