//! Whether a built file is newer than everything that it is built from.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// True when `output` exists and nothing beneath `sources` (files or folders) was changed after it.
pub(crate) fn is_up_to_date(output: &Path, sources: &[&Path]) -> bool {
    let Some(built) = changed(output) else { return false };
    sources.iter().all(|source| newest(source).is_some_and(|time| time <= built))
}

fn newest(path: &Path) -> Option<SystemTime> {
    let own = changed(path)?;
    let Ok(entries) = fs::read_dir(path) else { return Some(own) };
    let inner = entries.flatten().filter(|entry| entry.file_name() != "target");
    Some(inner.filter_map(|entry| newest(&entry.path())).fold(own, SystemTime::max))
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}
