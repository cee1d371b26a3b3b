//! Time series of everything that is collected, in memory and bounded (collection.md 5).

pub mod metric;
