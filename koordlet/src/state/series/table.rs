//! All series of one kind: a ring of times that they share, and a row of cells for each. Cell `i` of every row
//! belongs to time `i`; a series without a sample of that time has an empty cell.
//!
//! A collector appends all its series with one time, so a round takes one column. Rows are made at their full
//! length, so that appending to a known series allocates nothing.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::aggregates::Points;
use super::cells::Cells;
use super::class::Precision;
use super::key::Instance;
use super::settings::nanos;
use crate::units::Nanos;

/// A ring may grow to so many times its planned length where rounds come faster than planned.
const MOST_GROWTH: usize = 4;
/// Longer rings may take this part of all bytes, so that room for new series stays.
const GROWTH_PART: usize = 2;
/// A new series may take this part of all bytes, however long its window.
const FIRST_PART: usize = 256;
/// What a row takes beside its cells: itself and its entry in the index, both with the spare room of their
/// collections, and what the allocator adds.
const ROW_OVERHEAD: usize = 2 * (size_of::<Row>() + size_of::<(Instance, usize)>()) + 16;

/// Bytes in use, and how many may be.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) used: usize,
    pub(super) most: usize,
}

impl Budget {
    /// Takes bytes if no more than `most` are in use then.
    fn take(&mut self, bytes: usize, most: usize) -> bool {
        let fits = self.used.checked_add(bytes).is_some_and(|used| used <= most);
        if fits {
            self.used += bytes;
        }
        fits
    }

    fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

/// Why a sample was not taken, without the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Value,
    Older(Nanos),
    Conflict,
    Outdated,
    NoRoom,
}

#[derive(Debug)]
struct Row {
    instance: Instance,
    cells: Cells,
    newest: Nanos,
}

/// Where a row was found last, for the next time. Rows only move when others are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    row: usize,
    /// The table's `moves` then, and 1 more: a new place is nowhere.
    moves: u64,
}

/// The series of a kind.
#[derive(Debug)]
pub(super) struct Table {
    precision: Precision,
    interval: Nanos,
    window: Nanos,
    /// Cells of a row when all is as planned.
    planned: usize,
    /// Cells of a row; 0 before the first sample.
    capacity: usize,
    /// The cell of the oldest time.
    head: usize,
    /// Ascending.
    times: VecDeque<Nanos>,
    /// In order of birth.
    rows: Vec<Row>,
    index: HashMap<Instance, usize>,
    samples: usize,
    /// Times given up within the window, for want of room.
    cut_short: u64,
    /// How often rows have moved.
    moves: u64,
}

impl Table {
    /// A table without series; it takes no room yet.
    pub(super) fn new(precision: Precision, interval: Duration, window: Duration) -> Self {
        let planned = planned(interval, window);
        Self {
            precision,
            interval: nanos(interval),
            window: nanos(window),
            planned,
            capacity: 0,
            head: 0,
            times: VecDeque::new(),
            rows: Vec::new(),
            index: HashMap::new(),
            samples: 0,
            cut_short: 0,
            moves: 0,
        }
    }

    pub(super) fn series(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    pub(super) fn cut_short(&self) -> u64 {
        self.cut_short
    }

    /// Adds a sample. One that is there already, with the same value, is taken as well. `place` is the
    /// instance's own, and right afterwards.
    pub(super) fn append(
        &mut self,
        at: Nanos,
        instance: &Instance,
        place: &mut Place,
        value: f64,
        budget: &mut Budget,
    ) -> Result<(), Reason> {
        let kept = self.precision.kept(value).ok_or(Reason::Value)?;
        let here = self.moves + 1;
        let known = Some(place.row).filter(|_| place.moves == here);
        let known = known.or_else(|| self.index.get(instance).copied());
        if let Some(row) = known.and_then(|row| self.rows.get(row)) {
            match at.cmp(&row.newest) {
                Ordering::Less => return Err(Reason::Older(row.newest)),
                Ordering::Equal => return self.repeated(row, at, kept),
                Ordering::Greater => {}
            }
        }
        let column = self.column(at, budget)?;
        let row = match known {
            Some(row) => row,
            None => self.new_row(instance, budget).ok_or(Reason::NoRoom)?,
        };
        *place = Place { row, moves: here };
        let cell = self.cell(column);
        if let Some(row) = self.rows.get_mut(row) {
            row.newest = at;
            self.samples += usize::from(!row.cells.set(cell, Some(value)));
        }
        Ok(())
    }

    fn repeated(&self, row: &Row, at: Nanos, kept: f64) -> Result<(), Reason> {
        let column = self.times.binary_search(&at).map_err(|_| Reason::Outdated)?;
        let same = row.cells.get(self.cell(column)).is_some_and(|there| there.total_cmp(&kept).is_eq());
        if same { Ok(()) } else { Err(Reason::Conflict) }
    }

    /// Adds all samples from `from` to `to`, both included, of the series that match, oldest series first.
    pub(super) fn collect(
        &self,
        matches: impl Fn(&Instance) -> bool,
        (from, to): (Nanos, Nanos),
        points: &mut Points,
    ) {
        for row in self.rows.iter().filter(|row| matches(&row.instance)) {
            self.collect_row(row, (from, to), points);
        }
    }

    /// The same of one series.
    pub(super) fn collect_one(&self, instance: &Instance, range: (Nanos, Nanos), points: &mut Points) {
        if let Some(row) = self.row(instance) {
            self.collect_row(row, range, points);
        }
    }

    /// The newest sample of one series from `from` to `to`, both included.
    pub(super) fn newest(&self, instance: &Instance, (from, to): (Nanos, Nanos)) -> Option<(Nanos, f64)> {
        let row = self.row(instance)?;
        let until = self.times.partition_point(|time| *time <= to);
        let mut columns = (0..until).rev().map_while(|column| {
            let at = *self.times.get(column)?;
            (at >= from).then_some((column, at))
        });
        columns.find_map(|(column, at)| Some((at, row.cells.get(self.cell(column))?)))
    }

    fn row(&self, instance: &Instance) -> Option<&Row> {
        self.rows.get(*self.index.get(instance)?)
    }

    fn collect_row(&self, row: &Row, (from, to): (Nanos, Nanos), points: &mut Points) {
        let first = self.times.partition_point(|time| *time < from);
        let in_range = self.times.iter().enumerate().skip(first).take_while(|(_, time)| **time <= to);
        for (column, at) in in_range {
            if let Some(value) = row.cells.get(self.cell(column)) {
                points.push(*at, value);
            }
        }
    }

    /// Drops the series that `keep` does not want.
    pub(super) fn retain(&mut self, keep: impl Fn(&Instance) -> bool, budget: &mut Budget) {
        self.retain_rows(|row| keep(&row.instance), budget);
    }

    /// Drops the series without a sample in the window that ends at `now`.
    pub(super) fn expire(&mut self, now: Nanos, budget: &mut Budget) {
        let since = now - self.window;
        self.retain_rows(|row| row.newest >= since, budget);
    }

    /// Drops the series without a sample in the last `rounds` rounds. Time alone makes nothing idle: the whole agent
    /// may have been held up.
    pub(super) fn drop_idle(&mut self, rounds: usize, budget: &mut Budget) {
        let oldest = self.times.len().checked_sub(rounds).and_then(|column| self.times.get(column)).copied();
        if let Some(since) = oldest {
            self.retain_rows(|row| row.newest >= since, budget);
        }
    }

    fn retain_rows(&mut self, keep: impl Fn(&Row) -> bool, budget: &mut Budget) {
        let before = self.rows.len();
        let (index, samples) = (&mut self.index, &mut self.samples);
        self.rows.retain(|row| {
            let kept = keep(row);
            if !kept {
                index.remove(&row.instance);
                *samples -= row.cells.filled();
            }
            kept
        });
        let gone = before - self.rows.len();
        if gone == 0 {
            return;
        }
        self.moves += 1;
        for (place, row) in self.rows.iter().enumerate() {
            if let Some(entry) = self.index.get_mut(&row.instance) {
                *entry = place;
            }
        }
        budget.give_back(gone.saturating_mul(self.row_bytes(self.capacity)));
        if self.rows.len() < self.rows.capacity() / 2 {
            self.rows.shrink_to_fit();
            self.index.shrink_to_fit();
        }
        if self.rows.is_empty() {
            budget.give_back(times_bytes(self.capacity));
            self.times = VecDeque::new();
            self.head = 0;
        }
    }

    /// Keeps samples for `window` from now on, as far as there is room.
    pub(super) fn set_window(&mut self, window: Duration, budget: &mut Budget) {
        self.window = nanos(window);
        self.planned = planned(Duration::from_nanos(self.interval.0), window);
        if let Some(newest) = self.times.back().copied() {
            self.forget_before(newest - self.window);
        }
        let wanted = self.planned.max(self.times.len());
        if self.times.capacity() > 0 && wanted != self.capacity {
            self.resize(wanted, budget);
        }
    }

    fn new_row(&mut self, instance: &Instance, budget: &mut Budget) -> Option<usize> {
        if !budget.take(self.row_bytes(self.capacity), budget.most) {
            return None;
        }
        let place = self.rows.len();
        let cells = Cells::new(self.precision, self.capacity);
        self.index.insert(instance.clone(), place);
        self.rows.push(Row { instance: instance.clone(), cells, newest: Nanos(0) });
        Some(place)
    }

    /// The column of a time, made if there is none.
    fn column(&mut self, at: Nanos, budget: &mut Budget) -> Result<usize, Reason> {
        let Some(newest) = self.times.back().copied() else { return self.first_column(at, budget) };
        if at == newest {
            return Ok(self.times.len() - 1);
        }
        let oldest_kept = newest.max(at) - self.window;
        if at < oldest_kept {
            return Err(Reason::Outdated);
        }
        self.forget_before(oldest_kept);
        let place = match self.times.binary_search(&at) {
            Ok(place) => return Ok(place),
            Err(place) => place,
        };
        let place = self.make_room(place, budget)?;
        self.open(place, at);
        Ok(place)
    }

    fn first_column(&mut self, at: Nanos, budget: &mut Budget) -> Result<usize, Reason> {
        if self.times.capacity() == 0 {
            let most = budget.most / FIRST_PART / self.precision.width();
            let capacity = self.planned.min(most).max(1);
            if !budget.take(times_bytes(capacity), budget.most) {
                return Err(Reason::NoRoom);
            }
            self.capacity = capacity;
            self.times = VecDeque::with_capacity(capacity);
        }
        self.times.push_back(at);
        Ok(0)
    }

    /// Room for one more column at `place`: longer rows, else the oldest column goes. Gives the place then.
    fn make_room(&mut self, place: usize, budget: &mut Budget) -> Result<usize, Reason> {
        if self.times.len() < self.capacity {
            return Ok(place);
        }
        let longer = (self.capacity + self.capacity / 4 + 1).min(self.planned.saturating_mul(MOST_GROWTH));
        if longer > self.capacity && self.resize(longer, budget) {
            return Ok(place);
        }
        let place = place.checked_sub(1).ok_or(Reason::Outdated)?;
        self.forget_oldest();
        self.cut_short += 1;
        Ok(place)
    }

    /// Makes an empty column at `place`; there is room.
    fn open(&mut self, place: usize, at: Nanos) {
        let end = self.times.len();
        self.times.insert(place, at);
        for column in (place..end).rev() {
            let (from, to) = (self.cell(column), self.cell(column + 1));
            for row in &mut self.rows {
                let value = row.cells.get(from);
                row.cells.set(to, value);
                row.cells.set(from, None);
            }
        }
    }

    fn forget_before(&mut self, oldest: Nanos) {
        while self.times.front().is_some_and(|time| *time < oldest) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if self.times.pop_front().is_none() {
            return;
        }
        let cell = self.cell(0);
        for row in &mut self.rows {
            self.samples -= usize::from(row.cells.set(cell, None));
        }
        self.head = self.cell(1);
    }

    /// Moves everything to rows of `capacity` cells, at least as many as there are times; false without room.
    fn resize(&mut self, capacity: usize, budget: &mut Budget) -> bool {
        let rows = |capacity| self.rows.len().saturating_mul(self.row_bytes(capacity));
        let bytes = |capacity| times_bytes(capacity).saturating_add(rows(capacity));
        let (before, after) = (bytes(self.capacity), bytes(capacity));
        if after > before && !budget.take(after - before, budget.most / GROWTH_PART) {
            return false;
        }
        budget.give_back(before.saturating_sub(after));
        for row in &mut self.rows {
            let mut cells = Cells::new(self.precision, capacity);
            for column in 0..self.times.len() {
                cells.set(column, row.cells.get((self.head + column) % self.capacity.max(1)));
            }
            row.cells = cells;
        }
        let mut times = VecDeque::with_capacity(capacity);
        times.extend(&self.times);
        self.times = times;
        (self.head, self.capacity) = (0, capacity);
        true
    }

    fn cell(&self, column: usize) -> usize {
        (self.head + column) % self.capacity.max(1)
    }

    fn row_bytes(&self, capacity: usize) -> usize {
        capacity.saturating_mul(self.precision.width()).saturating_add(ROW_OVERHEAD)
    }
}

fn times_bytes(capacity: usize) -> usize {
    capacity.saturating_mul(size_of::<Nanos>())
}

/// Columns for a window at a pace: both ends, and two for rounds that come early.
fn planned(interval: Duration, window: Duration) -> usize {
    let rounds = window.as_nanos().div_ceil(interval.as_nanos().max(1));
    usize::try_from(rounds).unwrap_or(usize::MAX).saturating_add(3)
}
