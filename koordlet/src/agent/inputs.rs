//! Series of the inputs: what the manifests hold and what is wrong with them.

use crate::manifests::directory::Updates;
use crate::report::metrics::{Family, Metrics};

/// Adds the series of the manifests directory.
pub(super) fn show(metrics: &Metrics, updates: &Updates) {
    let updates = updates.clone();
    metrics.add(move |page| {
        let Some(update) = updates.borrow().clone() else { return };
        page.family(Family::ManifestErrors, |series| series.count(&[], update.errors));
        page.family(Family::ManifestBadFiles, |series| series.count(&[], update.bad_files as u64));
    });
}
