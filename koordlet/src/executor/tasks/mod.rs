//! Attributes of tasks: which processes a directory has, and what each of them is to have.

pub mod cookies;
