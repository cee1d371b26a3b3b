//! Ordinary YAML and JSON files as a source of objects, design.md 5.

pub mod directory;
pub mod parse;
