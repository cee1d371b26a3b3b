//! What leaves the agent: metrics, health, explanations.
//!
//! `metrics` holds the series, `http` answers `/metrics` and the health paths on TCP, `admin` answers
//! `explain` and `restore` on a socket of the run directory, `server` runs both. Nothing here decides
//! anything, and no answer waits for a scrape or the other way round.

pub mod admin;
pub mod connections;
pub mod explanation;
pub mod http;
pub mod metrics;
pub mod server;

use std::error::Error;

/// An error with its causes, as whoever handles it prints it: once.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
