//! A pod or container as the rules see it, with what several of them need worked out once.

use std::cell::OnceCell;

use super::batch_spec::BatchSpec;
use crate::api::annotations::{ResourceStatus, resource_status};
use crate::api::node_slo::HostApplication;
use crate::api::qos::KubeQos;
use crate::cgroup::path::CgroupDir;
use crate::claims::native::NativePod;
use crate::state::pods::{ContainerEntry, PodEntry};

/// A pod that rules are asked about.
#[derive(Debug)]
pub struct RulePod<'a> {
    entry: &'a PodEntry,
    native: OnceCell<NativePod<'a>>,
    batch: OnceCell<BatchSpec<'a>>,
    status: OnceCell<Option<ResourceStatus>>,
    is_starting: bool,
}

impl<'a> RulePod<'a> {
    /// Looks at a pod; nothing is parsed before a rule needs it.
    pub fn new(entry: &'a PodEntry) -> Self {
        Self {
            entry,
            native: OnceCell::new(),
            batch: OnceCell::new(),
            status: OnceCell::new(),
            is_starting: false,
        }
    }

    /// A pod whose runtime asks, of something that it is about to start or update.
    pub(super) fn starting(entry: &'a PodEntry) -> Self {
        Self { is_starting: true, ..Self::new(entry) }
    }

    /// Whether the runtime asks, and not the reconciler.
    pub(super) fn is_starting(&self) -> bool {
        self.is_starting
    }

    /// The pod.
    pub fn entry(&self) -> &'a PodEntry {
        self.entry
    }

    /// Whether the pod's cgroups are in use: it has not finished. Pods whose phase nobody reports count.
    pub(super) fn is_active(&self) -> bool {
        self.entry.pod.is_active() || self.entry.pod.status.phase.is_empty()
    }

    pub(super) fn native(&self) -> &NativePod<'a> {
        self.native.get_or_init(|| NativePod::new(self.entry))
    }

    pub(super) fn batch(&self) -> &BatchSpec<'a> {
        self.batch.get_or_init(|| BatchSpec::of(self.entry))
    }

    /// What the scheduler allocated to it, nothing without the annotation; `None` if that cannot be read, which
    /// `state::topology` tells.
    pub(super) fn status(&self) -> Option<&ResourceStatus> {
        let read = || resource_status(&self.entry.pod).ok().map(Option::unwrap_or_default);
        self.status.get_or_init(read).as_ref()
    }

    /// Whether the scheduler allocated CPUs to it. A malformed annotation counts as none (hooks.md 8.2).
    pub(super) fn is_pinned(&self) -> bool {
        self.status().is_some_and(|status| !status.cpuset.is_empty())
    }

    /// The pod's directory, its sandbox's and its containers', as far as rules may speak about them.
    pub(super) fn targets(
        &self,
        sandbox: Option<&'a CgroupDir>,
    ) -> impl Iterator<Item = RuleTarget<'a>> + '_ {
        let containers = self.entry.containers.iter().map(RuleTarget::Container);
        let sandbox = sandbox.map(RuleTarget::Sandbox);
        let all = std::iter::once(RuleTarget::Pod(self.entry)).chain(sandbox).chain(containers);
        all.filter(|target| self.reaches(*target))
    }

    /// Whether rules may speak about the target: containers of kata pods live in a machine of their own
    /// (hooks.md 6.2).
    pub(super) fn reaches(&self, target: RuleTarget<'_>) -> bool {
        !matches!(target, RuleTarget::Container(_)) || self.entry.has_host_groups()
    }
}

/// What a rule is asked about, of a pod.
#[derive(Clone, Copy, Debug)]
pub enum RuleTarget<'a> {
    /// The pod's directory.
    Pod(&'a PodEntry),
    /// The directory of its sandbox.
    Sandbox(&'a CgroupDir),
    /// One of its containers, started or about to start.
    Container(&'a ContainerEntry),
}

/// A directory that is no known pod's and that rules are asked about.
#[derive(Clone, Copy, Debug)]
pub enum RuleGroup<'a> {
    /// A class's directory; Guaranteed's is the kubepods root itself.
    Class(KubeQos, &'a CgroupDir),
    /// A pod's or container's directory beneath a class's, of a pod that nobody told of (hooks.md 8.1).
    Stray(KubeQos, &'a CgroupDir),
    /// A directory right beneath a known pod's that is no known container's: its sandbox, or what just started.
    InPod(&'a PodEntry, &'a CgroupDir),
    /// A host application's.
    HostApp(&'a HostApplication, &'a CgroupDir),
}

impl<'a> RuleGroup<'a> {
    /// The cgroup directory.
    pub fn dir(self) -> &'a CgroupDir {
        match self {
            Self::Class(_, dir) | Self::Stray(_, dir) | Self::InPod(_, dir) | Self::HostApp(_, dir) => dir,
        }
    }
}

impl<'a> RuleTarget<'a> {
    /// The cgroup directory; `None` for a container that has not started.
    pub fn dir(self) -> Option<&'a CgroupDir> {
        match self {
            Self::Pod(pod) => Some(&pod.dir),
            Self::Sandbox(dir) => Some(dir),
            Self::Container(container) => container.dir.as_ref(),
        }
    }
}
