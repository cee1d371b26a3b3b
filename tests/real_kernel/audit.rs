//! The audit log of the real agent: each value that it has written is an event on `/events`, also after a restart
//! and after `kill -9`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use kit::agent::{Agent, RunningAgent};
use kit::http;
use kit::manifest::{Manifests, NODE, NodeManifest};
use kit::{Tree, need, offers, until_value};
use serde_json::Value;

use crate::enforce::{limited_ls_pod, quota_becomes};

/// An LS pod of three cores whose quota a ratio lowers.
struct Rig {
    tree: Tree,
    manifests: Manifests,
    app: String,
    log: tempfile::TempDir,
}

impl Rig {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let (pod, dirs) = limited_ls_pod(&tree, "web", 3)?;
        manifests.write("pod", &pod)?;
        let rig = Self { tree, manifests, app: dirs.container("app"), log: tempfile::tempdir()? };
        rig.ratio("1.5")?;
        Ok(rig)
    }

    fn ratio(&self, ratio: &str) -> Result<()> {
        self.manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio(ratio))
    }

    fn agent(&self) -> Result<Agent> {
        let gates = "CPUNormalization=true,AuditEvents=true,AuditEventsHTTPHandler=true";
        let agent = Agent::of(&self.tree, &self.manifests)?.flag("feature-gates", gates);
        Ok(agent.flag("audit-log-dir", self.log.path().join("log")))
    }

    /// What an event says of a quota of the container.
    fn update(&self, quota: &str) -> String {
        format!("update {} to {quota}", self.tree.cfs_quota_file(&self.app).display())
    }

    /// A quota in the words of this host's cgroup version.
    fn quota(&self, quota: i64) -> String {
        if self.tree.is_v2() { format!("{quota} 100000") } else { quota.to_string() }
    }
}

/// All events, the newest first, by pages of `size`.
fn events(address: SocketAddr, size: usize) -> Result<Vec<Value>> {
    let (mut events, mut path) = (Vec::new(), format!("/events?size={size}"));
    loop {
        let answer = http::request(address, "GET", &path, &[])?;
        let token = answer.header("next-page-token").map(str::to_owned);
        let http::Answer { status, body, .. } = answer;
        anyhow::ensure!(status == 200, "{path}: {status}: {body}");
        for line in body.lines() {
            events.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
        }
        match token.context("no token")? {
            token if token.is_empty() => return Ok(events),
            token => path = format!("/events?size={size}&pageToken={token}"),
        }
    }
}

fn message(event: &Value) -> &str {
    event["message"].as_str().unwrap_or_default()
}

/// Waits until an event with this message is the newest one of its file.
fn appears(running: &mut RunningAgent<'_>, wanted: &str) -> Result<Value> {
    let address = running.address()?;
    let find = || events(address, 256).ok()?.into_iter().find(|event| message(event) == wanted);
    let found = until_value(kit::patience(), find, Option::is_some);
    found.with_context(|| format!("no event {wanted:?}: {:?}\n{}", events(address, 256), running.log()))
}

/// Waits until the container has this quota and an event says so; gives the event's message and the event.
fn held_and_told(rig: &Rig, running: &mut RunningAgent<'_>, quota: i64) -> Result<(String, Value)> {
    quota_becomes(&rig.tree, &rig.app, quota)?;
    let message = rig.update(&rig.quota(quota));
    let event = appears(running, &message)?;
    Ok((message, event))
}

#[test]
fn each_write_is_an_event_and_old_ones_are_there_after_a_restart() -> Result<()> {
    need!(offers::cgroups());
    let rig = Rig::new()?;
    let agent = rig.agent()?;
    let mut running = agent.start()?;
    let (first, event) = held_and_told(&rig, &mut running, 200_000)?;
    assert_eq!((&event["reason"], &event["type"]), (&"UpdateCgroups".into(), &"pod".into()), "{event}");
    assert_eq!((&event["name"], &event["owner"]), (&"web".into(), &"CPU normalization".into()), "{event}");
    assert!(event["why"].as_str().is_some_and(|why| why.contains("1.5")), "{event}");
    assert_eq!(event["was"], Value::from(rig.quota(300_000)), "{event}");
    assert!(event["createdAt"].as_str().is_some_and(|at| at.len() >= 27), "{event}");

    rig.ratio("2")?;
    let (second, _) = held_and_told(&rig, &mut running, 150_000)?;
    // By pages of one event; others may come between the two looks.
    let counts = || {
        let written = running.metric("koordlet_audit_written_events_total").ok()?;
        Some((events(running.address().ok()?, 1).ok()?.len().to_string(), written.to_string()))
    };
    let agree = |seen: &Option<(String, String)>| seen.as_ref().is_some_and(|(pages, of)| pages == of);
    let seen = until_value(kit::patience(), counts, agree);
    assert!(agree(&seen), "{seen:?}");
    assert!(running.stop()?.success());

    let mut running = agent.start()?;
    let after = events(running.address()?, 100)?;
    let wanted: Vec<&str> = [&second, &first].map(String::as_str).into();
    let kept: Vec<&str> = after.iter().map(message).filter(|text| wanted.contains(text)).collect();
    assert_eq!(kept, wanted, "{after:?}");
    for (query, status) in [
        ("size=-1", 400),
        ("size=99999999999999999999", 400),
        ("size=%zz", 400),
        ("pageToken=x", 409),
        ("", 200),
    ] {
        assert_eq!(http::get(running.address()?, &format!("/events?{query}"))?.0, status, "{query}");
    }
    assert!(running.stop()?.success());
    Ok(())
}

#[test]
fn kill_9_and_a_cut_line_lose_no_event_that_was_in_the_file() -> Result<()> {
    need!(offers::cgroups());
    let rig = Rig::new()?;
    let agent = rig.agent()?;
    let mut running = agent.start()?;
    let (first, _) = held_and_told(&rig, &mut running, 200_000)?;
    running.kill_9();
    let path = rig.log.path().join("log/audit.log");
    cut_last_line(&path)?;
    rig.ratio("2")?;
    let mut running = agent.start()?;
    held_and_told(&rig, &mut running, 150_000)?;
    appears(&mut running, &first)?;
    // The directory goes; the log comes back with the next event, and the agent does not care.
    fs::remove_dir_all(rig.log.path().join("log"))?;
    rig.ratio("3")?;
    appears(&mut running, &rig.update(&rig.quota(100_000)))?;
    assert!(running.stop()?.success());
    Ok(())
}

/// A beginning of an event, as a crash leaves it.
fn cut_last_line(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path)?;
    assert!(text.ends_with('\n'), "{text}");
    Ok(fs::OpenOptions::new().append(true).open(path).and_then(|mut file| {
        use std::io::Write as _;
        file.write_all(b"{\"createdAt\":\"2026")
    })?)
}

#[test]
fn a_log_that_cannot_be_written_is_told_once_and_stops_nothing() -> Result<()> {
    need!(offers::cgroups());
    let rig = Rig::new()?;
    drop(fs::File::options().create_new(true).write(true).open(rig.log.path().join("log"))?);
    let agent = rig.agent()?;
    let mut running = agent.start()?;
    quota_becomes(&rig.tree, &rig.app, 200_000)?;
    assert_eq!(http::get(running.address()?, "/readyz")?.0, 200);
    let told = running.log().matches("the audit log cannot be written").count();
    assert_eq!(told, 1, "{}", running.log());
    assert!(running.metric("koordlet_audit_failed_writes_total")? >= 1.0);
    assert!(running.stop()?.success());
    Ok(())
}
