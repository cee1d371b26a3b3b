//! What of a status has changed, as a JSON merge patch (RFC 7396), so that only that is sent.

use serde_json::{Map, Value};

use crate::api::node_metric::NodeMetricStatus;

/// The patch of the object that turns the status `held`, which the API server is known to have, into `new`. The time
/// of the report is always in it: readers tell by it that the agent lives.
pub fn status_patch(held: &NodeMetricStatus, new: &NodeMetricStatus) -> Result<Value, serde_json::Error> {
    let (held, new) = (serde_json::to_value(held)?, serde_json::to_value(new)?);
    let mut patch = merge_patch(&held, &new).unwrap_or_else(|| Value::Object(Map::new()));
    if let (Some(patch), Some(time)) = (patch.as_object_mut(), new.get("updateTime")) {
        patch.insert("updateTime".to_owned(), time.clone());
    }
    Ok(Value::Object(Map::from_iter([("status".to_owned(), patch)])))
}

/// The merge patch from `held` to `new`; `None` if they are equal. Lists are replaced as a whole.
fn merge_patch(held: &Value, new: &Value) -> Option<Value> {
    if held == new {
        return None;
    }
    let (Value::Object(held), Value::Object(new)) = (held, new) else { return Some(new.clone()) };
    let gone = held.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| {
        let patch = match held.get(key) {
            Some(held) => merge_patch(held, value)?,
            None => value.clone(),
        };
        Some((key.clone(), patch))
    });
    Some(Value::Object(gone.chain(changed).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::state::nrt::merge_patch::apply;

    fn status(value: Value) -> NodeMetricStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_changed_is_sent_and_always_the_time() {
        let held = status(json!({
            "updateTime": "2024-01-01T00:00:00Z",
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}, "systemUsage": {"resources": {"cpu": "1"}}},
            "podsMetric": [{"name": "p", "namespace": "n"}], "prodPeakMetric": {"resource": {"resources": {"cpu": "1"}}},
        }));
        let mut new = held.clone();
        new.update_time = crate::api::rfc3339::parse("2024-01-01T00:01:00Z");
        let sent = status_patch(&held, &new).unwrap();
        assert_eq!(sent, json!({"status": {"updateTime": "2024-01-01T00:01:00Z"}}));
        new.prod_peak_metric = None;
        let node = new.node_metric.as_mut().unwrap();
        node.node_usage.resources.insert("cpu".into(), "2".parse().unwrap());
        node.system_usage.resources.clear();
        assert_eq!(
            status_patch(&held, &new).unwrap(),
            json!({"status": {
                "updateTime": "2024-01-01T00:01:00Z", "prodPeakMetric": null,
                "nodeMetric": {"nodeUsage": {"resources": {"cpu": "2"}}, "systemUsage": {"resources": null}},
            }})
        );
        let same = status_patch(&held, &held).unwrap();
        assert_eq!(same, json!({"status": {"updateTime": "2024-01-01T00:00:00Z"}}));
    }

    /// JSON without nulls, which no status holds.
    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3_i32).prop_map(Value::from)];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_new_of_the_old(held in json_value(), new in json_value()) {
            match merge_patch(&held, &new) {
                None => prop_assert_eq!(held, new),
                Some(patch) => {
                    let mut got = held;
                    apply(&mut got, &patch);
                    prop_assert_eq!(got, new);
                }
            }
        }
    }
}
