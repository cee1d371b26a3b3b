//! Names, values and statistics of cgroups as this machine's kernel sees them: what is formatted is taken and
//! reads back the same, and what is read agrees with the files.

use anyhow::{Context as _, Result};
use kit::{Class, PodDirs, PodManifest, Tree, hierarchy, need, offers, until};
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::driver;
use koordlet::cgroup::held_file::ReadBuffer;
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::naming::CgroupDriver;
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::place::DirKind;
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::Value;
use koordlet::host::roots::Roots;
use koordlet::units::{CfsQuota, CpuShares, MemoryLimit};

/// A pod's tree with what the library makes of this host.
struct Host {
    tree: Tree,
    dirs: PodDirs,
    layout: Layout,
    container: CgroupDir,
    buffer: ReadBuffer,
}

impl Host {
    fn new() -> Result<Self> {
        let tree = Tree::new()?;
        let pod = PodManifest::new("values", Class::BestEffort).container("app", "0a1b", |app| app);
        let dirs = tree.make_pod(&pod)?;
        let container = CgroupDir::new(&dirs.container("app"))?;
        let layout = Layout::detect(&Roots::host())?;
        Ok(Self { tree, dirs, layout, container, buffer: ReadBuffer::default() })
    }

    /// Whether the kernel shows the resource's file.
    fn has(&self, resource: Resource) -> bool {
        let path = self.layout.file(&self.container, resource).and_then(|loc| self.layout.path(&loc));
        path.is_some_and(|path| path.exists())
    }

    fn text(&mut self, resource: Resource) -> Result<String> {
        let file = self.layout.open(&self.container, resource)?.context("no such file")?;
        Ok(file.read(&mut self.buffer)?.context("the group is gone")?.to_owned())
    }

    /// Writes a value as formatted; what the file then says.
    fn hold(&mut self, resource: Resource, value: &Value) -> Result<String> {
        let loc = self.layout.file(&self.container, resource).context("no such resource")?;
        let path = self.layout.path(&loc).context("no such hierarchy")?;
        hierarchy::write(&path, &self.layout.format(resource, value)?)?;
        Ok(std::fs::read_to_string(path)?)
    }
}

#[test]
fn c041_c042_what_is_formatted_is_taken_and_reads_back_the_same() -> Result<()> {
    need!(offers::cgroups());
    let mut host = Host::new()?;
    let mut checked = 0;
    for (resource, value) in [
        (Resource::CpuShares, Value::Shares(CpuShares(2))),
        (Resource::CpuShares, Value::Shares(CpuShares(1500))),
        (Resource::CpuShares, Value::Shares(CpuShares(262_144))),
        (Resource::CfsQuota, Value::Quota(CfsQuota::Micros(133_334))),
        (Resource::CfsQuota, Value::Quota(CfsQuota::Micros(1000))),
        (Resource::CfsQuota, Value::Quota(CfsQuota::Unlimited)),
        (Resource::MemoryLimit, Value::Memory(MemoryLimit::Bytes(104_857_601))),
        (Resource::MemoryLimit, Value::Memory(MemoryLimit::Unlimited)),
        (Resource::MemoryHigh, Value::Memory(MemoryLimit::Bytes(104_857_601))),
        (Resource::MemoryHigh, Value::Memory(MemoryLimit::Unlimited)),
        (Resource::MemoryMin, Value::Memory(MemoryLimit::Bytes(0))),
        (Resource::CpuIdle, Value::Int(1)),
        (Resource::CpuIdle, Value::Int(0)),
        (Resource::OomGroup, Value::Int(1)),
        (Resource::CfsBurst, Value::Int(0)),
    ] {
        if !host.has(resource) {
            println!("this kernel has no {resource:?}");
            continue;
        }
        let found = host.hold(resource, &value)?;
        assert!(host.layout.same(resource, &value, &found), "{resource:?} {value:?} reads {found:?}");
        checked += 1;
    }
    assert!(checked >= 8, "shares, quota and memory are on every kernel: {checked}");
    Ok(())
}

#[test]
fn c037_a_list_is_printed_in_a_form_that_the_kernel_takes() -> Result<()> {
    need!(offers::cgroups());
    let mut host = Host::new()?;
    let effective = host.text(Resource::Cpus)?;
    let all = host.layout.parse(Resource::Cpus, &effective)?;
    let found = host.hold(Resource::Cpus, &all)?;
    assert!(host.layout.same(Resource::Cpus, &all, &found), "{all} reads {found:?}");
    Ok(())
}

#[test]
fn statistics_of_a_busy_container_are_read_and_a_removed_one_is_gone() -> Result<()> {
    need!(offers::cgroups());
    let mut host = Host::new()?;
    let load = host.tree.spin(host.container.as_str(), 1)?;
    let limit = kit::patience();
    let busy = || host.tree.cpu_usage_nanos(host.container.as_str()).is_ok_and(|nanos| nanos > 20_000_000);
    assert!(until(limit, busy));
    let before = host.tree.cpu_usage_nanos(host.container.as_str())?;
    let text = host.text(Resource::CpuUsage)?;
    let read = host.layout.parse_cpu_time(&text)?.0;
    let after = host.tree.cpu_usage_nanos(host.container.as_str())?;
    assert!((before..=after).contains(&read), "{before} {read} {after}");
    let text = host.text(Resource::MemoryStat)?;
    // The kernel adds up memory late: the figures may still be 0, but all of them are there.
    let stat = host.layout.parse_memory_stat(&text)?;
    assert!(stat.with_page_cache() >= stat.without_page_cache(), "{text}");
    let text = host.text(Resource::CpuStat)?;
    host.layout.parse_throttling(&text)?;
    if host.has(Resource::MemoryNumaStat) {
        let text = host.text(Resource::MemoryNumaStat)?;
        assert!(!host.layout.parse_numa_memory(&text)?.is_empty(), "{text}");
    }

    let held = host.layout.open(&host.container, Resource::CpuStat)?.context("held before")?;
    load.stop();
    host.tree.remove(host.container.as_str())?;
    assert_eq!(held.read(&mut host.buffer)?, None, "c053: a held file of a removed group");
    assert!(host.layout.open(&host.container, Resource::CpuStat)?.is_none());
    assert!(host.layout.read_value(&host.container, Resource::CfsQuota, &mut host.buffer)?.is_none());
    Ok(())
}

#[test]
fn directories_beneath_a_cgroup_root_are_detected_and_classified() -> Result<()> {
    need!(offers::cgroups());
    let host = Host::new()?;
    let found = driver::detect(None, host.tree.root(), None, &host.layout)?.context("a driver")?;
    assert_eq!((found.naming.driver(), found.other_exists), (CgroupDriver::Systemd, false));
    assert_eq!(found.naming.kubepods().as_str(), host.tree.kubepods());
    let pod = CgroupDir::new(&host.dirs.pod)?;
    let place = found.naming.classify(&pod).context("a pod's directory")?;
    assert_eq!((place.kind, place.qos), (DirKind::Pod, KubeQos::BestEffort));
    let container = found.naming.classify(&host.container).context("a container's")?;
    assert_eq!((container.kind, container.container_id), (DirKind::Container, Some("0a1b")));
    Ok(())
}
