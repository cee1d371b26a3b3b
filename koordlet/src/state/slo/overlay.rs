//! One policy laid over another: the merge of ConfigMap strategies (qos.md 9) and of extensions (1.6).

use serde_json::Value;

/// Lays `over` on `base`: what is there wins, objects member by member. Null and empty text are "not there". A list
/// replaces the one beneath as a whole (qos.md 12, Q32), also an empty one.
pub(super) fn overlay(base: &mut Value, over: &Value) {
    match over {
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::Object(members) => {
            if !base.is_object() {
                *base = Value::Object(serde_json::Map::new());
            }
            let Some(map) = base.as_object_mut() else { return };
            for (name, member) in members {
                overlay(map.entry(name.clone()).or_insert(Value::Null), member);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => base.clone_from(over),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laid(mut base: Value, over: &Value) -> Value {
        overlay(&mut base, over);
        base
    }

    #[test]
    fn what_is_there_wins_and_lists_are_replaced() {
        let base = json!({"a": 1, "b": {"c": true, "d": "x"}, "l": [{"n": 1, "m": 2}, 3]});
        let over = json!({"b": {"c": false, "d": "", "e": null}, "l": [{"n": 5}]});
        assert_eq!(
            laid(base.clone(), &over),
            json!({"a": 1, "b": {"c": false, "d": "x", "e": null}, "l": [{"n": 5}]})
        );
        assert_eq!(laid(base.clone(), &json!({"l": []}))["l"], json!([]));
        assert_eq!(laid(base.clone(), &json!({})), base);
        assert_eq!(laid(json!([1]), &json!({"a": 0})), json!({"a": 0}));
    }
}
