//! Requests to the API server, and what it has told.

use super::exposition::Exposition;
use super::families::Family;
use crate::kube::kind::Kind;
use crate::kube::reason::Reason;
use crate::kube::stats::{ApiStats, Verb};

/// Series of `stats`; pairs that have never happened are left out.
pub(super) fn show(page: &mut Exposition<'_>, stats: &ApiStats) {
    page.family(Family::ApiRequests, |series| {
        for (kind, verb) in Kind::ALL.into_iter().flat_map(|kind| Verb::ALL.map(|verb| (kind, verb))) {
            let count = stats.requests(kind, verb);
            if count > 0 {
                series.count(&[kind.plural(), verb.name()], count);
            }
        }
    });
    page.family(Family::ApiErrors, |series| {
        for (kind, reason) in Kind::ALL.into_iter().flat_map(|kind| Reason::ALL.map(|reason| (kind, reason)))
        {
            let count = stats.errors(kind, reason);
            if count > 0 {
                series.count(&[kind.plural(), reason.name()], count);
            }
        }
    });
    let seen =
        || Kind::ALL.into_iter().map(|kind| (kind, stats.events(kind))).filter(|(_, (count, _))| *count > 0);
    page.family(Family::ApiObjectsSeen, |series| {
        seen().for_each(|(kind, (count, _))| series.count(&[kind.plural()], count));
    });
    page.family(Family::ApiLastSeen, |series| {
        for (kind, (_, age)) in seen() {
            series.value(&[kind.plural()], age.unwrap_or_default().as_secs_f64());
        }
    });
    page.family(Family::ApiTroubled, |series| {
        for kind in Kind::ALL.into_iter().filter(|kind| stats.trouble(*kind).is_some()) {
            series.count(&[kind.plural()], 1);
        }
    });
    page.family(Family::ApiConnects, |series| series.count(&[], stats.connects()));
    page.family(Family::ApiDroppedEvents, |series| series.count(&[], stats.dropped_events()));
}

#[cfg(test)]
mod tests {
    use super::super::exposition::{Format, Scope};
    use super::*;

    #[test]
    fn what_happened_is_shown_and_nothing_else() {
        let stats = ApiStats::default();
        stats.connected();
        stats.request(Kind::Node, Verb::List);
        stats.error(Kind::NodeSlo, Reason::Forbidden);
        stats.event(Kind::Node);
        stats.set_trouble(Kind::NodeSlo, Some("cannot watch".to_owned()));
        let mut page = Exposition::new(Format::Classic, Scope::Internal, "n1", 0);
        show(&mut page, &stats);
        let text = page.finish();
        for line in [
            "koordlet_api_requests_total{node=\"n1\",resource=\"nodes\",verb=\"list\"} 1\n",
            "koordlet_api_errors_total{node=\"n1\",resource=\"nodeslos\",reason=\"forbidden\"} 1\n",
            "koordlet_api_objects_seen_total{node=\"n1\",resource=\"nodes\"} 1\n",
            "koordlet_api_troubled{node=\"n1\",resource=\"nodeslos\"} 1\n",
            "koordlet_api_connects_total{node=\"n1\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(
            !text.contains("configmaps") && text.contains("koordlet_api_last_seen_age_seconds{"),
            "{text}"
        );
    }
}
