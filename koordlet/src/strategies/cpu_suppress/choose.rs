//! Which CPUs best-effort pods get: the picker, the share taken from LSR pods and the growth limit of
//! qos.md 5.1. Which CPUs may be used at all is decided in `state/topology.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::amount::ceil_cores;
use crate::cpuset::CpuSet;
use crate::state::topology::{CpuInfo, Topology};
use crate::units::MilliCpu;

/// BE never gets fewer CPUs than this while that many are allowed.
pub const MIN_CPUS: usize = 2;

/// A CPU set and how it came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuChoice {
    /// The chosen CPUs; never empty.
    pub cpus: CpuSet,
    /// CPUs that the amount asks for, at least `MIN_CPUS`.
    pub wanted: usize,
    /// Most CPUs in this step, where that is fewer than wanted: the CPUs before plus a tenth of the node's.
    pub limit: Option<usize>,
    /// CPUs that BE may use at all.
    pub allowed: usize,
    /// How many of the chosen ones belong to LSR pods.
    pub from_lsr: usize,
}

/// CPUs that an amount asks for.
pub fn wanted_cpus(amount: MilliCpu) -> usize {
    ceil_cores(amount).max(MIN_CPUS)
}

/// Chooses the CPUs for an amount, qos.md 5.1 steps 3 to 6. `before` is how many CPUs BE had, as far as known:
/// the set grows by at most a tenth of the node's CPUs and shrinks without a limit. With fewer CPUs allowed
/// than wanted all of them are taken (Q3). `None` if no CPU is allowed (Q2).
pub fn choose_cpus(amount: MilliCpu, before: Option<usize>, topology: &Topology) -> Option<CpuChoice> {
    let step = topology.cpus.len().div_ceil(10);
    choose_at_most(amount, before.map(|before| before.saturating_add(step).max(MIN_CPUS)), topology)
}

/// The same with a given upper limit of the number of CPUs.
pub fn choose_at_most(amount: MilliCpu, limit: Option<usize>, topology: &Topology) -> Option<CpuChoice> {
    let (lsr, shared): (Vec<CpuInfo>, Vec<CpuInfo>) = topology
        .cpus
        .iter()
        .filter(|info| topology.be_pool.contains(info.cpu))
        .partition(|info| topology.lsr.contains(info.cpu));
    let allowed = lsr.len() + shared.len();
    let wanted = wanted_cpus(amount);
    let limit = limit.filter(|limit| *limit < wanted);
    let count = limit.unwrap_or(wanted).min(allowed);

    let from_lsr = (count * lsr.len()).checked_div(allowed)?;
    let cpus = pick(from_lsr, &lsr).into_iter().chain(pick(count - from_lsr, &shared)).collect();
    Some(CpuChoice { cpus, wanted, limit, allowed, from_lsr })
}

/// Picks `count` CPUs in order of choice, or all if there are fewer: whole cores first, spread evenly over
/// NUMA nodes and sockets, then single CPUs, lowest numbers first; qos.md 5.1, picker.
pub fn pick(count: usize, cpus: &[CpuInfo]) -> Vec<u32> {
    let mut picker = Picker { groups: groups(cpus), at: 0, picked: Vec::new() };
    let wanted = count.min(cpus.len());
    picker.rounds(wanted, Take::Core);
    picker.rounds(wanted, Take::Single);
    picker.picked
}

/// CPUs by (NUMA node, socket), each group by (core, cpu); the largest group first, then that with the lowest
/// CPU.
fn groups(cpus: &[CpuInfo]) -> Vec<Vec<Candidate>> {
    let mut groups: BTreeMap<(u32, u32), Vec<Candidate>> = BTreeMap::new();
    for info in cpus {
        let candidate = Candidate { core: info.core, cpu: info.cpu, used: false };
        groups.entry((info.node, info.socket)).or_default().push(candidate);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_unstable_by_key(|candidate| (candidate.core, candidate.cpu));
    }
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group.first().map(|first| first.cpu)));
    groups
}

struct Candidate {
    core: u32,
    cpu: u32,
    used: bool,
}

/// What one visit to a group takes.
#[derive(Clone, Copy)]
enum Take {
    /// Two CPUs of one core.
    Core,
    /// One CPU.
    Single,
}

impl Take {
    fn size(self) -> usize {
        match self {
            Self::Core => 2,
            Self::Single => 1,
        }
    }
}

struct Picker {
    groups: Vec<Vec<Candidate>>,
    /// The group to visit next; kept from one kind of round to the next.
    at: usize,
    picked: Vec<u32>,
}

impl Picker {
    /// Visits group after group until fewer CPUs are missing than a visit takes, or a round from the first to
    /// the last group found nothing.
    fn rounds(&mut self, wanted: usize, take: Take) {
        let mut at_round_start = None;
        while wanted - self.picked.len() >= take.size() {
            if self.at == 0 && at_round_start.replace(self.picked.len()) == Some(self.picked.len()) {
                return;
            }
            let Some(group) = self.groups.get_mut(self.at) else { return };
            let taken = take_from(group, take);
            self.picked.extend(taken);
            self.at = (self.at + 1) % self.groups.len();
        }
    }
}

/// Takes the first unused CPU, or the first two neighbours of one core of which the first is unused.
fn take_from(group: &mut [Candidate], take: Take) -> Vec<u32> {
    let start = match take {
        Take::Single => group.iter().position(|candidate| !candidate.used),
        Take::Core => group
            .windows(2)
            .position(|pair| matches!(pair, [first, second] if !first.used && first.core == second.core)),
    };
    let chosen = start.map(|start| group.iter_mut().skip(start).take(take.size())).into_iter().flatten();
    chosen
        .map(|candidate| {
            candidate.used = true;
            candidate.cpu
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The machine of W2: core i/2, socket and NUMA node i/8.
    fn machine(count: u32) -> Vec<CpuInfo> {
        (0..count).map(|cpu| CpuInfo { cpu, core: cpu / 2, socket: cpu / 8, node: cpu / 8 }).collect()
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn topology(cpus: Vec<CpuInfo>, lsr: &str, excluded: &str) -> Topology {
        let all: CpuSet = cpus.iter().map(|info| info.cpu).collect();
        Topology { be_pool: all.difference(&set(excluded)), lsr: set(lsr), cpus, ..Topology::default() }
    }

    fn chosen(amount: i64, before: usize, topology: &Topology) -> String {
        choose_cpus(MilliCpu(amount), Some(before), topology).unwrap().cpus.to_string()
    }

    #[test]
    fn w2_whole_cores_are_spread_over_the_sockets() {
        let choice = choose_cpus(MilliCpu(4500), Some(4), &topology(machine(16), "0-1", "")).unwrap();
        assert_eq!(choice.cpus.to_string(), "2-3,8-10");
        assert_eq!((choice.wanted, choice.from_lsr, choice.limit), (5, 0, None));
    }

    #[test]
    fn after_a_round_without_whole_cores_single_cpus_begin_at_the_first_group() {
        // Node 0 has one whole core and a single CPU, node 1 two CPUs of different cores.
        let cpus = [(0, 0, 0), (1, 0, 0), (2, 1, 0), (10, 5, 1), (12, 6, 1)];
        let cpus = cpus.map(|(cpu, core, node)| CpuInfo { cpu, core, socket: node, node });
        assert_eq!(pick(5, &cpus), [0, 1, 2, 10, 12]);
    }

    #[test]
    fn w3_growth_is_limited_to_a_tenth_of_the_node() {
        let topology = topology(machine(16), "0-1", "");
        let mut before = 4;
        for (want, count) in [("2-3,8-11", 6), ("0,2-4,8-11", 8), ("0,2-5,8-11", 9), ("0,2-5,8-11", 9)] {
            assert_eq!(chosen(9000, before, &topology), want);
            before = count;
        }
    }

    #[test]
    fn w3_lsr_pods_give_their_share() {
        assert_eq!(chosen(6000, 16, &topology(machine(16), "0-7", "")), "0-2,8-10");
    }

    #[test]
    fn w3_too_few_cpus_are_all_taken() {
        assert_eq!(chosen(6000, 16, &topology(machine(16), "", "0-11")), "12-15");
    }

    #[test]
    fn w3_a_negative_amount_leaves_two_cpus() {
        assert_eq!(chosen(-3000, 16, &topology(machine(16), "", "")), "0-1");
        assert_eq!(chosen(i64::MIN, 16, &topology(machine(16), "", "")), "0-1");
    }

    #[test]
    fn w3_the_reference_case_of_two_sockets_of_four() {
        let cpus = (0..8).map(|cpu| CpuInfo { cpu, core: cpu / 2, socket: cpu / 4, node: cpu / 4 }).collect();
        assert_eq!(chosen(3000, 4, &topology(cpus, "0,6", "7")), "2-4");
    }

    #[test]
    fn c034_reserved_and_exclusive_cpus_are_never_chosen() {
        let choice = choose_cpus(MilliCpu(4000), Some(8), &topology(machine(8), "", "0,6-7")).unwrap();
        assert_eq!(choice.cpus.len(), 4);
        assert!(choice.cpus.is_subset(&set("1-5")), "{}", choice.cpus);
    }

    #[test]
    fn c112_a_third_of_the_allowed_cpus_gives_a_third() {
        // LSR 0-3, shared 4-11, LSE 12-13, reserved 14-15
        let topology = topology(machine(16), "0-3", "12-15");
        let choice = choose_cpus(MilliCpu(5000), Some(16), &topology).unwrap();
        assert_eq!((choice.cpus.len(), choice.from_lsr), (5, 1));
        assert_eq!(choice.cpus.intersection(&set("0-3")).len(), 1);
        assert!(choice.cpus.is_subset(&set("0-11")));
    }

    #[test]
    fn h02_no_allowed_cpu_is_no_choice() {
        assert_eq!(choose_cpus(MilliCpu(3000), Some(2), &topology(machine(2), "", "0-1")), None);
        assert_eq!(choose_cpus(MilliCpu(3000), None, &Topology::default()), None);
    }

    fn any_topology() -> impl Strategy<Value = Topology> {
        let sets =
            (prop::collection::btree_set(0u32..24, 0..24), prop::collection::btree_set(0u32..24, 0..24));
        (1u32..24, sets).prop_map(|(count, (lsr, excluded))| {
            let all: CpuSet = (0..count).collect();
            Topology {
                cpus: machine(count),
                be_pool: all.difference(&excluded.into_iter().collect()),
                lsr: lsr.into_iter().collect(),
                ..Topology::default()
            }
        })
    }

    proptest! {
        #[test]
        fn the_set_is_allowed_limited_and_as_large_as_can_be(
            topology in any_topology(),
            amount in -50_000i64..50_000,
            before in 0usize..30,
        ) {
            let amount = MilliCpu(amount);
            let Some(choice) = choose_cpus(amount, Some(before), &topology) else {
                prop_assert!(topology.be_pool.is_empty());
                return Ok(());
            };
            let step = topology.cpus.len().div_ceil(10);
            let want = wanted_cpus(amount).min((before + step).max(MIN_CPUS)).min(topology.be_pool.len());
            prop_assert!(choice.cpus.is_subset(&topology.be_pool));
            prop_assert_eq!(choice.cpus.len(), want);
            let lsr = choice.cpus.intersection(&topology.lsr).len();
            prop_assert_eq!(lsr, choice.from_lsr);
        }

        #[test]
        fn the_picker_gives_distinct_cpus_of_the_list(
            cpus in prop::collection::btree_map(0u32..40, (0u32..9, 0u32..3, 0u32..3), 0..40),
            count in 0usize..50,
        ) {
            let cpus: Vec<CpuInfo> = cpus
                .into_iter()
                .map(|(cpu, (core, socket, node))| CpuInfo { cpu, core, socket, node })
                .collect();
            let picked: CpuSet = pick(count, &cpus).into_iter().collect();
            prop_assert_eq!(picked.len(), count.min(cpus.len()));
            prop_assert!(picked.iter().all(|cpu| cpus.iter().any(|info| info.cpu == cpu)));
        }
    }
}
