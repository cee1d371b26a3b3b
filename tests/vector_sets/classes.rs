//! Set `classes`: a pod's QoS and priority classes (collection.md 4, qos.md 0).

use koordlet::api::pod::Pod;
use serde::Serialize;
use serde_json::{Value, json};

use crate::set::{self, Row, Verdict};

/// A class by its name; none is empty text.
fn name<T: Serialize>(class: Option<T>) -> Value {
    class.map_or(json!(""), |class| json!(class))
}

fn pod_classes(row: &Row) -> Verdict {
    let pod: Pod = match serde_json::from_value(row.input["pod"].clone()) {
        Ok(pod) => pod,
        Err(error) => return Verdict::Wrong(format!("the pod cannot be read: {error}")),
    };
    row.compare(Ok::<_, String>(json!({
        "effQoS": name(Some(pod.effective_qos())),
        "kubeQoS": name(Some(pod.kube_qos())),
        "prioValue": pod.priority_value(),
        "priorityClass": name(Some(pod.priority_class())),
        "rawPriorityClass": name(pod.raw_priority_class()),
        "rawQoS": name(pod.raw_qos()),
        "subPriority": pod.sub_priority().map_or_else(|_| json!("error"), |value| json!(value)),
    })))
}

#[test]
fn vector_classes() {
    set::check("classes", &[("pod_classes", 75, pod_classes)]);
}
