//! One measured figure beside what it is compared with and its budget.

use serde::Serialize;

/// A row of the bench's table and of `target/bench.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// What was measured, unique in the table.
    pub(crate) name: String,
    /// The figure.
    pub(crate) value: f64,
    /// Its unit, e.g. `us`, `MiB`, `millicores`.
    pub(crate) unit: &'static str,
    /// What it is compared with, in the same unit and measured in the same run.
    pub(crate) baseline: Option<f64>,
    /// How many times smaller the value is than the baseline.
    pub(crate) ratio: Option<f64>,
    /// The budget: an upper bound of the value, or a lower bound of the ratio.
    pub(crate) budget: Option<f64>,
    /// Whether the budget is met; `None` when there is none.
    pub(crate) met: Option<bool>,
}

impl Row {
    /// A figure without comparison or budget.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, baseline: None, ratio: None, budget: None, met: None }
    }

    /// Beside another way to do the same, measured in the same run.
    #[must_use]
    pub(crate) fn against(mut self, baseline: f64) -> Self {
        self.baseline = Some(baseline);
        self.ratio = (self.value > 0.0).then(|| baseline / self.value);
        self
    }

    /// The value must not exceed `limit`.
    #[must_use]
    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        self.budget = Some(limit);
        self.met = Some(self.value <= limit);
        self
    }

    /// The value must be `times` smaller than the baseline given before.
    #[must_use]
    pub(crate) fn times_faster(mut self, times: f64) -> Self {
        self.budget = Some(times);
        self.met = Some(self.ratio.is_some_and(|ratio| ratio >= times));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_bound_the_value_or_the_ratio() {
        assert_eq!(Row::new("a", 4.0, "us").at_most(5.0).met, Some(true));
        assert_eq!(Row::new("a", 6.0, "us").at_most(5.0).met, Some(false));
        let row = Row::new("a", 10.0, "us").against(2000.0).times_faster(100.0);
        assert_eq!((row.ratio, row.met), (Some(200.0), Some(true)));
        assert_eq!(Row::new("a", 10.0, "us").times_faster(100.0).met, Some(false), "nothing to compare with");
    }
}
