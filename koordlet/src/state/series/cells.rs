//! The values of one series: a fixed number of cells, empty or holding a value, in the precision of its kind.

use super::class::Precision;

/// A row of cells. Which cell belongs to which time is its table's business.
#[derive(Debug)]
pub(super) enum Cells {
    Exact(Box<[f64]>),
    Single(Box<[f32]>, f64),
}

impl Cells {
    /// `len` empty cells.
    pub(super) fn new(precision: Precision, len: usize) -> Self {
        match precision {
            Precision::Exact => Self::Exact(vec![f64::NAN; len].into()),
            Precision::Single { scale } => Self::Single(vec![f32::NAN; len].into(), scale),
        }
    }

    /// The value in a cell; `None` if it is empty or there is no such cell.
    pub(super) fn get(&self, at: usize) -> Option<f64> {
        let value = match self {
            Self::Exact(cells) => cells.get(at).copied()?,
            Self::Single(cells, scale) => f64::from(*cells.get(at)?) / scale,
        };
        (!value.is_nan()).then_some(value)
    }

    /// How many are full.
    pub(super) fn filled(&self) -> usize {
        match self {
            Self::Exact(cells) => cells.iter().filter(|cell| !cell.is_nan()).count(),
            Self::Single(cells, _) => cells.iter().filter(|cell| !cell.is_nan()).count(),
        }
    }

    /// Fills or, with `None`, empties a cell; true if it was full before.
    pub(super) fn set(&mut self, at: usize, value: Option<f64>) -> bool {
        let value = value.unwrap_or(f64::NAN);
        match self {
            Self::Exact(cells) => {
                cells.get_mut(at).is_some_and(|cell| !std::mem::replace(cell, value).is_nan())
            }
            Self::Single(cells, scale) => {
                let value = single(value, *scale);
                cells.get_mut(at).is_some_and(|cell| !std::mem::replace(cell, value).is_nan())
            }
        }
    }
}

impl Precision {
    /// Bytes of a cell.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Exact => size_of::<f64>(),
            Self::Single { .. } => size_of::<f32>(),
        }
    }

    /// What comes back of a value that was kept; `None` if it cannot be kept.
    pub(super) fn kept(self, value: f64) -> Option<f64> {
        let kept = match self {
            Self::Exact => value,
            Self::Single { scale } => f64::from(single(value, scale)) / scale,
        };
        kept.is_finite().then_some(kept)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to the nearest is the point; too large gives infinity"
)]
fn single(value: f64, scale: f64) -> f32 {
    (value * scale) as f32
}
