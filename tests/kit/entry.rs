//! A pod as the agent's table of pods has it, for tests that drive collectors themselves.

use std::sync::Arc;

use anyhow::Result;
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::path::CgroupDir;
use koordlet::state::pods::{ContainerEntry, ContainerKind, PodEntry, PodTable};

/// One burstable pod, of UID `1`, in directory `pod`; each container `NAME` in its directory `NAME`, with the id
/// `containerd://NAME`.
pub fn one_pod(pod: &str, containers: &[String]) -> Result<PodTable> {
    let container = |(index, name): (usize, &String)| -> Result<ContainerEntry> {
        Ok(ContainerEntry {
            name: name.clone(),
            kind: ContainerKind::App,
            index,
            id: Some(format!("containerd://{name}")),
            dir: Some(CgroupDir::new(&format!("{pod}/{name}"))?),
        })
    };
    let entry = PodEntry {
        pod: Pod::default().into(),
        uid: "1".into(),
        kube_qos: KubeQos::Burstable,
        qos: None,
        dir: CgroupDir::new(pod)?,
        containers: containers.iter().enumerate().map(container).collect::<Result<_>>()?,
        hooks_live: false,
    };
    Ok(PodTable { pods: [(Arc::clone(&entry.uid), Arc::new(entry))].into(), synced: true })
}
