//! A kubelet that is slow, or answers half a list: what is known stays in force, memory stays as it is, and the first good
//! answer is caught up with.

use std::time::Duration;

use anyhow::{Result, ensure};
use kit::kubelet::Manner;
use kit::{skip, until};

use super::scene::{PATIENCE, count, count_becomes, rss_kib};
use super::stand_in::{NATIVE, SCALED, StandIn, pod};
use crate::lab::Lab;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[("chaos::a_bad_kubelet_is_survived", a_bad_kubelet_is_survived)];

const FAILURES: &str = "koordlet_kubelet_failures_total";
/// Pods of the node.
const PODS: usize = 200;
/// Failures to wait for, of each kind.
const TIMES: u64 = 3;
/// What an agent's memory may differ by, in KiB: the page it answers with, a list being read.
pub(super) const SLACK_KIB: u64 = 6 << 10;

fn a_bad_kubelet_is_survived(lab: &Lab) -> Result<()> {
    let mut node = StandIn::new(lab, "standin-chaos")?;
    node.register()?;
    for number in 0..PODS {
        node.make_dirs(&pod(number))?;
        node.tell(&pod(number));
    }
    let agent = node.agent()?.flag("kubelet-sync-interval", "1s").flag("kubelet-sync-timeout", "500ms");
    let mut running = agent.start()?;
    for number in 0..PODS {
        node.wait_scaled(&pod(number), &running)?;
    }
    let known = node.tree.pod_dirs(&pod(0)).container("app");
    let chaos = [
        (Manner::Slow(Duration::from_secs(30)), "reason=\"timeout\""),
        (Manner::HalfJson, "reason=\"content\""),
        (Manner::BreaksOff, "reason=\"body\""),
        (Manner::Status(503), "reason=\"status\""),
    ];
    for (next, (manner, reason)) in (PODS..).zip(chaos) {
        let before = (rss_kib(running.pid())?, count(&mut running, FAILURES, &[reason])?);
        node.kubelet.set_manner(manner);
        let failures = count_becomes(&mut running, FAILURES, &[reason], |now| now >= before.1 + TIMES)?;
        // Somebody else writes meanwhile, and it is put right.
        node.tree.set_cfs_quota(&known, NATIVE)?;
        let repaired = until(PATIENCE, || node.tree.cfs_quota(&known).is_ok_and(|quota| quota == SCALED));
        ensure!(repaired, "{manner:?}: a foreign write stays; the agent's log:\n{}", running.log());
        let born = pod(next);
        node.make_dirs(&born)?;
        node.tell(&born);
        node.kubelet.set_manner(Manner::Right);
        node.wait_scaled(&born, &running)?;
        let after = rss_kib(running.pid())?;
        skip::note(format_args!(
            "{manner:?}: {} failures counted, a foreign write repaired, a new pod's value held afterwards; RSS {} KiB, \
             then {after} KiB",
            failures - before.1,
            before.0
        ));
        ensure!(after <= before.0 + SLACK_KIB, "{manner:?}: RSS grew from {} to {after} KiB", before.0);
    }
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}
