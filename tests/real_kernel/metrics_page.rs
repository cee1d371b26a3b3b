//! The metrics of a running agent, judged by others: Prometheus' own `promtool` and its client library for Python.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use kit::agent::{Agent, RunningAgent};
use kit::http::{self, Answer};
use kit::manifest::{Manifests, NODE, NodeManifest, NodeSloManifest, PodManifest};
use kit::{Class, Tree, need, offers, skip, until};
use koordlet::report::metrics::families::{Descriptor, Family, Kind, Origin};
use serde_json::{Value, json};

/// Quotes, backslashes, newlines and what else some reader may take for an end; longer than any name may be.
const HOSTILE: &str = "q\"b\\n\n\r\t{}=,#\u{85}\u{2028}\u{fe0f}ü";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

/// Reads a page on stdin and prints its families: name, type, and of each sample name, labels and value.
const PARSE: &str = r#"
import json, sys
if sys.argv[1] == "open":
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
else:
    from prometheus_client.parser import text_string_to_metric_families as parse
page = sys.stdin.buffer.read().decode()
samples = lambda family: [[s.name, s.labels, str(s.value)] for s in family.samples]
print(json.dumps([[f.name, f.type, samples(f)] for f in parse(page)]))
"#;

/// A node with two pods, one of them of hostile names.
struct Scene {
    tree: Tree,
    manifests: Manifests,
}

impl Scene {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let pod = PodManifest::new("be", Class::BestEffort)
            .qos("BE")
            .container("app", "c0", |container| container.batch(500, 64 << 20));
        tree.make_pod(&pod)?;
        manifests.write("pod", &pod)?;
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write("slo", &NodeSloManifest::suppress(NODE, "cfsQuota", 65))?;
        let batch = json!({"requests": {"kubernetes.io/batch-cpu": "1"}});
        let hostile = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": long_name(), "namespace": HOSTILE, "uid": "hostile"},
            "spec": {"nodeName": NODE, "containers": [{"name": HOSTILE, "resources": batch}]},
            "status": {"phase": "Running",
                       "containerStatuses": [{"name": HOSTILE, "containerID": "containerd://hostile"}]},
        });
        // YAML takes these two for ends of lines.
        let text = hostile.to_string().replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028");
        manifests.write_text("hostile", &text)?;
        Ok(Self { tree, manifests })
    }

    fn agent(&self) -> Result<Agent> {
        let agent = Agent::of(&self.tree, &self.manifests)?;
        let log = agent.run_dir().join("audit");
        let gates = "PerCPUMetric=true,BlkIOReconcile=true,AuditEvents=true";
        Ok(agent.flag("feature-gates", gates).flag("audit-log-dir", log))
    }
}

fn long_name() -> String {
    HOSTILE.chars().cycle().take(253).collect()
}

/// Starts the agent and waits until every part of it has shown something.
fn started(agent: &Agent) -> Result<RunningAgent<'_>> {
    let mut running = agent.start()?;
    let series = [
        "koordlet_node_used_cpu_cores",
        "koordlet_be_suppress_cpu_cores",
        "koordlet_collector_seconds_total",
    ];
    let complete = until(kit::patience(), || series.iter().all(|name| running.metric(name).is_ok()));
    ensure!(complete, "not all series came:\n{}\n{}", running.metrics()?, running.log());
    Ok(running)
}

fn page(running: &mut RunningAgent<'_>, accept: &str) -> Result<Answer> {
    http::request(running.address()?, "GET", "/metrics", &[("Accept", accept)])
}

/// Runs a program with `input`; what it printed on stdout and stderr, and its exit code.
fn fed(command: &mut Command, input: &str) -> Result<(String, String, Option<i32>)> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    feeder.join().map_err(|_| anyhow::anyhow!("the feeder panicked"))??;
    Ok((String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?, output.status.code()))
}

/// What promtool finds wrong concerns names of the reference alone, which are kept as they are.
#[test]
fn promtool_takes_the_page_of_a_running_agent() -> Result<()> {
    need!(offers::cgroups());
    let promtool = match offers::promtool() {
        Ok(promtool) => promtool,
        Err(reason) => skip!("{reason}"),
    };
    let scene = Scene::new()?;
    let agent = scene.agent()?;
    let mut running = started(&agent)?;
    let text = page(&mut running, "")?.body;
    let (said, errors, code) = fed(Command::new(promtool).args(["check", "metrics"]), &text)?;
    // 3: it could be read, and lint has something to say.
    ensure!(matches!(code, Some(0 | 3)), "{code:?}: {said}{errors}");
    let reference: BTreeSet<&str> =
        descriptors().filter(|family| family.origin == Origin::Reference).map(|family| family.name).collect();
    for line in said.lines().chain(errors.lines()) {
        let name = line.split(' ').next().unwrap_or_default();
        ensure!(reference.contains(name), "{line}");
    }
    assert!(running.stop()?.success());
    Ok(())
}

/// A family as the client library read it.
struct Read {
    kind: String,
    labels: BTreeSet<String>,
}

fn read(python: &str, format: &str, text: &str) -> Result<(BTreeMap<String, Read>, Value)> {
    let (said, errors, code) = fed(Command::new(python).args(["-c", PARSE, format]), text)?;
    ensure!(code == Some(0), "{errors}\n{text}");
    let all: Value = serde_json::from_str(&said)?;
    let lines = samples_in(text);
    let mut count = 0;
    let mut families = BTreeMap::new();
    for family in all.as_array().context("no list")? {
        let (name, kind) = (family[0].as_str().context("name")?, family[1].as_str().context("type")?);
        let samples = family[2].as_array().context("samples")?;
        count += samples.len();
        let labels =
            samples.iter().filter_map(|sample| sample[1].as_object()).flat_map(|labels| labels.keys());
        let labels = labels.filter(|label| *label != "le").cloned().collect();
        let again = families.insert(name.to_owned(), Read { kind: kind.to_owned(), labels });
        ensure!(again.is_none(), "{name} comes twice");
    }
    ensure!(count == lines, "{count} samples read of {lines}");
    Ok((families, all))
}

/// A newline ends a line in both formats, and nothing else does.
fn samples_in(text: &str) -> usize {
    text.split('\n').filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

fn descriptors() -> impl Iterator<Item = &'static Descriptor> {
    Family::ALL.iter().map(|family| family.descriptor())
}

/// Each family on the page is one of the table, as the table says.
fn ensure_as_in_the_table(families: &BTreeMap<String, Read>, open: bool) -> Result<()> {
    for (name, Read { kind, labels }) in families {
        // The library names counters without the ending in both formats.
        let family = descriptors().find(|family| {
            family.name == name || family.kind == Kind::Counter && family.name == format!("{name}_total")
        });
        let Descriptor { name, kind: told, labels: own, .. } =
            family.with_context(|| format!("{name} is not in the table"))?;
        let nameless = *told == Kind::Counter && !name.ends_with("_total") && open;
        ensure!(kind == if nameless { "unknown" } else { told.name() }, "{name} is a {kind}");
        let own: BTreeSet<String> = own.iter().map(|label| (*label).to_owned()).collect();
        ensure!(*labels == own, "{name} has labels {labels:?}");
    }
    Ok(())
}

#[test]
fn the_client_library_reads_both_formats_and_every_name() -> Result<()> {
    need!(offers::cgroups());
    let python = match offers::python_with_prometheus() {
        Ok(python) => python,
        Err(reason) => skip!("{reason}"),
    };
    let scene = Scene::new()?;
    let agent = scene.agent()?;
    let mut running = started(&agent)?;
    for (format, accept, content_type) in [
        ("classic", "text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("open", OPEN_METRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ] {
        let answer = page(&mut running, accept)?;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(content_type)));
        let (families, all) = read(python, format, &answer.body)?;
        ensure_as_in_the_table(&families, format == "open")?;
        // Those that only a running agent shows.
        for start in ["koordlet_ebpf_active", "koordlet_manifest_", "koordlet_collector_", "koordlet_audit_"]
        {
            ensure!(families.keys().any(|name| name.starts_with(&*start)), "{format}: no {start}");
        }
        let text = all.to_string();
        for name in [long_name(), HOSTILE.to_owned()] {
            ensure!(text.contains(&Value::String(name).to_string()), "{format}: a hostile name was lost");
        }
    }
    assert!(running.stop()?.success());
    Ok(())
}

#[test]
fn head_tells_what_get_would_and_series_end_with_their_pod() -> Result<()> {
    need!(offers::cgroups());
    let scene = Scene::new()?;
    let agent = scene.agent()?;
    let mut running = started(&agent)?;
    let address = running.address()?;
    let head = http::request(address, "HEAD", "/external-metrics", &[("Accept", OPEN_METRICS)])?;
    assert_eq!((head.status, head.body.as_str(), head.header("vary")), (200, "", Some("accept")));
    assert!(
        head.header("content-type").is_some_and(|value| value.starts_with("application/openmetrics-text"))
    );
    let length: usize = head.header("content-length").context("no length")?.parse()?;
    ensure!(length > 100, "{length}");
    assert_eq!(http::request(address, "POST", "/metrics", &[])?.status, 405);

    let shown =
        |running: &mut RunningAgent<'_>| Ok::<_, anyhow::Error>(running.metrics()?.contains("//hostile\""));
    ensure!(shown(&mut running)?);
    scene.manifests.remove("hostile")?;
    let ended = until(kit::patience(), || shown(&mut running).is_ok_and(|shown| !shown));
    ensure!(ended, "a series outlived its pod");
    assert!(running.stop()?.success());
    Ok(())
}
