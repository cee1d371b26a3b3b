//! All tables, under one bound on bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::aggregates::Points;
use super::class::Scope;
use super::key::{Instance, SeriesKey};
use super::metric::{Metric, Property};
use super::placed::PlacedSeries;
use super::refusal::{QueryError, Refusal};
use super::settings::SeriesSettings;
use super::shared::SeriesStats;
use super::table::{Budget, Place, Reason, Table};
use crate::units::Nanos;

/// Rounds without a sample after which a series gives its room to a new one, if there is no other.
const IDLE_ROUNDS: usize = 10;

/// The series.
#[derive(Debug)]
pub(super) struct SeriesStore {
    settings: SeriesSettings,
    tables: BTreeMap<Metric, Table>,
    budget: Budget,
    wishes: BTreeMap<(&'static str, Scope), Duration>,
    refused: u64,
    last_refusal: Option<Refusal>,
}

impl SeriesStore {
    pub(super) fn new(settings: SeriesSettings) -> Self {
        let budget = Budget { used: 0, most: settings.byte_bound() };
        Self {
            settings,
            tables: BTreeMap::new(),
            budget,
            wishes: BTreeMap::new(),
            refused: 0,
            last_refusal: None,
        }
    }

    /// Adds a batch; gives how many samples were refused.
    pub(super) fn append(&mut self, at: Nanos, samples: impl IntoIterator<Item = (SeriesKey, f64)>) -> usize {
        let mut refused = 0;
        let mut swept = false;
        for (key, value) in samples {
            let taken = self.append_one(at, &key, &mut Place::default(), value, &mut swept);
            refused += self.note(taken);
        }
        refused
    }

    /// Adds a batch to series that remember their places.
    pub(super) fn append_placed<'a>(
        &mut self,
        at: Nanos,
        samples: impl IntoIterator<Item = (&'a mut PlacedSeries, f64)>,
    ) -> usize {
        let mut refused = 0;
        let mut swept = false;
        for (PlacedSeries { key, place }, value) in samples {
            let taken = self.append_one(at, key, place, value, &mut swept);
            refused += self.note(taken);
        }
        refused
    }

    /// 1 if it was refused.
    fn note(&mut self, taken: Result<(), Refusal>) -> usize {
        let Err(refusal) = taken else { return 0 };
        self.last_refusal = Some(refusal);
        self.refused += 1;
        1
    }

    fn append_one(
        &mut self,
        at: Nanos,
        key: &SeriesKey,
        place: &mut Place,
        value: f64,
        swept: &mut bool,
    ) -> Result<(), Refusal> {
        if !key.is_complete() {
            return Err(Refusal::Properties { key: key.clone() });
        }
        let mut taken = self.try_append(at, key, place, value);
        if taken == Err(Reason::NoRoom) && !*swept {
            // Once a batch: else a store that stays full would be searched for each new series.
            *swept = true;
            for table in self.tables.values_mut() {
                table.drop_idle(IDLE_ROUNDS, &mut self.budget);
            }
            taken = self.try_append(at, key, place, value);
        }
        let key = || key.clone();
        taken.map_err(|reason| match reason {
            Reason::Value => Refusal::Value { key: key(), value },
            Reason::Older(newest) => Refusal::Older { key: key(), at, newest },
            Reason::Conflict => Refusal::Conflict { key: key(), at, value },
            Reason::Outdated => Refusal::Outdated { key: key(), at },
            Reason::NoRoom => Refusal::NoRoom { key: key(), used: self.budget.used, most: self.budget.most },
        })
    }

    fn try_append(
        &mut self,
        at: Nanos,
        key: &SeriesKey,
        place: &mut Place,
        value: f64,
    ) -> Result<(), Reason> {
        let metric = key.metric();
        let (settings, wishes) = (&self.settings, &self.wishes);
        let table = self.tables.entry(metric).or_insert_with(|| {
            let window = settings.window(metric, longest_wish(wishes, metric.scope()));
            Table::new(metric.precision(), settings.interval(metric), window)
        });
        table.append(at, key.instance(), place, value, &mut self.budget)
    }

    /// Collects the samples of all series of a kind whose properties have these values.
    pub(super) fn collect(
        &self,
        metric: Metric,
        matching: &[(Property, &str)],
        range: (Nanos, Nanos),
    ) -> Result<Points, QueryError> {
        let known = metric.properties();
        if let Some((property, _)) = matching.iter().find(|(property, _)| !known.contains(property)) {
            return Err(QueryError::Property { metric, property: *property });
        }
        let mut points = Points::default();
        if let Some(table) = self.tables.get(&metric) {
            let has = |instance: &Instance| {
                matching.iter().all(|(property, value)| instance.value(*property).as_deref() == Some(*value))
            };
            table.collect(has, range, &mut points);
        }
        Ok(points)
    }

    pub(super) fn collect_one(&self, key: &SeriesKey, range: (Nanos, Nanos)) -> Points {
        let mut points = Points::default();
        if let Some(table) = self.tables.get(&key.metric()) {
            table.collect_one(key.instance(), range, &mut points);
        }
        points
    }

    pub(super) fn newest(&self, key: &SeriesKey, range: (Nanos, Nanos)) -> Option<(Nanos, f64)> {
        self.tables.get(&key.metric())?.newest(key.instance(), range)
    }

    pub(super) fn retire(&mut self, keep: impl Fn(&SeriesKey) -> bool) {
        for (metric, table) in &mut self.tables {
            table.retain(|instance| keep(&SeriesKey::new(*metric, instance.clone())), &mut self.budget);
        }
    }

    pub(super) fn expire(&mut self, now: Nanos) {
        for table in self.tables.values_mut() {
            table.expire(now, &mut self.budget);
        }
    }

    /// Notes how long `asker` wants the samples of a scope, in place of what it wanted before.
    pub(super) fn keep(&mut self, asker: &'static str, scope: Scope, window: Duration) {
        let before = longest_wish(&self.wishes, scope);
        self.wishes.insert((asker, scope), window);
        let longest = longest_wish(&self.wishes, scope);
        if longest == before {
            return;
        }
        for (metric, table) in self.tables.iter_mut().filter(|(metric, _)| metric.scope() == scope) {
            table.set_window(self.settings.window(*metric, longest), &mut self.budget);
        }
    }

    pub(super) fn stats(&self) -> SeriesStats {
        SeriesStats {
            series: self.tables.values().map(Table::series).sum(),
            samples: self.tables.values().map(Table::samples).sum(),
            bytes: self.budget.used,
            refused: self.refused,
            cut_short: self.tables.values().map(Table::cut_short).sum(),
        }
    }

    pub(super) fn last_refusal(&self) -> Option<Refusal> {
        self.last_refusal.clone()
    }
}

fn longest_wish(wishes: &BTreeMap<(&'static str, Scope), Duration>, scope: Scope) -> Duration {
    let of_scope = wishes.iter().filter(|((_, asked), _)| *asked == scope);
    of_scope.map(|(_, window)| *window).max().unwrap_or_default()
}
