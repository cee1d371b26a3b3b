//! The tests.

mod births;
mod chaos;
mod cluster;
mod kubelet_chaos;
mod policy;
mod reports;
mod scene;
mod stand_in;

use crate::suite::Case;

/// All, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    let rooms =
        [cluster::CASES, policy::CASES, reports::CASES, births::CASES, kubelet_chaos::CASES, chaos::CASES];
    rooms.concat()
}
