//! Rule plugins: from target and parsed rule to claims. Pure. One function each, for the reconciler, the
//! callbacks and the hook server alike.

pub mod batch_resource;
pub mod cpu_normalization;
