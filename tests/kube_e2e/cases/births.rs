//! From the directory of a pod to its values, with 200 pods on the node: one request to the kubelet and one update for
//! each birth and each death, five requests a second at most in a burst, none before the Node is known.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kit::agent::{Agent, RunningAgent};
use kit::latency::Latencies;
use kit::{offers, skip};

use super::scene::{PATIENCE, count, count_becomes};
use super::stand_in::{StandIn, first, most_in_a_second, pod};
use crate::lab::Lab;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    ("births::with_ebpf", with_ebpf),
    ("births::with_files_alone", with_files_alone),
    ("births::nothing_is_asked_before_the_node_is_known", nothing_is_asked_before_the_node_is_known),
];

/// Pods of the node.
const PODS: usize = 200;
/// Births and deaths that are measured one by one.
const SINGLE: usize = 20;
/// Lists that changed something.
const CHANGED: &[&str] = &["result=\"changed\""];
const SYNCS: &str = "koordlet_kubelet_syncs_total";

fn with_ebpf(lab: &Lab) -> Result<()> {
    if let Err(reason) = offers::ebpf() {
        skip!("{reason}");
    }
    births(lab, "standin-ebpf", "required")
}

fn with_files_alone(lab: &Lab) -> Result<()> {
    births(lab, "standin-files", "off")
}

fn births(lab: &Lab, name: &str, ebpf: &str) -> Result<()> {
    let mut node = StandIn::new(lab, name)?;
    node.register()?;
    for number in 0..PODS {
        node.make_dirs(&pod(number))?;
        node.tell(&pod(number));
    }
    // Regular lists would hide who asked.
    let agent = node.agent()?.flag("ebpf", ebpf).flag("kubelet-sync-interval", "1h");
    let mut running = agent.start()?;
    for number in 0..PODS {
        node.wait_scaled(&pod(number), &running)?;
    }
    one_by_one(&mut node, &mut running, ebpf)?;
    burst(&mut node, &mut running, ebpf)?;
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}

/// Each birth and each death is awaited before the next.
fn one_by_one(node: &mut StandIn<'_>, running: &mut RunningAgent<'_>, ebpf: &str) -> Result<()> {
    let (mut asked, mut held) = (Latencies::default(), Latencies::default());
    let (mut birth_requests, mut death_requests) = (Vec::new(), Vec::new());
    for number in PODS..PODS + SINGLE {
        let pod = pod(number);
        let updates = count(running, SYNCS, CHANGED)?;
        node.tell(&pod);
        let start = Instant::now();
        node.make_dirs(&pod)?;
        held.push(node.wait_scaled(&pod, running)? - start);
        count_becomes(running, SYNCS, CHANGED, |now| now == updates + 1)?;
        settle();
        let requests = node.requests_since(start);
        asked.push(first(&requests)? - start);
        birth_requests.push(requests.len());

        node.forget(pod.uid());
        let start = Instant::now();
        node.tree.remove(&node.tree.pod_dirs(&pod).pod)?;
        count_becomes(running, SYNCS, CHANGED, |now| now == updates + 2)?;
        settle();
        death_requests.push(node.requests_since(start).len());
        let now = count(running, SYNCS, CHANGED)?;
        ensure!(now == updates + 2, "{} updates for a birth and a death", now - updates);
    }
    skip::note(format_args!("ebpf={ebpf}, {PODS} pods: mkdir of a pod to the request: {}", asked.summary()));
    skip::note(format_args!("ebpf={ebpf}: mkdir of a pod to its container's value held: {}", held.summary()));
    skip::note(format_args!("ebpf={ebpf}: requests for each of {SINGLE} births: {birth_requests:?}"));
    skip::note(format_args!("ebpf={ebpf}: requests for each of {SINGLE} deaths: {death_requests:?}"));
    ensure!(birth_requests.iter().all(|count| *count == 1), "births: {birth_requests:?}");
    ensure!(death_requests.iter().all(|count| *count == 1), "deaths: {death_requests:?}");
    Ok(())
}

/// What should not come has a moment to come; a container whose status has not come is asked for after 1.2 s.
fn settle() {
    std::thread::sleep(Duration::from_millis(1500));
}

fn burst(node: &mut StandIn<'_>, running: &mut RunningAgent<'_>, ebpf: &str) -> Result<()> {
    let start = Instant::now();
    let numbers = PODS + SINGLE..2 * PODS + SINGLE;
    for number in numbers.clone() {
        node.tell(&pod(number));
        node.make_dirs(&pod(number))?;
    }
    let made = start.elapsed();
    for number in numbers {
        node.wait_scaled(&pod(number), running)?;
    }
    let all = start.elapsed();
    settle();
    let requests = node.requests_since(start);
    let most = most_in_a_second(&requests);
    skip::note(format_args!(
        "ebpf={ebpf}: burst of {PODS} pods: made in {made:.1?}, all values held after {all:.1?}, {} requests, at most \
         {most} in any second",
        requests.len()
    ));
    // Both ends of a second may be early or late on the way from the agent: one more may arrive in it than was sent.
    ensure!(most <= 6, "{most} requests arrived within a second");
    let seconds = usize::try_from(start.elapsed().as_secs())? + 1;
    ensure!(requests.len() <= 5 * seconds, "{} requests in {seconds} s", requests.len());
    Ok(())
}

fn nothing_is_asked_before_the_node_is_known(lab: &Lab) -> Result<()> {
    let mut node = StandIn::new(lab, "standin-unknown")?;
    let agent = node.agent()?;
    let running = agent.spawn()?;
    let pod = pod(0);
    node.tell(&pod);
    watches_nodes(&agent)?;
    node.make_dirs(&pod)?;
    settle();
    ensure!(node.kubelet.connections() == 0, "the kubelet was asked {} times", node.kubelet.requests());
    node.register()?;
    node.wait_scaled(&pod, &running)?;
    skip::note(format_args!(
        "before the Node: no connection to the kubelet; after it: {}",
        node.kubelet.requests()
    ));
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}

/// Waits until the agent is as far as it gets without a Node.
fn watches_nodes(agent: &Agent) -> Result<()> {
    let log = || std::fs::read_to_string(agent.log_path()).unwrap_or_default();
    ensure!(kit::until(PATIENCE, || log().contains("listening")), "{}", log());
    settle();
    Ok(())
}
