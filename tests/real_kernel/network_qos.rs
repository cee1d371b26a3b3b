//! Network QoS by traffic control: rules, plan and executor in a network namespace of the test's own, with a veth pair
//! as the device of the default route; `tc` and `nft` are the oracles. Nothing outside the namespace is touched: it goes
//! with the thread that made it.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::{Agent, Manifests, NodeManifest, NodeSloManifest, Tree, need, offers, patience, until};
use koordlet::api::node_slo::NodeSloSpec;
use koordlet::api::pod::Pod;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::claims::combine::{PlanInput, plan};
use koordlet::claims::plan::Plan;
use koordlet::executor::{self, Executor, TargetReport, TargetState};
use koordlet::rules::{PluginKind, RuleSettings, Rules};
use koordlet::state::pods::PodTable;
use koordlet::state::slo::SloMerger;
use koordlet::state::snapshot::Snapshot;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::executor_rig::config;

/// Runs a test in a network namespace of its own.
fn in_namespace(test: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            test()
        });
        thread.join().map_err(|panic| anyhow::anyhow!("the test panicked: {panic:?}"))?
    })
}

fn run(line: &str) -> Result<String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().context("a program")?).args(words).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{line}: {err}");
    Ok(out.into_owned())
}

fn json_of(line: &str) -> Result<Value> {
    Ok(serde_json::from_str(&run(line)?)?)
}

/// What the test needs of the machine.
fn offered() -> Result<(), String> {
    offers::root()?;
    for program in ["ip", "tc", "nft"] {
        offers::program(program)?;
    }
    Ok(())
}

/// A device `up0` with the default route, and pods' addresses on it; frames to the gateway end at the other end.
fn device() -> Result<()> {
    for line in [
        "ip link set lo up",
        "ip link add up0 type veth peer name far0",
        "ip addr add 10.96.0.2/24 dev up0",
        "ip addr add 10.96.0.11/32 dev up0",
        "ip addr add 10.96.0.12/32 dev up0",
        "ip addr add 10.96.0.13/32 dev up0",
        "ip link set far0 up",
        "ip link set up0 up",
        "ip neigh add 10.96.0.1 lladdr 02:00:00:00:00:01 dev up0",
        "ip route add default via 10.96.0.1 dev up0",
    ] {
        run(line)?;
    }
    Ok(())
}

/// Rules and an executor in this namespace.
struct Rig {
    rules: Rules,
    merger: SloMerger,
    executor: Option<Executor>,
    runtime: Runtime,
    run_dir: tempfile::TempDir,
}

impl Rig {
    fn start() -> Result<Self> {
        Self::start_in(tempfile::tempdir()?)
    }

    fn start_in(run_dir: tempfile::TempDir) -> Result<Self> {
        let settings = RuleSettings { plugins: [PluginKind::TcNetworkQos].into(), ..RuleSettings::default() };
        Ok(Self {
            rules: Rules::new(&settings),
            merger: SloMerger::default(),
            executor: Some(executor::spawn(config(run_dir.path())?)?),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            run_dir,
        })
    }

    fn executor(&self) -> Result<&Executor> {
        self.executor.as_ref().context("stopped")
    }

    fn plan(&mut self, slo: Value, pods: &[Value]) -> Result<Plan> {
        let spec: NodeSloSpec = serde_json::from_value(slo)?;
        self.merger.apply(&spec);
        let naming = Naming::new(CgroupDriver::Cgroupfs, "")?;
        let pods: Vec<Pod> =
            pods.iter().map(|pod| serde_json::from_value(pod.clone())).collect::<Result<_, _>>()?;
        let snapshot = Snapshot {
            slo: Arc::new(self.merger.slo().clone()),
            pods: Arc::new(PodTable::build(pods, &naming, &PodTable::default()).0),
            ..Snapshot::default()
        };
        self.rules.observe(&snapshot);
        let Plan { network, synced, .. } = plan(PlanInput {
            pods: &snapshot.pods,
            topology: None,
            tree: &snapshot.tree,
            semantics: config(self.run_dir.path())?.layout.semantics(),
            claims: self.rules.claims(&snapshot),
            synced: self.rules.synced(&snapshot).collect(),
        });
        // The machine's cgroups are no part of this.
        Ok(Plan { network, synced, ..Plan::default() })
    }

    fn apply(&mut self, slo: Value, pods: &[Value]) -> Result<()> {
        let plan = self.plan(slo, pods)?;
        self.executor()?.apply(Arc::new(plan));
        Ok(self.runtime.block_on(self.executor()?.settled())?)
    }

    fn explain(&self) -> Result<Vec<TargetReport>> {
        Ok(self.runtime.block_on(self.executor()?.explain())?)
    }

    fn written(&self) -> Result<u64> {
        Ok(self.executor()?.stats().written.load(std::sync::atomic::Ordering::Relaxed))
    }
}

fn policy() -> Value {
    json!({
        "systemStrategy": {"totalNetworkBandwidth": "100M"},
        "resourceQOSStrategy": {
            "lsClass": {"networkQOS": {"enable": true, "egressRequest": 40, "egressLimit": "80M"}},
            "beClass": {"networkQOS": {"enable": true, "egressRequest": "4M", "egressLimit": "8M"}},
        },
    })
}

fn pod(uid: &str, label: &str, address: &str, limit: Option<&str>) -> Value {
    let mut annotations = json!({});
    if let Some(limit) = limit {
        annotations = json!({"koordinator.sh/networkQOS": format!(r#"{{"egressLimit":"{limit}"}}"#)});
    }
    json!({
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "annotations": annotations,
            "labels": {"koordinator.sh/qosClass": label}},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": address},
    })
}

/// `rate ceil prio sent` by class, as `tc` shows them; `prio` is `-` where it shows none.
fn classes() -> Result<BTreeMap<String, [String; 4]>> {
    let shown = run("tc -s class show dev up0")?;
    let class = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let after = |key: &str| {
            let place = words.iter().position(|word| *word == key);
            place.and_then(|place| words.get(place + 1)).map_or("-".to_owned(), |word| (*word).to_owned())
        };
        (after("htb"), ["rate", "ceil", "prio", "Sent"].map(after))
    };
    Ok(shown.split("class ").skip(1).map(|text| class(&format!("class {text}"))).collect())
}

/// `rate ceil prio` by class.
fn shares() -> Result<BTreeMap<String, String>> {
    Ok(classes()?
        .into_iter()
        .map(|(class, [rate, ceil, prio, _])| (class, format!("{rate} {ceil} {prio}")))
        .collect())
}

fn root() -> Result<String> {
    let shown = json_of("tc -j qdisc show dev up0")?;
    let root = shown.as_array().into_iter().flatten().find(|qdisc| qdisc["root"] == true);
    Ok(root.map_or("none".to_owned(), |root| format!("{} {}", root["kind"], root["handle"]).replace('"', "")))
}

fn rules() -> Result<String> {
    Ok(run("nft list ruleset")?.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn classes_sets_and_rules_are_made_held_and_removed() -> Result<()> {
    need!(offered());
    in_namespace(|| {
        device()?;
        let before = root()?;
        let mut rig = Rig::start()?;
        let pods = [
            pod("sys", "SYSTEM", "10.96.0.10", None),
            pod("ls", "LS", "10.96.0.11", None),
            pod("be", "BE", "10.96.0.12", None),
            pod("own", "LS", "10.96.0.13", Some("16M")),
        ];
        rig.apply(policy(), &pods)?;
        assert_eq!(root()?, "htb 1:");
        let mut shown = shares()?;
        for (class, share) in [
            ("1:1", "100Mbit 100Mbit -"),
            ("1:2", "56Mbit 100Mbit 1"),
            ("1:3", "40Mbit 80Mbit 2"),
            ("1:4", "4Mbit 8Mbit 3"),
        ] {
            assert_eq!(shown.remove(class).as_deref(), Some(share), "{class}");
        }
        let own: Vec<_> = shown.into_iter().collect();
        let [(own, share)] = &own[..] else { anyhow::bail!("{own:?}") };
        assert_eq!(share, "16Mbit 16Mbit 2");
        let text = rules()?;
        for part in [
            "set system_class { type ipv4_addr elements = { 10.96.0.10 } }",
            "set ls_class { type ipv4_addr elements = { 10.96.0.11 } }",
            "set be_class { type ipv4_addr elements = { 10.96.0.12 } }",
            "type filter hook postrouting priority mangle; policy accept;",
            "ip saddr @system_class meta priority set 1:2 ip saddr @ls_class meta priority set 1:3 \
             ip saddr @be_class meta priority set 1:4 meta priority set ip saddr map @pod_class",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let classid = format!("10.96.0.13 : {own}");
        assert!(text.contains(&classid), "{classid:?} is not in {text}");
        for report in rig.explain()? {
            assert_eq!(report.state, TargetState::Held, "{report:?}");
        }

        // The same again writes nothing; another limit touches one class.
        let written = rig.written()?;
        rig.apply(policy(), &pods)?;
        assert_eq!(rig.written()?, written);
        let mut other = policy();
        other["resourceQOSStrategy"]["beClass"]["networkQOS"]["egressLimit"] = json!("6M");
        rig.apply(other.clone(), &pods)?;
        assert_eq!((rig.written()?, shares()?["1:4"].as_str()), (written + 1, "4Mbit 6Mbit 3"));
        // A pod that goes takes its address and its class with it.
        rig.apply(other, &pods[..3])?;
        assert_eq!(classes()?.len(), 4);
        assert!(!rules()?.contains("10.96.0.13"));

        // Another policy, and all is as before.
        let mut terway = policy();
        terway["resourceQOSStrategy"]["policies"] = json!({"netQOSPolicy": "terway-qos"});
        rig.apply(terway, &pods)?;
        assert_eq!((root()?, rules()?), (before, String::new()));
        Ok(())
    })
}

#[test]
fn the_rates_hold() -> Result<()> {
    need!(offered());
    in_namespace(|| {
        device()?;
        let mut rig = Rig::start()?;
        let pods = [pod("ls", "LS", "10.96.0.11", None), pod("be", "BE", "10.96.0.12", None)];
        rig.apply(policy(), &pods)?;
        let sent =
            |class: &str| -> Result<f64> { Ok(classes()?.remove(class).context("no class")?[3].parse()?) };
        let flood = || -> Result<()> {
            let sockets = ["10.96.0.11:0", "10.96.0.12:0"].map(UdpSocket::bind);
            let [ls, be] = sockets;
            let (ls, be) = (ls?, be?);
            // One that waits for room must not hold up the other.
            ls.set_nonblocking(true)?;
            be.set_nonblocking(true)?;
            let end = Instant::now() + Duration::from_secs(1);
            while Instant::now() < end {
                // A full queue drops, which is the point.
                for socket in [&ls, &be] {
                    _ = socket.send_to(&[0; 1000], "10.96.0.1:9").is_ok();
                }
            }
            Ok(())
        };
        // The first second fills buckets and queues.
        flood()?;
        let (ls, be) = (sent("1:3")?, sent("1:4")?);
        flood()?;
        let ratio = (sent("1:3")? - ls) / (sent("1:4")? - be);
        kit::skip::note(format_args!("LS sent {ratio:.2} times as much as BE; the policy says 10"));
        assert!((8.0..12.5).contains(&ratio), "{ratio}");
        Ok(())
    })
}

#[test]
fn what_others_change_is_put_right_and_what_they_set_up_stays() -> Result<()> {
    need!(offered());
    in_namespace(|| {
        device()?;
        let mut rig = Rig::start()?;
        let pods = [pod("ls", "LS", "10.96.0.11", None)];
        rig.apply(policy(), &pods)?;
        run("tc class change dev up0 parent 1:1 classid 1:4 htb rate 1mbit ceil 2mbit")?;
        run("nft add element ip koordlet be_class { 10.96.0.99 }")?;
        // A restart looks at everything at once, and takes over what is there.
        rig_restart(&mut rig, &pods)?;
        assert_eq!(shares()?["1:4"], "4Mbit 8Mbit 3");
        assert!(!rules()?.contains("10.96.0.99"));
        run("nft insert rule ip koordlet postrouting counter drop")?;
        rig_restart(&mut rig, &pods)?;
        assert!(!rules()?.contains("drop"), "{}", rules()?);

        // Somebody's own way of sending is no business of ours.
        run("tc qdisc replace dev up0 root handle 8001: tbf rate 5mbit burst 10kb latency 50ms")?;
        rig_restart(&mut rig, &pods)?;
        assert_eq!(root()?, "tbf 8001:");
        let reports = rig.explain()?;
        let refused =
            reports.iter().find(|report| report.state == TargetState::Refused).context("nothing refused")?;
        assert!(refused.detail.as_deref().unwrap_or_default().contains("tbf 8001:"), "{refused:?}");
        // It is left alone by a restore, too.
        let report = rig.runtime.block_on(rig.executor()?.restore_all())?;
        ensure!(report.failed.is_empty(), "{report:?}");
        assert_eq!((root()?.as_str(), rules()?), ("tbf 8001:", String::new()));
        Ok(())
    })
}

/// Stops the executor and starts one on the same run directory, with the same wishes.
fn rig_restart(rig: &mut Rig, pods: &[Value]) -> Result<()> {
    if let Some(executor) = rig.executor.take() {
        rig.runtime.block_on(executor.stop(false));
    }
    rig.executor = Some(executor::spawn(config(rig.run_dir.path())?)?);
    rig.apply(policy(), pods)
}

#[test]
fn the_tree_follows_the_default_route() -> Result<()> {
    need!(offered());
    in_namespace(|| {
        device()?;
        for line in [
            "ip link add up1 type veth peer name far1",
            "ip addr add 10.97.0.2/24 dev up1",
            "ip link set up1 up",
        ] {
            run(line)?;
        }
        let mut rig = Rig::start()?;
        rig.apply(policy(), &[])?;
        assert_eq!(root()?, "htb 1:");
        run("ip route replace default via 10.97.0.1 dev up1")?;
        rig_restart(&mut rig, &[])?;
        assert_ne!(root()?, "htb 1:", "the old device has its own qdisc again");
        assert!(run("tc qdisc show dev up1")?.contains("htb 1: root"));
        run("ip route del default")?;
        rig_restart(&mut rig, &[])?;
        let reports = rig.explain()?;
        assert!(
            reports
                .iter()
                .any(|report| report.detail.as_deref().is_some_and(|text| text.contains("default route")))
        );
        Ok(())
    })
}

#[test]
fn the_agent_shapes_explains_and_restores() -> Result<()> {
    need!(offered());
    need!(offers::cgroups());
    in_namespace(|| {
        device()?;
        let before = root()?;
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        manifests.write("node", &NodeManifest::this_host("node-1"))?;
        manifests.write("slo", &NodeSloManifest::new("node-1", policy()))?;
        let mut be = pod("be", "BE", "10.96.0.12", None);
        be["apiVersion"] = json!("v1");
        be["kind"] = json!("Pod");
        be["spec"]["nodeName"] = json!("node-1");
        manifests.write_text("pod", &be.to_string())?;
        let agent = Agent::of(&tree, &manifests)?.node("node-1").flag("feature-gates", "TCNetworkQoS=true");
        let running = agent.start()?;
        let is_there = || rules().is_ok_and(|text| text.contains("10.96.0.12"));
        ensure!(until(patience(), is_there), "{}", running.log());
        assert_eq!(shares()?["1:4"], "4Mbit 8Mbit 3");
        let explained = running.explain(None)?;
        let targets = explained["targets"].as_array().context("no targets")?;
        let class = targets
            .iter()
            .find(|target| target["path"] == "network class 1:4 of up0")
            .context("not explained")?;
        assert_eq!((&class["state"], &class["owner"]), (&json!("held"), &json!("TcNetworkQos")), "{class}");
        ensure!(running.stop()?.success());
        assert_eq!(root()?, "htb 1:", "an upgrade lets go of nothing");
        let restored = agent.verb("restore", &["-o", "json"])?;
        ensure!(restored.status.success(), "{restored:?}");
        assert_eq!((root()?, rules()?), (before, String::new()));
        Ok(())
    })
}
