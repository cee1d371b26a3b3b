//! What leaves the agent: metrics, health, explanations.
//!
//! `metrics` holds the series, `http` answers `/metrics` and the health paths on TCP, `admin` answers
//! `explain` and `restore` on a socket of the run directory, `server` runs both;
//! `shared_page` bounds what readers of series cost. `audit` keeps the trail of changes,
//! `checkpoints` what was learnt of use. Nothing here decides
//! anything, and no answer waits for a scrape or the other way round.

pub mod admin;
pub mod audit;
pub mod checkpoints;
pub mod connections;
pub mod explanation;
pub mod http;
pub mod metrics;
pub mod server;
pub mod shared_page;

pub use crate::error_chain::chain;
