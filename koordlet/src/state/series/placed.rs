//! A series that its writer keeps at hand: its key, and where it was found last.

use super::key::SeriesKey;
use super::table::Place;

/// One series of a writer that adds to it round after round.
#[derive(Clone, Debug)]
pub struct PlacedSeries {
    pub(super) key: SeriesKey,
    pub(super) place: Place,
}

impl PlacedSeries {
    /// A series that has not been looked for yet.
    pub fn new(key: SeriesKey) -> Self {
        Self { key, place: Place::default() }
    }

    /// Which series it is.
    pub fn key(&self) -> &SeriesKey {
        &self.key
    }
}
