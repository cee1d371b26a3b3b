//! Ordinary YAML and JSON files as a source of objects, design.md 5.
//!
//! `document` decodes bytes within bounds, `parse` turns a file into objects and errors that name file, line
//! and field, `merge` keeps the last good objects of each file and joins all files, `scan` reads what changed, `directory` follows it all in a
//! thread of its own (`inotify_watch` wakes it, `settle` says when a changed file may be read).

pub mod bounds;
pub mod directory;
pub mod document;
pub mod inotify_watch;
pub mod merge;
pub mod objects;
pub mod parse;
pub mod scan;
pub mod settle;

pub use merge::{ManifestUpdate, Objects};
pub use objects::{Located, ManifestError, Object};
