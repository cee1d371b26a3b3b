//! One worked report of the reference: the same host, Node, policy and pods, and what this agent reports of them to an
//! API server. Everything but figures that are measured must be equal.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::{Timestamp, ToSpan as _};
use kit::{StandInApiServer, StandInKubelet};
use koordlet::api::quantity::Quantity;
use serde_json::{Value, json};

use crate::made_up_host::MadeUpHost;
use crate::scene::{METRICS, NODE, NODES, SLOS, TOPOLOGIES};

const TOKEN: &str = "secret";
/// Reports before one is looked at: at the first, data spans less than half of the window.
const REPORTS: usize = 2;
/// Longest wait for them; the interval is 30 s.
const PATIENCE: Duration = Duration::from_mins(3);

/// A document of the recorded run.
fn recorded(name: &str) -> Result<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/reports").join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

#[test]
fn the_worked_report_of_the_reference_comes_out() -> Result<()> {
    let recorded_host = recorded("host.json")?;
    let host = MadeUpHost::recorded(&recorded_host)?;
    let kubelet = StandInKubelet::start(TOKEN)?;
    kubelet.set_config(&recorded_host["configz"]);
    kubelet.set_list(pods()?.to_string());
    let server = StandInApiServer::start(TOKEN)?;
    server.create(NODES, &node(&kubelet)?)?;
    server.create(SLOS, &recorded("nodeslo.json")?)?;
    let metric = recorded("nodemetric.json")?;
    server.create(METRICS, &without_status(&metric))?;

    let agent = host
        .agent(&server.kubeconfig()?, NODE)?
        .flag("proc-root-dir", host.path("proc"))
        .flag("sys-root-dir", host.path("sys"))
        .flag("kubelet-ca-file", kubelet.ca_file())
        // What is the same all the time is learnt in one round; the report must not come before it.
        .flag("prediction-training-interval", "10s");
    let running = agent.spawn()?;
    let is_report = |what: &str| what.ends_with("nodemetrics/node-1/status");
    let reported = kit::until(PATIENCE, || {
        server.written().iter().filter(|write| is_report(&write.what)).count() >= REPORTS
    });
    ensure!(reported, "no {REPORTS} reports within {PATIENCE:?}:\n{}", running.log());

    let mut differences = Differences::default();
    let ours = server.get(METRICS, NODE).context("the NodeMetric")?;
    let at = ours["status"]["updateTime"].as_str().unwrap_or_default();
    ensure!(at.parse::<Timestamp>().is_ok() && at.len() == 20, "updateTime: {at}");
    differences.compare("status", &ours["status"], &metric["status"]);
    ensure!(ours["spec"] == metric["spec"], "the spec is not ours to change");
    let ours = server.get(TOPOLOGIES, NODE).with_context(|| format!("no topology:\n{}", running.log()))?;
    differences.compare(
        "topology",
        &with_parsed_annotations(ours),
        &with_parsed_annotations(recorded("nrt.json")?),
    );
    ensure!(differences.0.is_empty(), "{}", differences.0.join("\n"));
    Ok(())
}

/// More than a day old, as they were in the recorded run, so that what was learnt of them counts.
fn pods() -> Result<Value> {
    let mut list = recorded("pods.json")?;
    let born = Timestamp::now().checked_sub(25.hours())?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for pod in list["items"].as_array_mut().context("pods")? {
        pod["metadata"]["creationTimestamp"] = json!(born);
    }
    Ok(list)
}

/// The Node, whose kubelet has another port.
fn node(kubelet: &StandInKubelet) -> Result<Value> {
    let mut node = recorded("node.json")?;
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = json!(kubelet.address().port());
    Ok(node)
}

fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("status");
    object
}

/// Annotations hold JSON, whose spelling is free; versions and the UID are the server's.
fn with_parsed_annotations(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("uid");
    metadata.remove("resourceVersion");
    for annotation in metadata["annotations"].as_object_mut().unwrap().values_mut() {
        *annotation = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
    }
    object
}

/// What differs by more than it may.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, at: &str, ours: &Value, theirs: &Value) {
        match (ours, theirs) {
            (Value::Object(our_members), Value::Object(their_members)) => {
                for key in our_members.keys().filter(|key| !their_members.contains_key(*key)) {
                    self.0.push(format!("{at}.{key} is {} and should not be", ours[key]));
                }
                for (key, theirs) in their_members {
                    self.compare(
                        &format!("{at}.{key}"),
                        our_members.get(key).unwrap_or(&Value::Null),
                        theirs,
                    );
                }
            }
            (Value::Array(our_items), Value::Array(their_items)) if our_items.len() == their_items.len() => {
                for (index, (ours, theirs)) in our_items.iter().zip(their_items).enumerate() {
                    self.compare(&format!("{at}[{index}]"), ours, theirs);
                }
            }
            _ => self.compare_leaf(at, ours, theirs),
        }
    }

    fn compare_leaf(&mut self, at: &str, ours: &Value, theirs: &Value) {
        let is_right = match allowance(at) {
            Allowance::None => ours == theirs,
            Allowance::Any => ours.is_string(),
            Allowance::Share(share) => match (value(ours), value(theirs)) {
                (Some(ours), Some(theirs)) => (ours - theirs).abs() <= share * theirs.abs(),
                _ => false,
            },
        };
        if !is_right {
            self.0.push(format!("{at} is {ours}, should be {theirs}"));
        }
    }
}

/// How far a figure may be off.
enum Allowance {
    None,
    /// Checked elsewhere.
    Any,
    /// A share of the value.
    Share(f64),
}

/// Rates are measured, everything else is read. What `system` uses is a difference of such rates and takes over their
/// errors; the highest percentiles are single samples of a machine that has other things to do as well. Predictions
/// are ends of buckets.
fn allowance(at: &str) -> Allowance {
    let is_cpu = at.starts_with("status.") && at.ends_with("cpu");
    match at {
        "status.updateTime" => Allowance::Any,
        _ if at.contains("prodPeak") => Allowance::Share(0.05),
        _ if !is_cpu => Allowance::None,
        _ if at.contains("p90") || at.contains("p95") || at.contains("p99") => Allowance::Share(0.5),
        _ if at.contains("system") || at.contains("System") => Allowance::Share(0.1),
        _ => Allowance::Share(0.03),
    }
}

fn value(text: &Value) -> Option<f64> {
    let quantity: Quantity = text.as_str()?.parse().ok()?;
    Some(quantity.milli() as f64)
}
