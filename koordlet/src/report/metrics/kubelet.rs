//! Requests to the kubelet: the reference's histogram, and own counters.

use std::sync::atomic::Ordering;

use super::exposition::Exposition;
use super::families::Family;
use crate::kube::kubelet_stats::KubeletStats;

pub(super) fn show(page: &mut Exposition<'_>, stats: &KubeletStats) {
    page.family(Family::KubeletRequestDuration, |series| {
        for (path, code, times) in stats.answers() {
            series.histogram(&[&code.to_string(), path, "get"], times.sum, &times.buckets());
        }
    });
    page.family(Family::KubeletSyncs, |series| {
        stats.syncs().for_each(|(result, count)| series.count(&[result], count));
    });
    page.family(Family::KubeletFailures, |series| {
        stats.failures().for_each(|(reason, count)| series.count(&[reason], count));
    });
    page.family(Family::KubeletTriggers, |series| {
        stats.triggers().into_iter().for_each(|(kind, count)| series.count(&[kind], count));
    });
    let plain = [
        (Family::KubeletRefusedPods, &stats.refused_pods),
        (Family::KubeletRenewedCredentials, &stats.renewed),
    ];
    for (family, count) in plain {
        page.family(family, |series| series.count(&[], count.load(Ordering::Relaxed)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::metrics::{Format, Scope};

    #[test]
    fn the_references_histogram_has_its_labels_and_no_node() {
        let stats = KubeletStats::default();
        stats.answered("/pods/", 200, Duration::from_millis(3));
        let mut page = Exposition::new(Format::Classic, Scope::Internal, "n1", 0);
        show(&mut page, &stats);
        let text = page.finish();
        let name = "koordlet_kubelet_request_duration_seconds";
        for line in [
            "_bucket{code=\"200\",path=\"/pods/\",verb=\"get\",le=\"0.001\"} 0\n",
            "_bucket{code=\"200\",path=\"/pods/\",verb=\"get\",le=\"4.096\"} 1\n",
            "_count{code=\"200\",path=\"/pods/\",verb=\"get\"} 1\n",
        ] {
            assert!(text.contains(&format!("{name}{line}")), "{text}");
        }
        assert!(text.contains("koordlet_kubelet_syncs_total{node=\"n1\",result=\"failed\"} 0\n"));
    }
}
