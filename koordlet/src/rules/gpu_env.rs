//! GPU env inject: which GPUs a container may see, and how much of a shared one it may use, hooks.md 11.2.

use super::injection::{BindMount, Injection};
use super::plugin::{News, Plugin};
use super::rule_pod::RulePod;
use super::rule_set::{RuleError, RuleNotice};
use crate::api::device_allocation::{DeviceAllocation, device_allocations};
use crate::api::keys;
use crate::claims::claim::Owner;
use crate::state::pods::{ContainerEntry, PodEntry};
use crate::state::snapshot::Snapshot;

/// The isolation that is set up here.
const HAMI_CORE: &str = "HAMi-core";
/// Where HAMi's library keeps its locks.
const LOCKS: &str = "/tmp/vgpulock";

/// Where HAMi is on the host, and what it does there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HamiSettings {
    /// `--hami-core-library-directory-path`: the library itself, for all the flag's name says.
    pub library: String,
    /// Gate HamiCoreVGPUMonitor: use is shared with a monitor.
    pub monitor: bool,
}

impl Default for HamiSettings {
    fn default() -> Self {
        Self { library: "/usr/local/vgpu/libvgpu.so".to_owned(), monitor: false }
    }
}

/// A GPU that cannot be shared as the annotation says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuFault {
    /// A figure that isolation needs is not there.
    #[error("annotation {key}: the first GPU has no {0}", key = keys::DEVICE_ALLOCATED)]
    NoFigure(&'static str),
    /// A name that would lead out of the library's folder.
    #[error("{0:?} cannot be part of a path")]
    Name(String),
}

/// The rule; it depends on the pod alone.
#[derive(Debug, Default)]
pub struct GpuEnv {
    hami: HamiSettings,
}

impl GpuEnv {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "gpu env inject";

    /// The rule with what the flags say.
    pub fn new(hami: HamiSettings) -> Self {
        Self { hami }
    }

    /// What HAMi's library needs to know of the share of `gpu`; nothing where the whole GPU was given.
    fn isolate(
        &self,
        gpu: &DeviceAllocation,
        pod: &PodEntry,
        container: &str,
        injection: &mut Injection,
    ) -> Result<(), GpuFault> {
        let figure = |key| gpu.resources.get(key).map(|quantity| quantity.value());
        let needed = |key| figure(key).ok_or(GpuFault::NoFigure(key));
        if needed(keys::GPU_MEMORY_RATIO)? >= 100 {
            return Ok(());
        }
        let memory = needed(keys::GPU_MEMORY)?;
        let monitor = self.hami.monitor.then(|| self.monitor(&pod.uid, container)).transpose()?;
        let library = &self.hami.library;
        let mut set = |name: &str, value: String| injection.envs.insert(name.to_owned(), value);
        set("CUDA_DEVICE_MEMORY_LIMIT", memory.to_string());
        if let Some(core) = figure(keys::GPU_CORE) {
            set("CUDA_DEVICE_SM_LIMIT", core.to_string());
        }
        set("LD_PRELOAD", library.clone());
        if let Some((cache, folder)) = monitor {
            set("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache);
            // Before the library, which lies in it.
            injection.mounts.push(folder);
        }
        for path in [library.as_str(), LOCKS] {
            injection.mounts.push(onto_itself(path));
        }
        Ok(())
    }

    /// The file through which a container tells the monitor of its use, and the folder of the host that it lies in.
    fn monitor(&self, uid: &str, container: &str) -> Result<(String, BindMount), GpuFault> {
        let (uid, container) = (plain(uid)?, plain(container)?);
        let folder = self.hami.library.rsplit_once('/').map_or("", |(folder, _)| folder);
        let cache = format!("{folder}/{uid}_{container}.cache");
        let mount = BindMount {
            source: format!("{folder}/containers/{uid}_{container}"),
            destination: folder.to_owned(),
            fresh_source: true,
        };
        Ok((cache, mount))
    }
}

impl Plugin for GpuEnv {
    fn owner(&self) -> Option<Owner> {
        None
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        news.tell_faults(
            Self::NAME,
            keys::DEVICE_ALLOCATED,
            |pod| device_allocations(&pod.pod.metadata.annotations).err(),
            notices,
        );
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced
    }

    /// Which GPUs are visible is set also where isolation fails: without it a container sees all.
    fn inject(
        &self,
        pod: &RulePod<'_>,
        container: &ContainerEntry,
        injection: &mut Injection,
    ) -> Result<(), RuleError> {
        let entry = pod.entry();
        let metadata = &entry.pod.metadata;
        let Some(devices) = device_allocations(&metadata.annotations)? else { return Ok(()) };
        let [first, ..] = devices.gpus() else { return Ok(()) };
        let minors: Vec<String> = devices.gpus().iter().map(|gpu| gpu.minor.to_string()).collect();
        injection.envs.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), minors.join(","));
        if metadata.labels.get(keys::GPU_ISOLATION_PROVIDER).is_some_and(|provider| provider == HAMI_CORE) {
            self.isolate(first, entry, &container.name, injection)?;
        }
        Ok(())
    }
}

fn onto_itself(path: &str) -> BindMount {
    BindMount { source: path.to_owned(), destination: path.to_owned(), fresh_source: false }
}

/// A name that is one plain part of a path.
fn plain(name: &str) -> Result<&str, GpuFault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let good = !name.is_empty() && name.len() <= 128 && name.bytes().all(is_plain) && !name.starts_with('.');
    if good { Ok(name) } else { Err(GpuFault::Name(name.chars().take(128).collect())) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::claims::testing::entry;

    fn pod(uid: &str, provider: &str, allocated: &str) -> PodEntry {
        entry(json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": uid,
                "labels": {keys::GPU_ISOLATION_PROVIDER: provider},
                "annotations": {keys::DEVICE_ALLOCATED: allocated},
            },
            "spec": {"containers": [{"name": "c"}]},
        }))
    }

    fn injected(hami: HamiSettings, pod: &PodEntry) -> (Injection, Option<String>) {
        let mut injection = Injection::default();
        let result = GpuEnv::new(hami).inject(&RulePod::new(pod), &pod.containers[0], &mut injection);
        (injection, result.err().map(|error| error.to_string()))
    }

    fn envs(injection: &Injection) -> Json {
        json!(injection.envs)
    }

    const SHARED: &str = r#"{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-memory-ratio":"50",
        "koordinator.sh/gpu-memory":"16Gi","koordinator.sh/gpu-core":"50"}}]}"#;

    /// hooks.md 19, row "GPU".
    #[test]
    fn a_container_sees_its_gpus_and_is_held_to_its_share() {
        let both = pod("u", "", r#"{"gpu":[{"minor":0},{"minor":1}]}"#);
        let (injection, error) = injected(HamiSettings::default(), &both);
        assert_eq!((envs(&injection), error), (json!({"NVIDIA_VISIBLE_DEVICES": "0,1"}), None));
        let (injection, error) = injected(HamiSettings::default(), &pod("u", "HAMi-core", SHARED));
        assert_eq!(error, None);
        assert_eq!(
            envs(&injection),
            json!({
                "NVIDIA_VISIBLE_DEVICES": "3",
                "CUDA_DEVICE_MEMORY_LIMIT": "17179869184",
                "CUDA_DEVICE_SM_LIMIT": "50",
                "LD_PRELOAD": "/usr/local/vgpu/libvgpu.so",
            })
        );
        let mounts = ["/usr/local/vgpu/libvgpu.so", "/tmp/vgpulock"].map(onto_itself);
        assert_eq!(injection.mounts, mounts);
        let whole = pod("u", "HAMi-core", &SHARED.replace("\"50\",\n", "\"100\",\n"));
        let (injection, _) = injected(HamiSettings::default(), &whole);
        assert_eq!(envs(&injection), json!({"NVIDIA_VISIBLE_DEVICES": "3"}));
    }

    #[test]
    fn the_monitor_has_a_fresh_folder_a_container() {
        let hami = HamiSettings { library: "/opt/v/lib.so".into(), monitor: true };
        let (injection, _) = injected(hami.clone(), &pod("u-1", "HAMi-core", SHARED));
        assert_eq!(injection.envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"], "/opt/v/u-1_c.cache");
        let folder = BindMount {
            source: "/opt/v/containers/u-1_c".into(),
            destination: "/opt/v".into(),
            fresh_source: true,
        };
        assert_eq!(injection.mounts, [folder, onto_itself("/opt/v/lib.so"), onto_itself(LOCKS)]);
        let (_, error) = injected(
            hami,
            &entry(json!({
                "metadata": {"uid": "u", "labels": {keys::GPU_ISOLATION_PROVIDER: HAMI_CORE},
                             "annotations": {keys::DEVICE_ALLOCATED: SHARED}},
                "spec": {"containers": [{"name": "../c"}]},
            })),
        );
        assert!(error.unwrap().contains("../c"));
    }

    #[test]
    fn what_isolation_needs_has_to_be_there() {
        for (allocated, envs_left, fails) in [
            (r#"{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-memory-ratio":"20"}}]}"#, 1, true),
            (r#"{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"20"}}]}"#, 1, true),
            ("{bad", 0, true),
            (r#"{"rdma":[{"minor":0}]}"#, 0, false),
            (r#"{"gpu":[]}"#, 0, false),
            ("{}", 0, false),
        ] {
            let (injection, error) = injected(HamiSettings::default(), &pod("u", "HAMi-core", allocated));
            assert_eq!((injection.envs.len(), error.is_some()), (envs_left, fails), "{allocated}");
            assert!(injection.mounts.is_empty());
        }
    }
}
