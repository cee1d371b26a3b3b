//! What changed between two JSON values, as a merge patch (RFC 7396): members that differ, `null` for those that are
//! gone. Lists are replaced whole.

use serde_json::{Map, Value};

/// The patch that makes `new` of `old`; `None` if they are equal. A member that is `null` in `new` counts as absent,
/// since such a patch cannot say anything else.
pub fn diff(old: &Value, new: &Value) -> Option<Value> {
    let Value::Object(new_members) = new else { return (old != new).then(|| new.clone()) };
    let none = Map::new();
    let old_members = old.as_object().unwrap_or(&none);
    let mut patch = Map::new();
    for (name, value) in new_members.iter().filter(|(_, value)| !value.is_null()) {
        if let Some(change) = diff(old_members.get(name).unwrap_or(&Value::Null), value) {
            patch.insert(name.clone(), change);
        }
    }
    for name in old_members.keys() {
        if new_members.get(name).is_none_or(Value::is_null) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    (!patch.is_empty() || !old.is_object()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// RFC 7396 section 2, for the test.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(changes) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, change) in changes {
            if change.is_null() {
                target.as_object_mut().unwrap().remove(name);
            } else {
                apply(&mut target[name], change);
            }
        }
    }

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let old = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}, "gone": true});
        let new = json!({"a": 1, "b": {"c": [1, 3], "d": "x"}, "new": {}, "null": null});
        let patch = diff(&old, &new).unwrap();
        assert_eq!(patch, json!({"b": {"c": [1, 3]}, "gone": null, "new": {}}));
        assert_eq!(diff(&old, &old), None);
        assert_eq!(diff(&Value::Null, &json!({})), Some(json!({})), "an empty object is not nothing");
    }

    proptest::proptest! {
        #[test]
        fn a_patch_applied_to_the_old_gives_the_new(old in value(), new in value()) {
            let mut patched = old.clone();
            if let Some(patch) = diff(&old, &new) {
                apply(&mut patched, &patch);
            }
            assert_eq!(patched, new);
        }
    }

    fn value() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[abc]", tree, 0..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }
}
