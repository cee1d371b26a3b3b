//! Waits for the first sign of how this node's kubelet names its cgroups. Without one there is no directory
//! that anything could be enforced in.

use std::time::Duration;

use super::once::Once;
use crate::cgroup::driver::detect;
use crate::cgroup::kubelet::KubeletCgroups;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::cgroup::path::{CgroupDir, CgroupDirError};
use crate::config::{Config, DriverChoice};
use crate::error_chain::chain;
use crate::state::troubles::Troubles;

/// Looks until the kubelet's settings are read again, which means to look through all processes.
const ASK_EVERY: u64 = 20;

/// Between two looks for a kubepods directory.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The naming, as soon as the flag, the kubelet or a directory gives it away.
pub(super) async fn wait(
    config: &Config,
    layout: &Layout,
    troubles: &Troubles,
) -> Result<Naming, CgroupDirError> {
    const WAITING: &str = "kubepods";
    let flag = match config.cgroup_driver {
        DriverChoice::Auto => None,
        DriverChoice::Systemd => Some(CgroupDriver::Systemd),
        DriverChoice::Cgroupfs => Some(CgroupDriver::Cgroupfs),
    };
    let root = config.kubelet_cgroup_root.as_ref().map_or("", CgroupDir::as_str);
    let (mut waiting, mut kubelet, mut said) = (false, None, Once::default());
    for look in 0_u64.. {
        if look.is_multiple_of(ASK_EVERY) {
            match KubeletCgroups::read(&config.roots) {
                Ok(found) => kubelet = found,
                Err(error) => {
                    for news in said.news([chain(&error)]) {
                        tracing::warn!(error = news, "the kubelet's cgroup settings cannot be read");
                    }
                }
            }
        }
        if let Some(found) = detect(flag, root, kubelet.as_ref(), layout)? {
            let driver = found.naming.driver();
            tracing::info!(?driver, source = ?found.source, kubepods = %found.naming.kubepods(), "cgroup driver");
            if found.other_exists {
                tracing::warn!(
                    ?driver,
                    "the other driver's kubepods directory exists too: check --cgroup-driver"
                );
            }
            troubles.set(WAITING, None);
            return Ok(found.naming);
        }
        if !waiting {
            tracing::info!("no kubepods directory yet: waiting for the kubelet to make one");
            troubles.set(WAITING, Some("no such directory yet, nor a kubelet that names one".to_owned()));
            waiting = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    std::future::pending().await
}
