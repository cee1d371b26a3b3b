//! Time series of everything that is collected, in memory and bounded (collection.md 5).
//!
//! Each kind of series is a table: one ring of times for the kind, and for each series a row of values aligned
//! with it. A sample of a known series costs a look-up and one store, and no allocation. `shared` is the door.

pub mod aggregates;
pub mod class;
pub mod key;
pub mod metric;
pub mod placed;
pub mod refusal;
pub mod settings;
pub mod shared;

mod cells;
mod store;
mod table;
