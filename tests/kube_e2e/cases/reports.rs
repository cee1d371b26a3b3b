//! What the agent writes to the API server, beside what the kubelet and the machine's own tools say.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use kit::skip;
use koordlet::api::quantity::Quantity;
use serde_json::{Value, json};

use super::scene::{PATIENCE, Slo, agent_at, identity};
use crate::lab::Lab;
use crate::lab::pods::PodOf;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    ("reports::use_is_what_the_kubelet_says", use_is_what_the_kubelet_says),
    ("reports::topology_is_what_lscpu_says", topology_is_what_lscpu_says),
    ("reports::a_refused_field_is_an_event", a_refused_field_is_an_event),
];

const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";
/// Least of both that the agent takes, collection.md 9.1.
const REPORT_SECONDS: u64 = 30;
const WINDOW_SECONDS: u64 = 60;

/// One look at the kubelet's statistics.
struct Sample {
    node: Figures,
    pod: Figures,
}

/// CPU seconds so far, and bytes in use.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// When the kubelet read the cgroup, to the second. It may hand out a reading that is ten seconds old.
    at: Timestamp,
    cpu_seconds: f64,
    rss: f64,
    working_set: f64,
}

impl Figures {
    fn of(statistics: &Value) -> Result<Self> {
        let figure = |pointer: &str| {
            let found = statistics.pointer(pointer).and_then(Value::as_f64);
            found.with_context(|| format!("no {pointer} in {statistics}"))
        };
        let time = statistics.pointer("/cpu/time").and_then(Value::as_str);
        let time = time.with_context(|| format!("no time in {statistics}"))?;
        Ok(Self {
            at: time.parse().with_context(|| format!("time {time:?}"))?,
            cpu_seconds: figure("/cpu/usageCoreNanoSeconds")? / 1e9,
            rss: figure("/memory/rssBytes")?,
            working_set: figure("/memory/workingSetBytes")?,
        })
    }
}

fn use_is_what_the_kubelet_says(lab: &Lab) -> Result<()> {
    let script = "i=0; while :; do i=$((i+1)); done";
    let pod = PodOf::name("busy").qos("LS").limits(&json!({"cpu": "200m", "memory": "64Mi"})).script(script);
    let pod = pod.run(lab)?;
    let policy = json!({"reportIntervalSeconds": REPORT_SECONDS, "aggregateDurationSeconds": WINDOW_SECONDS});
    let object = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": lab.node()},
        "spec": {"metricCollectPolicy": policy},
    });
    lab.admin.create(METRICS, &object)?;
    let path = format!("{METRICS}/{}", lab.node());
    let outcome = compare_use(lab, &path, pod.uid(), pod.name());
    lab.admin.delete(&path)?;
    outcome
}

fn compare_use(lab: &Lab, path: &str, uid: &str, name: &str) -> Result<()> {
    let identity = identity(lab, "reports")?;
    let agent = agent_at(lab, &identity, &lab.place.api_url())?;
    let running = agent.start()?;
    let start = Instant::now();
    // The kubelet looks at its cgroups every ten seconds or so: enough looks give the right window.
    let mut samples = Vec::new();
    let mut last = String::new();
    let status = loop {
        samples.push(sample(lab, uid)?);
        let object = lab.admin.get(path)?.context("the NodeMetric is gone")?;
        let time = object["status"]["updateTime"].as_str().unwrap_or_default().to_owned();
        let is_new = std::mem::replace(&mut last, time.clone()) != time;
        // The first windows begin before the agent did.
        if is_new && !time.is_empty() && start.elapsed() > Duration::from_secs(WINDOW_SECONDS + 15) {
            break object["status"].clone();
        }
        ensure!(start.elapsed() < 2 * PATIENCE, "no report in time:\n{}", running.log());
        std::thread::sleep(Duration::from_secs(2));
    };
    let end = last.parse().with_context(|| format!("update time {last:?}"))?;
    let node = over_window(samples.iter().map(|sample| sample.node), end)?;
    let pod = over_window(samples.iter().map(|sample| sample.pod), end)?;
    let pods = status["podsMetric"].as_array().context("no pods in the report")?;
    let reported = pods.iter().find(|each| each["name"] == name).with_context(|| format!("{status}"))?;
    ensure!(reported["qos"] == "LS", "{reported}");
    compare("pod", &reported["podUsage"], pod, 0.02)?;
    compare("node", &status["nodeMetric"]["nodeUsage"], node, 0.15)?;
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}

/// Prints both, and checks them: CPU within a tenth and `slack` cores, memory between nothing and all of it, the
/// resident part included.
fn compare(what: &str, usage: &Value, kubelet: (f64, Figures), slack: f64) -> Result<()> {
    let quantity = |name: &str| -> Result<f64> {
        let text = usage["resources"][name].as_str().with_context(|| format!("no {name} in {usage}"))?;
        let quantity: Quantity = text.parse().with_context(|| format!("{name} {text:?}"))?;
        Ok(quantity.milli() as f64 / 1000.0)
    };
    let (cores, memory) = (quantity("cpu")?, quantity("memory")?);
    let (kubelet_cores, figures) = kubelet;
    skip::note(format_args!(
        "{what}: NodeMetric {cores:.3} cores, {:.1} MiB; kubelet {kubelet_cores:.3} cores, {:.1} MiB resident, \
         {:.1} MiB working set",
        memory / f64::from(1 << 20),
        figures.rss / f64::from(1 << 20),
        figures.working_set / f64::from(1 << 20),
    ));
    let apart = (cores - kubelet_cores).abs();
    ensure!(apart <= kubelet_cores / 10.0 + slack, "{what}: {cores} cores, the kubelet says {kubelet_cores}");
    let slack = f64::from(8 << 20);
    let most = figures.working_set.max(figures.rss) * 1.2 + slack;
    ensure!(
        memory > 0.0 && memory + slack >= figures.rss * 0.8,
        "{what}: {memory} bytes, less than resident"
    );
    ensure!(what == "node" || memory <= most, "{what}: {memory} bytes of at most {most}");
    Ok(())
}

fn sample(lab: &Lab, uid: &str) -> Result<Sample> {
    let summary = lab.kubelet.get("/stats/summary")?.context("the kubelet has no statistics")?;
    let pods = summary["pods"].as_array().context("no pods in the summary")?;
    let pod = pods.iter().find(|pod| pod["podRef"]["uid"] == uid).context("the pod is not in the summary")?;
    Ok(Sample { node: Figures::of(&summary["node"])?, pod: Figures::of(pod)? })
}

/// Cores between the kubelet's first and last reading in the window that ends at `end`, and the last reading.
fn over_window(readings: impl Iterator<Item = Figures>, end: Timestamp) -> Result<(f64, Figures)> {
    let begin = end.as_second() - i64::try_from(WINDOW_SECONDS)?;
    let inside: Vec<Figures> = readings.filter(|reading| reading.at.as_second() >= begin).collect();
    let (first, last) = (inside.first().context("no reading")?, inside.last().context("no reading")?);
    let seconds = last.at.as_second() - first.at.as_second();
    ensure!(seconds > 0, "the kubelet read nothing anew within {WINDOW_SECONDS} s");
    Ok(((last.cpu_seconds - first.cpu_seconds) / seconds as f64, *last))
}

fn topology_is_what_lscpu_says(lab: &Lab) -> Result<()> {
    let identity = identity(lab, "topology")?;
    let agent = agent_at(lab, &identity, &lab.place.api_url())?;
    let running = agent.start()?;
    let path = format!("{TOPOLOGIES}/{}", lab.node());
    let mut object = Value::Null;
    let complete = kit::until(PATIENCE, || {
        object = lab.admin.get(&path).ok().flatten().unwrap_or_default();
        std::thread::sleep(Duration::from_millis(100));
        object["zones"].as_array().is_some_and(|zones| !zones.is_empty())
    });
    ensure!(complete, "no zones: {object}; the agent's log:\n{}", running.log());
    let node = lab.admin.get(&format!("/api/v1/nodes/{}", lab.node()))?.context("no node")?;
    let owner = &object["metadata"]["ownerReferences"][0];
    ensure!(owner["kind"] == "Node" && owner["uid"] == node["metadata"]["uid"], "{owner}");
    check_cpus(&object)?;
    check_zones(&object)?;

    // Looked at every three seconds, and written only when it differs.
    let version = object["metadata"]["resourceVersion"].clone();
    std::thread::sleep(Duration::from_secs(10));
    let later = lab.admin.get(&path)?.context("no topology any more")?;
    ensure!(later["metadata"]["resourceVersion"] == version, "it was written again: {later}");
    ensure!(running.stop()?.success(), "the agent ends badly");
    lab.admin.delete(&path)
}

/// The annotation with all CPUs, line by line as lscpu has them.
fn check_cpus(object: &Value) -> Result<()> {
    let text = object["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"].as_str();
    let detail: Value = serde_json::from_str(text.context("no annotation with the CPUs")?)?;
    let ours = detail["detail"].as_array().context("no detail")?;
    let ours: Vec<String> = ours
        .iter()
        .map(|cpu| format!("{},{},{},{}", cpu["id"], cpu["core"], cpu["socket"], cpu["node"]))
        .collect();
    let said = Command::new("lscpu").arg("--parse=CPU,CORE,SOCKET,NODE").output().context("running lscpu")?;
    let said = String::from_utf8(said.stdout)?;
    // A machine without NUMA has one node, of which lscpu says nothing.
    let lines = said.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<String> =
        lines.map(|line| if line.ends_with(',') { format!("{line}0") } else { line.to_owned() }).collect();
    ensure!(ours == lines, "the topology has {ours:?}, lscpu {lines:?}");
    skip::note(format_args!("topology: {} CPUs as lscpu has them", ours.len()));
    Ok(())
}

fn check_zones(object: &Value) -> Result<()> {
    let zones = object["zones"].as_array().context("no zones")?;
    let capacity = |name: &str| -> Result<u64> {
        let mut sum = 0;
        for zone in zones {
            let resources = zone["resources"].as_array().context("no resources")?;
            let found =
                resources.iter().find(|each| each["name"] == name).context("a resource is missing")?;
            let text = found["capacity"].as_str().context("no capacity")?;
            let quantity: Quantity = text.parse().with_context(|| format!("{name} {text:?}"))?;
            sum += u64::try_from(quantity.value())?;
        }
        Ok(sum)
    };
    let (cpus, memory) = (capacity("cpu")?, capacity("memory")?);
    let here = u64::try_from(std::thread::available_parallelism()?.get())?;
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).context("no MemTotal")?;
    let total = 1024 * total.trim().trim_end_matches(" kB").parse::<u64>()?;
    skip::note(format_args!("zones: {} with {cpus} CPUs and {memory} bytes of {total}", zones.len()));
    ensure!(cpus == here, "{cpus} CPUs in zones, {here} on this machine");
    ensure!(memory == total, "{memory} bytes in zones, {total} on this machine");
    Ok(())
}

fn a_refused_field_is_an_event(lab: &Lab) -> Result<()> {
    let identity = identity(lab, "events")?;
    let agent = agent_at(lab, &identity, &lab.place.api_url())?;
    let running = agent.start()?;
    let spec =
        json!({"resourceUsedThresholdWithBE": {"enable": false, "cpuSuppressPolicy": "wishfulThinking"}});
    let _slo = Slo::create(lab, &lab.node(), &spec)?;
    let mut described = String::new();
    let seen = kit::until(PATIENCE, || {
        described = lab.kubectl(&["describe", "nodeslo", &lab.node()]).unwrap_or_default();
        let told = described.contains("PolicyFieldRefused") && described.contains("wishfulThinking");
        std::thread::sleep(Duration::from_millis(if told { 0 } else { 500 }));
        told
    });
    ensure!(seen, "kubectl describe says:\n{described}\nthe agent's log:\n{}", running.log());
    let line = described.lines().find(|line| line.contains("PolicyFieldRefused")).unwrap_or_default();
    skip::note(format_args!("kubectl describe nodeslo: {}", line.trim()));
    ensure!(running.stop()?.success(), "the agent ends badly");
    Ok(())
}
