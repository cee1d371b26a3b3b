//! The NodeMetric report (collection.md 9): what the object's policy asks for, the status made of the series, and when
//! the next one is due. Nothing here knows the API server.

pub mod build;
pub mod pace;
pub mod policy;
