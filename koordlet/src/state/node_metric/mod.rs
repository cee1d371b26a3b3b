//! The NodeMetric report (collection.md 9): what the object's policy asks for, the status made of the series, what of
//! it has changed, and when the next one is due. Nothing here knows the API server.

pub mod build;
pub mod change;
pub mod pace;
pub mod policy;
