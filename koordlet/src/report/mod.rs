//! What leaves the agent: metrics, explanations.

pub mod admin;
pub mod http;
pub mod metrics;
