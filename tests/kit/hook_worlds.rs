//! Worlds for the hook rules: a hundred pods of mixed classes under a policy that changes a hundred times, in the form
//! that `checks/hook_rules.py` reads. Always the same ones, so that answers can be made in advance.

use serde_json::{Map, Value, json};

use crate::manifest::NODE;

/// Pods of each world.
pub const PODS: usize = 100;
/// Worlds, the first and the last without any policy.
pub const WORLDS: usize = 102;

/// Gates that differ from their defaults; the agent is given the same.
pub const GATES: [(&str, bool); 1] = [("CPUNormalization", true)];

const RATIO: &str = "node.koordinator.sh/cpu-normalization-ratio";
const STATUS: &str = "scheduling.koordinator.sh/resource-status";
const EXTENDED: &str = "node.koordinator.sh/extended-resource-spec";

/// One state of everything that the rules go by.
#[derive(Clone, Debug)]
pub struct World {
    /// Annotations of the Node.
    pub node: Map<String, Value>,
    /// Spec of the NodeSLO.
    pub slo: Value,
    /// Annotations of the NodeResourceTopology.
    pub topology: Map<String, Value>,
}

/// All worlds, in order.
pub fn worlds() -> Vec<World> {
    let plain = || World { node: Map::new(), slo: slo("off", 0), topology: topology(0) };
    let changing = (1..WORLDS - 1).map(World::nth);
    std::iter::once(plain()).chain(changing).chain(std::iter::once(plain())).collect()
}

impl World {
    /// Each next one differs in what can be seen: a ratio that cannot be read comes with another policy.
    fn nth(number: usize) -> Self {
        let ratios = ["1.20", "1.25", "-", "1.50", "abc", "2.00", "1.00", "0", "1.13", "0.80", "5.00"];
        let policies = ["off", "cfsQuota", "off", "cpuset", "cfsQuota", "cpuset", "cfsQuota"];
        let ratio = ratios[number % ratios.len()];
        let mut node = Map::new();
        if ratio != "-" {
            node.insert(RATIO.to_owned(), ratio.into());
        }
        Self { node, slo: slo(policies[number % policies.len()], number), topology: topology(number) }
    }

    /// As the oracle reads it.
    pub fn for_oracle(&self, cgroup: &str, pods: &[Value]) -> Value {
        let sandboxes: Map<String, Value> =
            (0..PODS).map(|index| (uid(index), sandbox(index).into())).collect();
        json!({
            "cgroup": cgroup,
            "driver": "systemd",
            "gates": GATES.iter().map(|(name, on)| ((*name).to_owned(), (*on).into())).collect::<Map<_, _>>(),
            "node": self.node,
            "slo": self.slo,
            "topology": self.topology,
            "pods": pods,
            "sandboxes": sandboxes,
        })
    }
}

fn slo(policy: &str, number: usize) -> Value {
    let class = |bit: usize, identity: i32| json!({"cpuQOS": {"enable": number >> bit & 1 == 1, "groupIdentity": identity}});
    let threshold = match policy {
        "off" => json!({"enable": false}),
        policy => json!({"enable": true, "cpuSuppressPolicy": policy, "cpuSuppressThresholdPercent": 65}),
    };
    json!({
        "resourceUsedThresholdWithBE": threshold,
        "resourceQOSStrategy": {"lsrClass": class(0, 2), "lsClass": class(1, 2), "beClass": class(2, -1)},
    })
}

/// Pools of CPUs 0 and 1, which every machine has, in changing hands; one that cannot be read is among them.
fn topology(number: usize) -> Map<String, Value> {
    let pools = [
        r#"[{"socket":0,"node":0,"cpuset":"0-1"}]"#,
        r#"[{"socket":0,"node":0,"cpuset":"1"}]"#,
        r#"[{"socket":0,"node":0,"cpuset":"0"},{"socket":0,"node":1,"cpuset":"1"}]"#,
        r#"[{"socket":0,"node":0,"cpuset":"1"},{"socket":0,"node":1,"cpuset":""}]"#,
        "[{bad",
    ];
    let policies = [r#"{"policy":"none"}"#, r#"{"policy":"none"}"#, r#"{"policy":"static"}"#];
    // Not exclusive: that would leave best effort no CPU at all on a machine of two.
    let system = ["{}", r#"{"cpuset":"1","cpusetExclusive":false}"#];
    [
        ("node.koordinator.sh/cpu-shared-pools", pools[number % pools.len()]),
        ("node.koordinator.sh/be-cpu-shared-pools", pools[0]),
        ("kubelet.koordinator.sh/cpu-manager-policy", policies[number / 3 % policies.len()]),
        ("node.koordinator.sh/system-qos-resource", system[number / 2 % system.len()]),
    ]
    .into_iter()
    .map(|(key, text)| (key.to_owned(), text.into()))
    .collect()
}

/// The pods.
pub fn pods() -> Vec<Value> {
    (0..PODS).map(|index| SHAPES[index % SHAPES.len()](Draft::new(index)).object()).collect()
}

/// Every kind of pod that the rules tell apart.
const SHAPES: &[fn(Draft) -> Draft] = &[
    |pod| pod.class("Burstable", "LS").app(&limit("2")),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).app(&limit("500m")),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).app(&json!({})),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).init(&limit("3")),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).sidecar(&limit("500m")),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).sidecar(&json!({})),
    |pod| pod.class("Burstable", "LS").app(&limit("5m")),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).spec("overhead", json!({"cpu": "250m"})),
    |pod| pod.class("Burstable", "LS").app(&limit("1")).app(&json!({})).spec("resources", limit("3")),
    |pod| pod.class("Burstable", "LS").app(&limit("2")).waiting(&limit("1")),
    |pod| pod.class("Burstable", "LS").app(&limit("2")).annotation(STATUS, "{bad"),
    |pod| pod.class("Burstable", "LS").app(&limit("2")).annotation(STATUS, r#"{"cpuset":"0"}"#),
    |pod| pod.class("Burstable", "LS").app(&limit("2")).spec("runtimeClassName", "kata".into()),
    |pod| pod.class("Burstable", "LS").app(&limit("2")).annotation(STATUS, ON_NODE_0),
    |pod| pod.class("Burstable", "LS").app(&limit("2")).annotation(STATUS, ON_NODE_1),
    |pod| pod.class("Burstable", "").app(&limit("1150m")),
    |pod| pod.class("BestEffort", "").app(&json!({})),
    |pod| pod.class("Guaranteed", "").app(&limit("2")).annotation(STATUS, r#"{"cpuset":"0"}"#),
    |pod| pod.class("Guaranteed", "other").app(&limit("1100m")),
    |pod| pod.class("Guaranteed", "LSR").app(&limit("1")).annotation(STATUS, r#"{"cpuset":"0"}"#),
    |pod| pod.class("Guaranteed", "LSR").app(&limit("1")),
    |pod| pod.class("Guaranteed", "LSE").app(&limit("1")).annotation(STATUS, r#"{"cpuset":"0"}"#),
    |pod| pod.class("Burstable", "SYSTEM").app(&limit("1")),
    |pod| pod.class("BestEffort", "BE").app(&batch("500", "1000", "1Gi")),
    |pod| pod.class("BestEffort", "BE").app(&batch("500", "500", "2Gi")).app(&batch("250", "-", "-")),
    |pod| pod.class("BestEffort", "BE").app(&batch("500", "500", "2Gi")).app(&json!({})),
    |pod| pod.class("BestEffort", "BE").app(&batch("500", "500", "1Gi")).init(&batch("1000", "1000", "1Gi")),
    |pod| pod.class("BestEffort", "BE").app(&batch("500", "500", "1Gi")).sidecar(&json!({})),
    |pod| pod.class("BestEffort", "BE").app(&batch("500", "500", "1Gi")).sidecar(&batch("100", "200", "1Mi")),
    |pod| pod.class("BestEffort", "BE").app(&batch("-", "5", "1Mi")),
    |pod| pod.class("BestEffort", "BE").app(&batch("1500m", "-", "1Gi")),
    |pod| pod.class("BestEffort", "BE").app(&json!({})),
    |pod| pod.class("BestEffort", "BE").app(&json!({})).annotation(EXTENDED, IN_ANNOTATION),
    |pod| pod.class("BestEffort", "BE").app(&json!({})).annotation(EXTENDED, r#"{"containers":{}}"#),
    |pod| pod.class("BestEffort", "BE").app(&json!({})).annotation(EXTENDED, "{bad"),
    |pod| {
        pod.class("BestEffort", "BE")
            .app(&batch("500", "1000", "1Gi"))
            .spec("runtimeClassName", "kata".into())
    },
    |pod| pod.class("BestEffort", "LS").app(&batch("500", "1000", "1Gi")),
];

const ON_NODE_0: &str = r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"1"}}]}"#;
const ON_NODE_1: &str = r#"{"numaNodeResources":[{"node":1,"resources":{"cpu":"1"}}]}"#;

const IN_ANNOTATION: &str = r#"{"containers":{"a0":{"requests":{"kubernetes.io/batch-cpu":"300"},
    "limits":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"64Mi"}}}}"#;

fn limit(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": "256Mi"}})
}

/// Batch resources; `-` leaves one out.
fn batch(request: &str, limit: &str, memory: &str) -> Value {
    let list = |pairs: &[(&str, &str)]| -> Map<String, Value> {
        let given = pairs.iter().filter(|(_, amount)| *amount != "-");
        given.map(|(name, amount)| (format!("kubernetes.io/batch-{name}"), (*amount).into())).collect()
    };
    json!({"requests": list(&[("cpu", request)]), "limits": list(&[("cpu", limit), ("memory", memory)])})
}

fn uid(index: usize) -> String {
    format!("{index:08x}-0000-4000-8000-000000000000")
}

/// The directory of a pod's sandbox.
fn sandbox(index: usize) -> String {
    format!("cri-containerd-{index:08x}5a9d.scope")
}

/// A pod in the making.
struct Draft {
    index: usize,
    metadata: Value,
    spec: Value,
    status: Value,
}

impl Draft {
    fn new(index: usize) -> Self {
        let name = format!("pod-{index}");
        Self {
            index,
            metadata: json!({"name": name, "namespace": "default", "uid": uid(index), "annotations": {}}),
            spec: json!({"nodeName": NODE, "containers": [], "initContainers": []}),
            status: json!({"phase": "Running", "containerStatuses": [], "initContainerStatuses": []}),
        }
    }

    fn class(mut self, kube: &str, label: &str) -> Self {
        self.status["qosClass"] = kube.into();
        if !label.is_empty() {
            self.metadata["labels"] = json!({"koordinator.sh/qosClass": label});
        }
        self
    }

    fn annotation(mut self, key: &str, text: &str) -> Self {
        self.metadata["annotations"][key] = text.into();
        self
    }

    fn spec(mut self, key: &str, value: Value) -> Self {
        self.spec[key] = value;
        self
    }

    fn app(self, resources: &Value) -> Self {
        self.container("containers", "a", resources, true)
    }

    /// An app container that has not started.
    fn waiting(self, resources: &Value) -> Self {
        self.container("containers", "a", resources, false)
    }

    fn init(self, resources: &Value) -> Self {
        self.container("initContainers", "i", resources, true)
    }

    fn sidecar(mut self, resources: &Value) -> Self {
        self = self.container("initContainers", "i", resources, true);
        if let Some(last) = self.spec["initContainers"].as_array_mut().and_then(|list| list.last_mut()) {
            last["restartPolicy"] = "Always".into();
        }
        self
    }

    fn container(mut self, list: &str, prefix: &str, resources: &Value, started: bool) -> Self {
        let number = self.spec[list].as_array().map_or(0, Vec::len);
        let name = format!("{prefix}{number}");
        let id = format!("containerd://{:08x}{prefix}{number:03x}", self.index);
        let statuses = if list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
        push(
            &mut self.spec[list],
            json!({"name": name, "image": "example.test/app:1", "resources": resources}),
        );
        push(
            &mut self.status[statuses],
            json!({"name": name, "containerID": if started { &*id } else { "" }}),
        );
        self
    }

    fn object(self) -> Value {
        let Self { index: _, metadata, spec, status } = self;
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    }
}

fn push(list: &mut Value, element: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(element);
    }
}
