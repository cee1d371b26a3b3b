//! How long a figure is shown after it was told last. A part that has stopped (its collector fails or hangs, its
//! policy is switched off) must not look as if nothing had changed since.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::state::be_resources::BeResources;
use crate::state::cache_use::CacheUse;
use crate::state::cpi::CpiCounts;
use crate::state::facts::Facts;
use crate::state::group_stats::GroupStats;
use crate::state::pressure::NodePressure;
use crate::units::Nanos;

/// A figure outlives so many rounds of its source.
const ROUNDS: u32 = 3;

/// Ages from which figures are no longer shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// What is read from the files of groups after each sample.
    pub groups: Nanos,
    /// What suppression decided.
    pub suppression: Nanos,
    /// Pressure.
    pub pressure: Nanos,
    /// Cycles and instructions.
    pub cpi: Nanos,
    /// Cache and memory bandwidth.
    pub cache_use: Nanos,
}

impl Ages {
    /// As the paces of the collectors ask for.
    pub fn of(config: &Config) -> Self {
        let collect = &config.collect;
        let longest = |interval: Option<Duration>| {
            let age = interval.unwrap_or_default().saturating_mul(ROUNDS).max(collect.outdated);
            Nanos(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
        };
        Self {
            groups: longest(Some(collect.usage)),
            suppression: longest(config.cpu_suppress_interval),
            pressure: longest(collect.pressure),
            cpi: longest(collect.cpi.map(|cpi| cpi.interval.saturating_add(cpi.window))),
            cache_use: longest(collect.resctrl),
        }
    }
}

impl Default for Ages {
    /// Figures are shown for ever.
    fn default() -> Self {
        let ever = Nanos(u64::MAX);
        Self { groups: ever, suppression: ever, pressure: ever, cpi: ever, cache_use: ever }
    }
}

/// What of the facts is shown at a moment.
pub(super) struct Shown {
    pub(super) be: Option<Arc<BeResources>>,
    pub(super) groups: Option<Arc<GroupStats>>,
    pub(super) pressure: Option<Arc<NodePressure>>,
    pub(super) cpi: Option<Arc<CpiCounts>>,
    pub(super) cache_use: Option<Arc<CacheUse>>,
}

impl Shown {
    pub(super) fn at(now: Nanos, facts: &Facts, ages: &Ages) -> Self {
        let young = |at: Nanos, longest: Nanos| is_young(at, now, longest);
        Self {
            be: facts.be.get().filter(|be| young(be.at, ages.groups)),
            groups: facts.groups.get().filter(|groups| young(groups.at, ages.groups)),
            pressure: facts.pressure.get().filter(|pressure| young(pressure.at, ages.pressure)),
            cpi: facts.cpi.get().filter(|cpi| {
                // A round that counts in batches takes many windows.
                let rounds = cpi.took.0.saturating_mul(ROUNDS.into());
                young(cpi.at, Nanos(ages.cpi.0.saturating_add(rounds)))
            }),
            cache_use: facts.cache_use.get().filter(|cache_use| young(cache_use.at, ages.cache_use)),
        }
    }
}

/// Whether what was told at `at` is still shown at `now`.
pub(super) fn is_young(at: Nanos, now: Nanos, longest: Nanos) -> bool {
    now.0.saturating_sub(at.0) <= longest.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_goes_when_its_source_has_been_silent_for_three_rounds() {
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let ages = Ages {
            groups: second(10),
            suppression: second(10),
            pressure: second(30),
            cpi: second(210),
            cache_use: second(30),
        };
        let facts = Facts::default();
        let at = second(100);
        facts.be.set(BeResources { at, ..BeResources::default() });
        facts.groups.set(GroupStats { at, ..GroupStats::default() });
        facts.pressure.set(NodePressure { at, ..NodePressure::default() });
        facts.cpi.set(CpiCounts { at, took: second(100), ..CpiCounts::default() });
        facts.cache_use.set(CacheUse { at, ..CacheUse::default() });
        let shown = |now: u64| {
            let shown = Shown::at(second(now), &facts, &ages);
            let Shown { be, groups, pressure, cpi, cache_use } = shown;
            [be.is_some(), groups.is_some(), pressure.is_some(), cpi.is_some(), cache_use.is_some()]
        };
        assert_eq!(shown(0), [true; 5], "told after the page was begun");
        assert_eq!(shown(110), [true; 5]);
        assert_eq!(shown(111), [false, false, true, true, true]);
        assert_eq!(shown(131), [false, false, false, true, false]);
        assert_eq!(shown(610), [false, false, false, true, false], "its rounds take 100 s");
        assert_eq!(shown(611), [false; 5]);
    }
}
