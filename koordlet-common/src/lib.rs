//! What the eBPF programs and the agent agree on: records, map layouts, loss reasons, names.
//!
//! Built for both sides: `no_std`, no dependency, no unsafe code. Records cross the border as bytes, and
//! [`record`] decodes them without trusting them.

#![no_std]

pub mod layout;
pub mod loss;
pub mod names;
pub mod record;
