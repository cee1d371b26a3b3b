//! Series of the inputs: what the manifests hold and what is wrong with them.

use crate::manifests::ManifestUpdate;
use crate::manifests::directory::Updates;
use crate::report::metrics::{Live, LiveKind, Metrics, Sample};

/// Adds the series of the manifests directory.
pub(super) fn show(metrics: &Metrics, updates: &Updates) {
    let family = |name, help, kind, read: fn(&ManifestUpdate) -> u64| {
        let updates = updates.clone();
        let value = move || updates.borrow().as_deref().map(|update| Sample::plain(read(update) as f64));
        metrics.add(Live::new(name, help, kind, move || value().into_iter().collect()));
    };
    let help = "Errors in manifest files since the start";
    family("manifest_errors", help, LiveKind::Counter, |update| update.errors);
    let help = "Manifest files that are bad at present";
    family("manifest_bad_files", help, LiveKind::Gauge, |update| update.bad_files as u64);
}
