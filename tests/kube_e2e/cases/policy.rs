//! What an admin says at the API server reaches the files of real pods, and taking it back gives them back.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kit::latency::Latencies;
use kit::names::{Class, Driver};
use kit::skip;
use serde_json::json;

use super::scene::{Follower, ONE_CPU, RATIO, Slo, agent_at, count, identity, quota_becomes, set_ratio};
use crate::lab::Lab;
use crate::lab::pods::PodOf;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    ("policy::an_annotation_reaches_the_quota_and_goes_with_it", an_annotation_reaches_the_quota),
    ("policy::edits_of_a_node_slo_reach_best_effort", edits_of_a_node_slo_reach_best_effort),
];

/// How often each edit is measured.
const EDITS: usize = 20;

/// By `kubectl annotate` as an admin types it, then many times by the API for the figures.
fn an_annotation_reaches_the_quota(lab: &Lab) -> Result<()> {
    let identity = identity(lab, "policy")?;
    let pod = Follower::run(lab, "follower")?;
    let agent = agent_at(lab, &identity, &lab.place.api_url())?;
    let mut running = agent.start()?;
    let node = lab.node();
    lab.kubectl(&["annotate", "node", &node, &format!("{RATIO}=1.25")])?;
    pod.quota_becomes(80_000, &running)?;
    lab.kubectl(&["annotate", "node", &node, &format!("{RATIO}-")])?;
    pod.quota_becomes(ONE_CPU, &running)?;

    let (mut set, mut removed) = (Latencies::default(), Latencies::default());
    for _ in 0..EDITS {
        let start = Instant::now();
        set_ratio(lab, Some("2.00"))?;
        set.push(pod.quota_becomes(50_000, &running)? - start);
        let start = Instant::now();
        set_ratio(lab, None)?;
        removed.push(pod.quota_becomes(ONE_CPU, &running)? - start);
    }
    skip::note(format_args!("request to annotate the node, to the quota in the file: {}", set.summary()));
    skip::note(format_args!("request to remove it, to the pod's own quota: {}", removed.summary()));
    let forbidden = count(&mut running, "koordlet_api_errors_total", &["reason=\"forbidden\""])?;
    ensure!(
        forbidden == 0,
        "the RBAC that is shipped does not allow {forbidden} requests:\n{}",
        running.log()
    );
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}

fn edits_of_a_node_slo_reach_best_effort(lab: &Lab) -> Result<()> {
    let identity = identity(lab, "slo")?;
    let agent = agent_at(lab, &identity, &lab.place.api_url())?;
    let running = agent.start()?;
    let strategy = |enable: bool| {
        json!({"resourceUsedThresholdWithBE": {
            "enable": enable, "cpuSuppressPolicy": "cfsQuota", "cpuSuppressThresholdPercent": 65,
        }})
    };
    let _hog = PodOf::name("hog").qos("BE").run(lab)?;
    let best_effort = format!("{}/{}", lab.tree.root(), Driver::Cgroupfs.class_dir(Class::BestEffort));
    let slo = Slo::create(lab, &lab.node(), &strategy(true))?;
    let log = || format!("the agent's log:\n{}", running.log());
    quota_becomes(lab, &best_effort, |quota| quota > 0).with_context(log)?;
    let (mut off, mut on) = (Latencies::default(), Latencies::default());
    for _ in 0..EDITS {
        let start = Instant::now();
        slo.patch(&strategy(false))?;
        off.push(quota_becomes(lab, &best_effort, |quota| quota == -1)? - start);
        let start = Instant::now();
        slo.patch(&strategy(true))?;
        on.push(quota_becomes(lab, &best_effort, |quota| quota > 0)? - start);
    }
    skip::note(format_args!("request to switch suppression off, to no quota: {}", off.summary()));
    skip::note(format_args!("request to switch it on, to a quota: {}", on.summary()));
    slo.patch(&strategy(false))?;
    quota_becomes(lab, &best_effort, |quota| quota == -1)?;
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}
