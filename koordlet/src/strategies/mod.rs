//! QoS strategies: what the load asks for right now. Pure: `step(inputs, state, now) -> (claims, state)`.

pub mod cpu_burst;
pub mod cpu_suppress;
pub mod strategy;
