//! CPU suppression, qos.md 5.1.

pub mod amount;
pub mod choose;
pub mod quota;
