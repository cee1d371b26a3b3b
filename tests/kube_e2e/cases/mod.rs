//! The tests.

mod cluster;

use crate::suite::Case;

/// All, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    cluster::CASES.to_vec()
}
