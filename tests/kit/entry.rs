//! Pods as the agent's table of pods has them, for tests that drive collectors themselves.

use std::sync::Arc;

use anyhow::Result;
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::path::CgroupDir;
use koordlet::state::pods::{ContainerEntry, ContainerKind, PodEntry, PodTable};

/// A burstable pod in directory `pod`; each container `NAME` in its directory `NAME`, with the id `containerd://NAME`.
pub fn pod_entry(uid: &str, pod: &str, containers: &[impl AsRef<str>]) -> Result<PodEntry> {
    let container = |(index, name): (usize, &str)| -> Result<ContainerEntry> {
        Ok(ContainerEntry {
            name: name.to_owned(),
            kind: ContainerKind::App,
            index,
            id: Some(format!("containerd://{name}")),
            dir: Some(CgroupDir::new(&format!("{pod}/{name}"))?),
        })
    };
    Ok(PodEntry {
        pod: Pod::default().into(),
        uid: uid.into(),
        kube_qos: KubeQos::Burstable,
        qos: None,
        dir: CgroupDir::new(pod)?,
        containers: containers.iter().map(AsRef::as_ref).enumerate().map(container).collect::<Result<_>>()?,
        hooks_live: false,
    })
}

/// These pods and no others.
pub fn pod_table(pods: impl IntoIterator<Item = PodEntry>) -> PodTable {
    let pods = pods.into_iter().map(|entry| (Arc::clone(&entry.uid), Arc::new(entry)));
    PodTable { pods: pods.collect(), synced: true }
}

/// One pod, of UID `1`.
pub fn one_pod(pod: &str, containers: &[impl AsRef<str>]) -> Result<PodTable> {
    Ok(pod_table([pod_entry("1", pod, containers)?]))
}
