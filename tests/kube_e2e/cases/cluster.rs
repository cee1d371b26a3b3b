//! The cluster itself: what the other tests build on.

use std::time::Duration;

use anyhow::{Result, ensure};
use kit::skip;
use serde_json::json;

use crate::lab::Lab;
use crate::lab::pods::PodOf;
use crate::suite::Case;

pub(super) const CASES: &[Case] =
    &[("cluster::a_pod_has_the_cgroups_that_it_asked_for", a_pod_has_its_cgroups)];

fn a_pod_has_its_cgroups(lab: &Lab) -> Result<()> {
    let start = std::time::Instant::now();
    let pod = PodOf::name("plain").limits(&json!({"cpu": "500m", "memory": "64Mi"})).run(lab)?;
    let dirs = [pod.dir(), pod.container_dir()?];
    skip::note(format_args!("pod running after {:.1?}", start.elapsed()));
    for dir in &dirs {
        ensure!(lab.tree.cfs_quota(dir)? == 50_000, "{dir}: {}", lab.tree.cfs_quota(dir)?);
    }
    pod.delete()?;
    let [dir, _] = dirs;
    let gone = || lab.tree.cfs_quota(&dir).is_err();
    ensure!(kit::until(Duration::from_mins(2), gone), "{dir} is still there");
    Ok(())
}
