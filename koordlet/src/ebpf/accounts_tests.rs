//! The accounts against a model: what the files of the same tree would say.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).unwrap()
}

fn slot(number: u32, id: u64, nanos: u64) -> Slot {
    Slot { number, id, nanos }
}

fn total(accounts: &mut Accounts, path: &str) -> Option<Nanos> {
    accounts.reading(&dir(path)).map(|reading| reading.total)
}

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * SECOND)
}

#[test]
fn a_directory_has_the_time_of_all_beneath_it() {
    let mut accounts = Accounts::default();
    for (id, path) in
        [(1, "kubepods"), (2, "kubepods/pod1"), (3, "kubepods/pod1/c"), (4, "kubepods/pod1/c/system.slice")]
    {
        accounts.born(id, dir(path), at(0));
    }
    accounts.fold(&[slot(0, 3, 100), slot(1, 4, 20), slot(2, 2, 3)]);
    let total = |accounts: &mut Accounts, path: &str| total(accounts, path).map(|n| n.0);
    assert_eq!(total(&mut accounts, "kubepods/pod1/c"), Some(120));
    assert_eq!(total(&mut accounts, "kubepods"), Some(123));
    assert_eq!(total(&mut accounts, "kubepods/pod2"), None);
}

#[test]
fn a_dead_groups_time_moves_to_its_parent_once_and_its_slot_serves_another() {
    let mut accounts = Accounts::default();
    accounts.born(2, dir("kubepods/pod1"), at(0));
    accounts.born(3, dir("kubepods/pod1/a"), at(0));
    let pod = |accounts: &mut Accounts| total(accounts, "kubepods/pod1").map(|n| n.0);
    accounts.fold(&[slot(0, 3, 100)]);
    assert_eq!(pod(&mut accounts), Some(100));
    accounts.died(3, at(1));
    assert_eq!(total(&mut accounts, "kubepods/pod1/a"), None);
    accounts.fold(&[slot(0, 3, 110)]);
    assert_eq!(pod(&mut accounts), Some(110));
    assert!(accounts.to_forget(at(2), at(5)).is_empty());
    assert_eq!(accounts.to_forget(at(6), at(5)), [3]);
    accounts.forgotten(3, at(6));
    accounts.fold(&[slot(0, 3, 111)]);
    assert_eq!(accounts.to_bury(at(7), at(1)), [3]);
    assert_eq!(accounts.bury(3), [0]);
    assert!(accounts.bury(3).is_empty());
    accounts.fold(&[]);
    assert_eq!(pod(&mut accounts), Some(111));
    accounts.born(4, dir("kubepods/pod1/b"), at(8));
    accounts.fold(&[slot(0, 4, 5)]);
    assert_eq!(pod(&mut accounts), Some(116));
    assert_eq!(total(&mut accounts, "kubepods/pod1/b"), Some(Nanos(5)));
}

#[test]
fn a_path_made_again_is_another_group() {
    let mut accounts = Accounts::default();
    accounts.born(1, dir("kubepods"), at(0));
    accounts.born(2, dir("kubepods/static"), at(0));
    accounts.born(3, dir("kubepods/static/c"), at(0));
    accounts.fold(&[slot(0, 3, 70)]);
    // Neither death was heard of.
    accounts.born(5, dir("kubepods/static"), at(1));
    accounts.fold(&[slot(0, 3, 70), slot(1, 5, 1)]);
    assert_eq!(accounts.id(&dir("kubepods/static")), Some(5));
    assert_eq!(total(&mut accounts, "kubepods/static"), Some(Nanos(1)));
    assert_eq!(accounts.id(&dir("kubepods/static/c")), None);
    assert_eq!(total(&mut accounts, "kubepods"), Some(Nanos(71)));
    // The old pod waits for its container.
    assert_eq!(accounts.to_forget(at(9), at(5)), [3]);
}

#[test]
fn an_adopted_directory_continues_its_file_and_takes_its_children_over() {
    let mut accounts = Accounts::default();
    accounts.born(1, dir("kubepods"), at(0));
    accounts.born(3, dir("kubepods/pod1/c"), at(0));
    assert!(accounts.adopt(2, &dir("kubepods/pod1"), at(0)));
    assert!(!accounts.adopt(2, &dir("kubepods/pod1"), at(0)));
    accounts.fold(&[slot(0, 3, 50)]);
    accounts.set_base(2, 1_000);
    accounts.set_base(1, 9_000);
    accounts.fold(&[slot(0, 3, 60)]);
    assert_eq!(total(&mut accounts, "kubepods/pod1"), Some(Nanos(1_010)));
    assert_eq!(total(&mut accounts, "kubepods"), Some(Nanos(9_010)));
    assert_eq!(total(&mut accounts, "kubepods/pod1/c"), Some(Nanos(60)));
}

#[test]
fn a_corrected_base_never_steps_the_figure_back() {
    let mut accounts = Accounts::default();
    accounts.born(1, dir("kubepods"), at(0));
    accounts.fold(&[slot(0, 1, 500)]);
    assert_eq!(total(&mut accounts, "kubepods"), Some(Nanos(500)));
    accounts.set_base(1, 300);
    assert_eq!(accounts.figure(1), Some(300));
    assert_eq!(total(&mut accounts, "kubepods"), Some(Nanos(500)));
    accounts.fold(&[slot(0, 1, 900)]);
    assert_eq!(total(&mut accounts, "kubepods"), Some(Nanos(700)));
}

#[test]
fn a_birth_that_was_heard_of_is_told_from_a_group_that_was_found() {
    let mut accounts = Accounts::default();
    accounts.born(1, dir("kubepods"), at(3));
    accounts.adopt(2, &dir("kubepods/found"), at(4));
    let mut reading = |path: &str| accounts.reading(&dir(path)).map(|read| (read.identity, read.born));
    assert_eq!(reading("kubepods"), Some((Some(1), Some(at(3)))));
    assert_eq!(reading("kubepods/found"), Some((Some(2), None)));
    assert_eq!(reading("kubepods/other"), None);
}

#[test]
fn a_place_leads_to_a_live_group_and_never_to_another_directorys() {
    let mut accounts = Accounts::default();
    let mut place = CpuPlace::default();
    let mut id = |accounts: &mut Accounts| accounts.reading_at(&dir("pod"), &mut place)?.identity;
    assert_eq!(id(&mut accounts), None);
    accounts.born(1, dir("pod"), at(0));
    assert_eq!([id(&mut accounts), id(&mut accounts)], [Some(1); 2]);
    accounts.died(1, at(1));
    assert_eq!(id(&mut accounts), None, "its account waits for its burial");
    accounts.born(2, dir("pod"), at(1));
    assert_eq!(id(&mut accounts), Some(2));
    for gone in [1, 2] {
        accounts.died(gone, at(2));
        accounts.forgotten(gone, at(2));
        accounts.bury(gone);
    }
    accounts.born(3, dir("other"), at(3));
    accounts.born(4, dir("pod"), at(3));
    assert_eq!(id(&mut accounts), Some(4));
}

#[test]
fn an_unknown_owner_is_a_stranger_until_it_is_known_or_buried() {
    let mut accounts = Accounts::default();
    accounts.fold(&[slot(3, 77, 5), slot(4, 88, 6)]);
    assert_eq!(accounts.strangers(), [77, 88]);
    accounts.born(77, dir("late"), at(0));
    accounts.bury_stranger(88, at(0));
    accounts.fold(&[slot(3, 77, 5), slot(4, 88, 6)]);
    assert!(accounts.strangers().is_empty());
    assert_eq!(total(&mut accounts, "late"), Some(Nanos(5)));
    assert_eq!(accounts.to_forget(at(9), at(1)), [88]);
    accounts.forgotten(88, at(9));
    assert_eq!(accounts.bury(88), [4]);
}

/// A small kernel: groups in a tree, inclusive files, slots handed out at the first charge.
#[derive(Default)]
struct Model {
    next_id: u64,
    live: BTreeMap<String, u64>,
    files: BTreeMap<u64, u64>,
    slots: BTreeMap<u32, Slot>,
}

impl Model {
    fn charge(&mut self, path: &str, nanos: u64) {
        let Some(id) = self.live.get(path).copied() else { return };
        for (above, above_id) in &self.live {
            if dir(above).contains(&dir(path)) {
                *self.files.entry(*above_id).or_default() += nanos;
            }
        }
        if let Some(slot) = self.slots.values_mut().find(|slot| slot.id == id) {
            slot.nanos += nanos;
        } else {
            let number = (0..u32::MAX).find(|n| !self.slots.contains_key(n)).unwrap();
            self.slots.insert(number, slot(number, id, nanos));
        }
    }

    fn slots(&self) -> Vec<Slot> {
        self.slots.values().copied().collect()
    }
}

const PATHS: [&str; 7] = ["k", "k/p1", "k/p1/a", "k/p1/a/n", "k/p1/b", "k/p2", "k/p2/a"];

#[derive(Clone, Debug)]
enum Step {
    Make(usize),
    Remove(usize),
    Charge(usize, u64),
    Sample,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..PATHS.len()).prop_map(Step::Make),
        (0..PATHS.len()).prop_map(Step::Remove),
        ((0..PATHS.len()), 1..1000u64).prop_map(|(p, n)| Step::Charge(p, n)),
        Just(Step::Sample),
    ]
}

proptest! {
    /// Whatever happens, a live directory's figure is what its file says.
    #[test]
    fn figures_equal_the_files(steps in prop::collection::vec(step(), 1..120)) {
        let (mut model, mut accounts) = (Model { next_id: 10, ..Model::default() }, Accounts::default());
        for (now, step) in (0..).zip(steps) {
            let now = at(now);
            match step {
                Step::Make(p) => {
                    let path = PATHS[p];
                    let above = dir(path).parent();
                    let fits = above.is_none_or(|above| model.live.contains_key(above.as_str()));
                    if fits && !model.live.contains_key(path) {
                        model.next_id += 1;
                        model.live.insert(path.to_owned(), model.next_id);
                        accounts.born(model.next_id, dir(path), now);
                    }
                }
                Step::Remove(p) => {
                    let path = PATHS[p];
                    if !model.live.keys().any(|l| l != path && dir(path).contains(&dir(l)))
                        && let Some(id) = model.live.remove(path)
                    {
                        accounts.died(id, now);
                    }
                }
                Step::Charge(p, nanos) => model.charge(PATHS[p], nanos),
                Step::Sample => {
                    accounts.fold(&model.slots());
                    for id in accounts.to_forget(now, at(4)) {
                        accounts.forgotten(id, now);
                    }
                    for id in accounts.to_bury(now, at(2)) {
                        for number in accounts.bury(id) {
                            model.slots.remove(&number);
                        }
                    }
                    accounts.fold(&model.slots());
                    for (path, id) in &model.live {
                        let file = model.files.get(id).copied().unwrap_or(0);
                        prop_assert_eq!(total(&mut accounts, path), Some(Nanos(file)), "{}", path);
                    }
                }
            }
        }
    }
}
