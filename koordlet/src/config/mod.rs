//! Flags, gates and how they resolve to one immutable configuration.

pub mod flags;
pub mod gates;
pub mod resolve;
