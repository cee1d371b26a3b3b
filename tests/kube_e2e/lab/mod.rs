//! A cluster of one node, of real programs, on a loopback address of its own. Its parts end with it, and its cgroups,
//! folders and mounts with them.

pub(crate) mod admin;
pub(crate) mod control_plane;
pub(crate) mod daemon;
mod deploy;
pub(crate) mod identity;
mod image;
mod kubelet;
pub(crate) mod namespace;
mod pki;
pub(crate) mod place;
pub(crate) mod pods;
mod programs;
mod runtime;
pub(crate) mod wire;

use std::cell::{RefCell, RefMut};
use std::time::Instant;

use anyhow::{Context as _, Result};
use kit::names::Driver;
use kit::{Tree, skip};

use self::admin::Admin;
use self::control_plane::ControlPlane;
use self::daemon::Daemon;
use self::place::Place;
use self::programs::Programs;
use crate::suite::Length;

/// All of it.
pub(crate) struct Lab {
    /// How long faults are to last.
    pub(crate) length: Length,
    /// Folder and address.
    pub(crate) place: Place,
    /// Programs of it.
    pub(crate) programs: Programs,
    /// Client of the API server that may do everything.
    pub(crate) admin: Admin,
    /// The same of the kubelet.
    pub(crate) kubelet: Admin,
    /// The kubelet's cgroups.
    pub(crate) tree: Tree,
    control_plane: RefCell<ControlPlane>,
    nodes: Vec<Daemon>,
}

impl Lab {
    /// Starts everything; returns when the node is ready.
    pub(crate) fn up(length: Length) -> Result<Self> {
        let start = Instant::now();
        let programs = Programs::find()?;
        let place = Place::new()?;
        let tree = Tree::for_kubelet(Driver::Cgroupfs)?;
        place.note_tree(tree.root())?;
        pki::make(&place)?;
        let control_plane = ControlPlane::start(&place, &programs).context("starting the control plane")?;
        let admin = Admin::at(&place, &place.api_url())?;
        admin.wait_ready(&control_plane)?;
        let api_up = start.elapsed();
        let containerd = runtime::start(&place, &programs).context("starting the container runtime")?;
        let kubelet = kubelet::start(&place, &programs, &tree, containerd.pid());
        let kubelet = kubelet.context("starting the kubelet")?;
        let kubelet_url = format!("https://{}:{}", place.address, kubelet::PORT);
        let lab = Self {
            length,
            admin,
            kubelet: Admin::at(&place, &kubelet_url)?,
            place,
            programs,
            tree,
            control_plane: RefCell::new(control_plane),
            nodes: vec![kubelet, containerd],
        };
        lab.apply_deploy().context("applying what is shipped")?;
        lab.wait_node_ready()?;
        let all_up = start.elapsed();
        skip::note(format_args!(
            "cluster at {}: API server up in {api_up:.1?}, node in {all_up:.1?}",
            lab.node()
        ));
        Ok(lab)
    }

    /// Name of the node, which is its address.
    pub(crate) fn node(&self) -> String {
        self.place.address.to_string()
    }

    /// etcd and the API server, for a test that ends and starts them.
    pub(crate) fn control_plane(&self) -> RefMut<'_, ControlPlane> {
        self.control_plane.borrow_mut()
    }

    /// Ends everything in good order. The supervisor ends what this leaves, also when it is not reached.
    pub(crate) fn down(self) -> Result<()> {
        let Self { place, tree, control_plane, mut nodes, .. } = self;
        for daemon in &mut nodes {
            daemon.stop()?;
        }
        control_plane.into_inner().stop()?;
        drop(tree);
        place.remove()
    }

    fn wait_node_ready(&self) -> Result<()> {
        let kubelet = self.nodes.first().context("no kubelet")?;
        kubelet.wait_until("its node is ready", || {
            let node = self.admin.get(&format!("/api/v1/nodes/{}", self.node()))?;
            let conditions = node.as_ref().and_then(|node| node["status"]["conditions"].as_array());
            Ok(conditions.is_some_and(|all| {
                all.iter().any(|each| each["type"] == "Ready" && each["status"] == "True")
            }))
        })
    }
}
