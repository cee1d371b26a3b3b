//! The API server away, its watches cut, its history gone, the agent's token expired: what is known stays in force, memory
//! stays as it is, and what was missed is caught up with, without a restart.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kit::agent::RunningAgent;
use kit::{skip, until};
use serde_json::json;

use super::kubelet_chaos::SLACK_KIB;
use super::scene::{
    Follower, LONG, ONE_CPU, PATIENCE, Slo, agent_at, count, count_becomes, identity, rss_kib, set_ratio,
};
use crate::lab::Lab;
use crate::lab::identity::Identity;
use crate::lab::wire::{Wire, api_server};
use crate::suite::{Case, Length};

pub(super) const CASES: &[Case] = &[
    ("chaos::the_api_server_is_killed", the_api_server_is_killed),
    ("chaos::watches_end_every_second", watches_end_every_second),
    ("chaos::history_is_gone_on_resume", history_is_gone_on_resume),
    ("chaos::the_token_expires", the_token_expires),
];

const ERRORS: &str = "koordlet_api_errors_total";
const TROUBLED: &str = "koordlet_api_troubled";
const REQUESTS: &str = "koordlet_api_requests_total";

/// A pod in force, and memory as it was.
struct Watched<'a> {
    lab: &'a Lab,
    pod: Follower<'a>,
    rss: u64,
}

impl<'a> Watched<'a> {
    /// The node's ratio is 2 from now on, and in force.
    fn new(lab: &'a Lab, pod: Follower<'a>, running: &RunningAgent<'_>) -> Result<Self> {
        set_ratio(lab, Some("2.00"))?;
        pod.quota_becomes(50_000, running)?;
        Ok(Self { lab, pod, rss: rss_kib(running.pid())? })
    }

    /// Somebody else writes the quota, and it is put right. Not often: a third time within a minute is an argument,
    /// in which the agent takes its time (design.md 4).
    fn is_enforced(&self, running: &RunningAgent<'_>) -> Result<()> {
        self.lab.tree.set_cfs_quota(self.pod.container(), ONE_CPU)?;
        self.pod.quota_becomes(50_000, running).map(drop)
    }

    /// The ratio is another one now; memory is as it was. Says so.
    fn catches_up(self, running: &mut RunningAgent<'_>, since: Instant, what: &str) -> Result<()> {
        self.pod.quota_becomes(80_000, running)?;
        let took = since.elapsed();
        count_becomes(running, TROUBLED, &[], |now| now == 0)?;
        let rss = rss_kib(running.pid())?;
        skip::note(format_args!(
            "{what}: caught up with {took:.1?} later, nothing troubled; RSS {} KiB, then {rss} KiB",
            self.rss
        ));
        ensure!(rss <= self.rss + SLACK_KIB, "{what}: RSS grew from {} to {rss} KiB", self.rss);
        set_ratio(self.lab, None)?;
        self.pod.quota_becomes(ONE_CPU, running).map(drop)
    }
}

fn stopped(running: RunningAgent<'_>) -> Result<()> {
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}

fn the_api_server_is_killed(lab: &Lab) -> Result<()> {
    let away = Duration::from_secs(if lab.length == Length::Full { 120 } else { 20 });
    let identity = identity(lab, "away")?;
    let agent = agent_at(lab, &identity, &lab.place.api_url())?;
    let pod = Follower::run(lab, "away")?;
    let mut running = agent.start()?;
    let watched = Watched::new(lab, pod, &running)?;
    let before = count(&mut running, ERRORS, &[])?;
    lab.control_plane().kill_api();
    let end = Instant::now() + away;
    count_becomes(&mut running, TROUBLED, &["resource=\"nodes\""], |now| now == 1)?;
    watched.is_enforced(&running)?;
    sleep(end.saturating_duration_since(Instant::now()));
    watched.is_enforced(&running)?;
    let errors = count(&mut running, ERRORS, &[])? - before;
    skip::note(format_args!(
        "API server away for {away:?}: 2 foreign writes repaired meanwhile, {errors} failures counted"
    ));
    ensure!(errors > 0, "no failure was counted");
    restart_api(lab)?;
    set_ratio(lab, Some("1.25"))?;
    watched.catches_up(&mut running, Instant::now(), "API server back")?;
    stopped(running)
}

fn restart_api(lab: &Lab) -> Result<()> {
    lab.control_plane().start_api(&lab.place)?;
    let plane = lab.control_plane();
    lab.admin.wait_ready(&plane)
}

/// While objects change: no change is lost, and what is asked does not grow into a storm.
fn watches_end_every_second(lab: &Lab) -> Result<()> {
    let seconds = if lab.length == Length::Full { 120 } else { 20 };
    let identity = identity(lab, "cut")?;
    let wire = Wire::to(api_server(lab.place.address))?;
    let agent = agent_at(lab, &identity, &format!("https://{}", wire.address()))?;
    let pod = Follower::run(lab, "cut")?;
    let mut running = agent.start()?;
    let watched = Watched::new(lab, pod, &running)?;
    let before = (count(&mut running, REQUESTS, &[])?, wire.connections());
    for _ in 0..seconds {
        wire.cut();
        sleep(Duration::from_secs(1));
    }
    watched.is_enforced(&running)?;
    wire.cut();
    let requests = count(&mut running, REQUESTS, &[])? - before.0;
    skip::note(format_args!(
        "connections cut {seconds} times: {requests} requests, {} connections",
        wire.connections() - before.1
    ));
    // Five kinds are watched; each end of a watch may cost a watch and a list.
    let most = seconds * 5 * 3;
    ensure!(requests > 0 && requests <= most, "{requests} requests in {seconds} s");
    set_ratio(lab, Some("1.25"))?;
    watched.catches_up(&mut running, Instant::now(), "watches cut every second")?;
    stopped(running)
}

/// The agent is away while the node and the policy change, etcd forgets what was, and the API server starts anew.
fn history_is_gone_on_resume(lab: &Lab) -> Result<()> {
    let identity = identity(lab, "gone")?;
    let wire = Wire::to(api_server(lab.place.address))?;
    let agent = agent_at(lab, &identity, &format!("https://{}", wire.address()))?;
    let pod = Follower::run(lab, "gone")?;
    let slo = Slo::create(lab, &lab.node(), &json!({"resourceUsedThresholdWithBE": {"enable": false}}))?;
    let mut running = agent.start()?;
    let watched = Watched::new(lab, pod, &running)?;
    let gone = |running: &mut RunningAgent<'_>| count(running, ERRORS, &["reason=\"gone\""]);
    let before = gone(&mut running)?;
    wire.close();
    for step in 0..20 {
        slo.patch(&json!({"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 40 + step}}))?;
    }
    set_ratio(lab, Some("1.25"))?;
    let revision = lab.control_plane().compact()?;
    lab.control_plane().kill_api();
    restart_api(lab)?;
    watched.is_enforced(&running)?;
    wire.open();
    let since = Instant::now();
    let after = until(PATIENCE, || gone(&mut running).is_ok_and(|now| now > before));
    skip::note(format_args!(
        "etcd compacted at {revision}: {} watches answered with 410",
        gone(&mut running)? - before
    ));
    ensure!(after, "no watch met 410; the agent's log:\n{}", running.log());
    watched.catches_up(&mut running, since, "after 410")?;
    stopped(running)
}

fn the_token_expires(lab: &Lab) -> Result<()> {
    let identity = Identity::shipped(lab, "expired")?;
    let wire = Wire::to(api_server(lab.place.address))?;
    let agent = agent_at(lab, &identity, &format!("https://{}", wire.address()))?;
    let pod = Follower::run(lab, "expired")?;
    let good = Duration::from_secs(30);
    identity.renew(good)?;
    let expires = Instant::now() + good;
    let mut running = agent.start()?;
    let watched = Watched::new(lab, pod, &running)?;
    // The API server remembers for ten seconds whom it knew.
    sleep(expires.saturating_duration_since(Instant::now()) + Duration::from_secs(12));
    // A watch that is under way stays; the next one has to show the token.
    let reason = ["reason=\"unauthorized\""];
    let before = count(&mut running, ERRORS, &reason)?;
    wire.cut();
    let refused = count_becomes(&mut running, ERRORS, &reason, |now| now > before)? - before;
    watched.is_enforced(&running)?;
    set_ratio(lab, Some("1.25"))?;
    skip::note(format_args!("token expired: {refused} requests refused so far, enforcement goes on"));
    identity.renew(LONG)?;
    watched.catches_up(&mut running, Instant::now(), "token renewed")?;
    stopped(running)
}
