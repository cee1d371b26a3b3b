//! The only room that changes the host: makes a plan true, in a safe order, reads back, remembers
//! originals, notices foreign writes.

pub mod backend;
pub mod diff;
pub mod ledger;
pub mod order;
pub mod watch;
