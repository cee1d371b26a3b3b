//! CPU time of every cgroup, kept through births, deaths and reuse of slots. Pure: no map, no file, no clock.
//!
//! The kernel's program charges the group of the running task alone, while a directory's figure includes all
//! beneath it: the accounts form the same tree and add up. A figure has two parts: what was *counted* since the
//! programs were attached, and the *base*, which is what the directory's file said at adoption beyond that.
//! A dead group stays in the tree until its slot is given back; then its counted time moves to its parent, once.

use std::collections::HashMap;

use super::slots::Slot;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::path_hash::PathHash;
use crate::state::usage::{CpuPlace, CpuReading};
use crate::units::Nanos;

/// All accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    nodes: Vec<Option<Node>>,
    by_id: HashMap<u64, usize>,
    /// Live ones only: a path may be reused while its former owner is being buried.
    by_dir: HashMap<CgroupDir, usize, PathHash>,
    /// Slot number -> (owner, its account), as of the last fold.
    by_slot: Vec<(u64, Option<usize>)>,
    /// Deepest first; empty when it has to be made anew.
    order: Vec<usize>,
    /// Owners of slots that have no account, as of the last fold.
    strangers: Vec<u64>,
}

#[derive(Debug)]
struct Node {
    id: u64,
    dir: Option<CgroupDir>,
    depth: usize,
    parent: Option<usize>,
    children: usize,
    state: State,
    /// Counted time of groups beneath it that are gone.
    buried: u64,
    /// Charged to the group itself, `buried`, and all beneath.
    counted: u64,
    base: i128,
    /// The greatest figure given out: it never steps back.
    shown: u64,
    /// The figure comes from the directory's file: its pod has groups that the map has no room for.
    by_file: bool,
    file: u64,
    /// When its birth was heard of; `None` if it was found in the tree.
    born: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    Dead {
        since: Nanos,
    },
    /// Out of the hash; its slot may be cleared once no program can still hold it.
    Forgotten {
        since: Nanos,
    },
}

impl Accounts {
    /// Opens the account of a group made while its birth could be seen: all its time is counted.
    pub fn born(&mut self, id: u64, dir: CgroupDir, now: Nanos) {
        if !self.by_id.contains_key(&id) {
            let index = self.open(id, dir, now);
            if let Some(node) = self.node_mut(index) {
                node.born = Some(now);
            }
        }
    }

    /// Opens the account of a group that was found in the tree. The caller sets its base next. False if it has
    /// one already.
    pub fn adopt(&mut self, id: u64, dir: &CgroupDir, now: Nanos) -> bool {
        if self.by_id.contains_key(&id) {
            return false;
        }
        let index = self.open(id, dir.clone(), now);
        let parent = self.node(index).and_then(|node| node.parent);
        // Groups beneath it that were known before it.
        let beneath: Vec<usize> = self
            .live()
            .filter(|(i, node, inner)| *i != index && node.parent == parent && dir.contains(inner))
            .map(|(i, ..)| i)
            .collect();
        for child in beneath {
            self.link(child, Some(index));
        }
        true
    }

    /// The group is gone. Its path may be used by another from now on.
    pub fn died(&mut self, id: u64, now: Nanos) {
        let Some(index) = self.by_id.get(&id).copied() else { return };
        let Some(node) = self.node_mut(index) else { return };
        if node.state != State::Live {
            return;
        }
        node.state = State::Dead { since: now };
        if let Some(dir) = node.dir.clone()
            && self.by_dir.get(&dir) == Some(&index)
        {
            self.by_dir.remove(&dir);
        }
    }

    /// A slot's owner is no group of the tree: its last task was charged after its burial. Buries it again.
    pub fn bury_stranger(&mut self, id: u64, now: Nanos) {
        if !self.by_id.contains_key(&id) {
            let index = self.insert(Node::new(id, None, State::Dead { since: now }));
            self.by_id.insert(id, index);
            self.forget_strangers();
        }
    }

    /// Takes over what the slots hold, and adds up the tree.
    pub fn fold(&mut self, slots: &[Slot]) {
        for node in self.nodes.iter_mut().flatten() {
            node.counted = node.buried;
        }
        self.strangers.clear();
        for slot in slots {
            match self.owner(slot) {
                Some(index) => {
                    if let Some(node) = self.node_mut(index) {
                        node.counted = node.counted.saturating_add(slot.nanos);
                    }
                }
                None => self.strangers.push(slot.id),
            }
        }
        self.add_up();
    }

    /// Sets the base so that the figure is `file` now. The figures must have been folded just before.
    pub fn set_base(&mut self, id: u64, file: u64) {
        if let Some(node) = self.by_id.get(&id).copied().and_then(|index| self.node_mut(index)) {
            node.base = i128::from(file) - i128::from(node.counted);
        }
    }

    /// What a live directory used, greatest figure so far, and which group it is.
    pub fn reading(&mut self, dir: &CgroupDir) -> Option<CpuReading> {
        self.reading_at(dir, &mut CpuPlace::default())
    }

    /// The same, first where the directory was found last. A live group's directory and account stay what they
    /// are, and no id comes twice.
    pub fn reading_at(&mut self, dir: &CgroupDir, place: &mut CpuPlace) -> Option<CpuReading> {
        let there = self.node(place.index).filter(|node| node.id == place.id && node.state == State::Live);
        if there.is_none() {
            place.index = self.by_dir.get(dir).copied()?;
        }
        let node = self.node_mut(place.index)?;
        place.id = node.id;
        node.shown = node.shown.max(node.figure());
        Some(CpuReading { total: Nanos(node.shown), identity: Some(node.id), born: node.born })
    }

    /// The present figure from base and counted time alone, without the floor.
    pub fn figure(&self, id: u64) -> Option<u64> {
        self.by_id.get(&id).and_then(|index| self.node(*index)).map(Node::computed)
    }

    /// Cgroup id of a live directory.
    pub fn id(&self, dir: &CgroupDir) -> Option<u64> {
        self.by_dir.get(dir).and_then(|index| self.node(*index)).map(|node| node.id)
    }

    /// Each live group.
    pub fn live_groups(&self) -> impl Iterator<Item = (u64, &CgroupDir)> {
        self.live().map(|(_, node, dir)| (node.id, dir))
    }

    /// Whether the group's figure comes from its file.
    pub fn is_by_file(&self, dir: &CgroupDir) -> bool {
        self.by_dir.get(dir).and_then(|index| self.node(*index)).is_some_and(|node| node.by_file)
    }

    /// Puts live directories on files (or back). Going back, the caller sets their bases.
    pub fn set_by_file(&mut self, dirs: &[CgroupDir], by_file: bool) {
        for dir in dirs {
            if let Some(node) = self.by_dir.get(dir).copied().and_then(|index| self.node_mut(index)) {
                node.by_file = by_file;
            }
        }
    }

    /// Sets what the file of a directory on files says.
    pub fn set_file(&mut self, dir: &CgroupDir, file: u64) {
        if let Some(node) = self.by_dir.get(dir).copied().and_then(|index| self.node_mut(index)) {
            node.file = file;
        }
    }

    /// Owners of slots that have no account.
    pub fn strangers(&self) -> &[u64] {
        &self.strangers
    }

    /// Dead groups whose grace period is over: to be taken out of the hash now, then marked with
    /// [`forgotten`](Self::forgotten). A group waits for all beneath it.
    pub fn to_forget(&self, now: Nanos, grace: Nanos) -> Vec<u64> {
        self.past(now, grace, |state| match state {
            State::Dead { since } => Some(since),
            State::Live | State::Forgotten { .. } => None,
        })
    }

    /// The group's id is out of the hash.
    pub fn forgotten(&mut self, id: u64, now: Nanos) {
        if let Some(node) = self.by_id.get(&id).copied().and_then(|index| self.node_mut(index)) {
            node.state = State::Forgotten { since: now };
        }
    }

    /// Forgotten groups that no program can still hold: [`bury`](Self::bury) them.
    pub fn to_bury(&self, now: Nanos, grace: Nanos) -> Vec<u64> {
        self.past(now, grace, |state| match state {
            State::Forgotten { since } => Some(since),
            State::Live | State::Dead { .. } => None,
        })
    }

    /// Closes a forgotten group's account: its counted time moves to its parent, once. Gives the slots that it
    /// held at the last fold, which are to be released.
    pub fn bury(&mut self, id: u64) -> Vec<u32> {
        let Some(index) = self.by_id.remove(&id) else { return Vec::new() };
        if let Some(node) = self.nodes.get_mut(index).and_then(Option::take)
            && let Some(parent) = node.parent.and_then(|parent| self.node_mut(parent))
        {
            parent.buried = parent.buried.saturating_add(node.counted);
            parent.children = parent.children.saturating_sub(1);
        }
        self.order.clear();
        let mut slots = Vec::new();
        for (number, entry) in (0..).zip(&mut self.by_slot) {
            if entry.0 == id {
                *entry = (0, None);
                slots.push(number);
            }
        }
        slots
    }

    fn open(&mut self, id: u64, dir: CgroupDir, now: Nanos) -> usize {
        // Its path is free, whether we heard of the former owner's death or not.
        let former = self.by_dir.get(&dir).and_then(|index| self.node(*index)).map(|node| node.id);
        if let Some(former) = former {
            let beneath = self.live().filter(|(_, _, inner)| dir.contains(inner)).map(|(_, node, _)| node.id);
            for id in beneath.chain([former]).collect::<Vec<_>>() {
                self.died(id, now);
            }
        }
        let parent = std::iter::successors(dir.parent(), CgroupDir::parent)
            .find_map(|above| self.by_dir.get(&above).copied());
        let index = self.insert(Node::new(id, Some(dir.clone()), State::Live));
        self.by_id.insert(id, index);
        self.by_dir.insert(dir, index);
        self.link(index, parent);
        self.forget_strangers();
        index
    }

    fn insert(&mut self, node: Node) -> usize {
        self.order.clear();
        let vacant = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        match self.nodes.get_mut(vacant) {
            Some(place) => *place = Some(node),
            None => self.nodes.push(Some(node)),
        }
        vacant
    }

    fn link(&mut self, child: usize, parent: Option<usize>) {
        let Some(node) = self.node_mut(child) else { return };
        let former = std::mem::replace(&mut node.parent, parent);
        if let Some(node) = former.and_then(|former| self.node_mut(former)) {
            node.children = node.children.saturating_sub(1);
        }
        if let Some(node) = parent.and_then(|parent| self.node_mut(parent)) {
            node.children += 1;
        }
    }

    /// Slots of unknown owners are looked up again at the next fold.
    fn forget_strangers(&mut self) {
        for entry in &mut self.by_slot {
            if entry.1.is_none() {
                *entry = (0, None);
            }
        }
    }

    fn owner(&mut self, slot: &Slot) -> Option<usize> {
        let number = slot.number as usize;
        if self.by_slot.len() <= number {
            self.by_slot.resize(number + 1, (0, None));
        }
        let known = self.by_slot.get(number).copied().unwrap_or_default();
        if known.0 == slot.id {
            return known.1;
        }
        let index = self.by_id.get(&slot.id).copied();
        if let Some(entry) = self.by_slot.get_mut(number) {
            *entry = (slot.id, index);
        }
        index
    }

    fn add_up(&mut self) {
        if self.order.is_empty() {
            let mut order: Vec<(usize, usize)> = self
                .nodes
                .iter()
                .enumerate()
                .filter_map(|(index, node)| Some((node.as_ref()?.depth, index)))
                .collect();
            order.sort_unstable_by(|a, b| b.cmp(a));
            self.order = order.into_iter().map(|(_, index)| index).collect();
        }
        for at in 0..self.order.len() {
            let Some(node) = self.order.get(at).and_then(|index| self.node(*index)) else { continue };
            let (counted, parent) = (node.counted, node.parent);
            if let Some(parent) = parent.and_then(|parent| self.node_mut(parent)) {
                parent.counted = parent.counted.saturating_add(counted);
            }
        }
    }

    fn past(&self, now: Nanos, grace: Nanos, since: impl Fn(State) -> Option<Nanos>) -> Vec<u64> {
        let mut ripe: Vec<&Node> = self
            .nodes
            .iter()
            .flatten()
            .filter(|node| node.children == 0 && since(node.state).is_some_and(|since| now - since >= grace))
            .collect();
        ripe.sort_unstable_by_key(|node| std::cmp::Reverse(node.depth));
        ripe.into_iter().map(|node| node.id).collect()
    }

    fn live(&self) -> impl Iterator<Item = (usize, &Node, &CgroupDir)> {
        self.by_dir.iter().filter_map(|(dir, index)| Some((*index, self.node(*index)?, dir)))
    }

    fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)?.as_ref()
    }

    fn node_mut(&mut self, index: usize) -> Option<&mut Node> {
        self.nodes.get_mut(index)?.as_mut()
    }
}

impl Node {
    fn new(id: u64, dir: Option<CgroupDir>, state: State) -> Self {
        Self {
            id,
            depth: dir.as_ref().map_or(0, CgroupDir::depth),
            dir,
            parent: None,
            children: 0,
            state,
            buried: 0,
            counted: 0,
            base: 0,
            shown: 0,
            by_file: false,
            file: 0,
            born: None,
        }
    }

    fn figure(&self) -> u64 {
        if self.by_file { self.file } else { self.computed() }
    }

    fn computed(&self) -> u64 {
        u64::try_from((self.base + i128::from(self.counted)).max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
