//! Label selectors of Kubernetes: which nodes a node strategy is for, qos.md 9.

use std::collections::BTreeMap;

use serde_json::Value;

/// Labels of a node.
pub(super) type Labels = BTreeMap<String, String>;

/// What a node's labels must be like; all of it must hold. Without any requirement every node is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    is: Is,
}

/// What the label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Is {
    In(Vec<String>),
    /// Also where there is no such label.
    NotIn(Vec<String>),
    Present,
    Absent,
}

impl Selector {
    /// Reads `{matchLabels, matchExpressions}`; an error says what is wrong.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let members = value.as_object().ok_or("it is not an object")?;
        let mut requirements = Vec::new();
        match members.get("matchLabels") {
            None | Some(Value::Null) => {}
            Some(Value::Object(labels)) => {
                for (key, value) in labels {
                    let value = value.as_str().ok_or_else(|| format!("matchLabels.{key:.80} is no text"))?;
                    requirements.push(Requirement { key: key.clone(), is: Is::In(vec![value.to_owned()]) });
                }
            }
            Some(_) => return Err("matchLabels is not an object".to_owned()),
        }
        match members.get("matchExpressions") {
            None | Some(Value::Null) => {}
            Some(Value::Array(expressions)) => {
                for expression in expressions {
                    requirements.push(Requirement::parse(expression)?);
                }
            }
            Some(_) => return Err("matchExpressions is not a list".to_owned()),
        }
        Ok(Self(requirements))
    }

    /// Whether a node with these labels is meant.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|Requirement { key, is }| {
            let label = labels.get(key);
            match is {
                Is::In(values) => label.is_some_and(|label| values.contains(label)),
                Is::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
                Is::Present => label.is_some(),
                Is::Absent => label.is_none(),
            }
        })
    }
}

impl Requirement {
    fn parse(value: &Value) -> Result<Self, String> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let key = text("key").ok_or("an expression has no key")?;
        let values: Option<Vec<String>> = match value.get("values") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(list) => list
                .as_array()
                .and_then(|list| list.iter().map(|value| value.as_str().map(str::to_owned)).collect()),
        };
        let values = values.ok_or_else(|| format!("values of {key:.80} are no list of texts"))?;
        let is = match (text("operator").unwrap_or_default(), values.is_empty()) {
            ("In", false) => Is::In(values),
            ("NotIn", false) => Is::NotIn(values),
            ("Exists", true) => Is::Present,
            ("DoesNotExist", true) => Is::Absent,
            ("In" | "NotIn", true) => return Err(format!("{key:.80} is compared with no value")),
            ("Exists" | "DoesNotExist", false) => return Err(format!("values of {key:.80} mean nothing")),
            (other, _) => return Err(format!("{other:?} of {key:.80} is no operator")),
        };
        Ok(Self { key: key.to_owned(), is })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_matched_as_kubernetes_does() {
        let labels = Labels::from([("pool".into(), "big".into()), ("zone".into(), String::new())]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, matches) in [
            (json!({}), true),
            (json!({"matchLabels": null, "matchExpressions": null}), true),
            (json!({"matchLabels": {"pool": "big"}}), true),
            (json!({"matchLabels": {"pool": "big", "zone": "z"}}), false),
            (json!({"matchLabels": {"other": ""}}), false),
            (expression("pool", "In", &["small", "big"]), true),
            (expression("pool", "NotIn", &["big"]), false),
            (expression("other", "NotIn", &["big"]), true),
            (expression("zone", "Exists", &[]), true),
            (expression("zone", "DoesNotExist", &[]), false),
            (expression("other", "DoesNotExist", &[]), true),
        ] {
            assert_eq!(Selector::parse(&selector).unwrap().matches(&labels), matches, "{selector}");
        }
        for bad in [
            json!(null),
            json!([]),
            json!({"matchLabels": []}),
            json!({"matchLabels": {"a": 1}}),
            json!({"matchExpressions": {}}),
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]}),
            expression("pool", "In", &[]),
            expression("pool", "Exists", &["a"]),
            expression("pool", "Bogus", &[]),
        ] {
            assert!(Selector::parse(&bad).is_err(), "{bad}");
        }
    }
}
