//! What a stand-in API server keeps: objects by path, their versions, and every change for those who watch.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Where an object or a collection is: `/apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL[/NAME[/status]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) collection: String,
    pub(crate) name: Option<String>,
    /// `status`, as a rule.
    pub(crate) part: Option<String>,
}

impl Place {
    /// The place that a path names; `None` where there is none.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let version = match *parts.first()? {
            "api" => 2,
            "apis" => 3,
            _ => return None,
        };
        let is_namespaced = parts.get(version) == Some(&"namespaces") && parts.len() > version + 2;
        let plural = if is_namespaced { version + 2 } else { version };
        let text = |index: usize| parts.get(index).map(|part| (*part).to_owned());
        let collection = format!("/{}", parts.get(..=plural)?.join("/"));
        (parts.len() <= plural + 3).then(|| Self {
            collection,
            name: text(plural + 1),
            part: text(plural + 2),
        })
    }
}

/// Why a write is refused: an HTTP status and the reason that goes with it.
pub(crate) type Refusal = (u16, &'static str);

/// Nothing is there.
pub(crate) const NOT_FOUND: Refusal = (404, "NotFound");
/// Somebody else was there before.
const CONFLICT: Refusal = (409, "Conflict");
/// So is another of this name.
const EXISTS: Refusal = (409, "AlreadyExists");
/// Not an object with a name.
const INVALID: Refusal = (422, "Invalid");

/// A change, as a watch tells it.
struct Change {
    version: u64,
    collection: String,
    name: String,
    kind: &'static str,
    object: Value,
}

/// The objects.
#[derive(Default)]
pub(crate) struct ObjectStore {
    version: u64,
    /// By collection and name.
    objects: BTreeMap<(String, String), Value>,
    changes: Vec<Change>,
}

impl ObjectStore {
    /// Version of the last change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// An object.
    pub(crate) fn get(&self, collection: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(collection.to_owned(), name.to_owned()))
    }

    /// A list of the objects of a collection, or of the one with this name.
    pub(crate) fn list(&self, collection: &str, name: Option<&str>) -> Value {
        let is_meant = |key: &(String, String)| key.0 == collection && name.is_none_or(|name| key.1 == name);
        let items: Vec<_> =
            self.objects.iter().filter(|(key, _)| is_meant(key)).map(|(_, object)| object).collect();
        let metadata = json!({"resourceVersion": self.version.to_string()});
        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
    }

    /// The first change after `version` that a watch of the collection, or of one name in it, tells: its version and
    /// the watch's line.
    pub(crate) fn next_change(
        &self,
        collection: &str,
        name: Option<&str>,
        version: u64,
    ) -> Option<(u64, Value)> {
        let change = self.changes.iter().find(|change| {
            change.version > version
                && change.collection == collection
                && name.is_none_or(|name| change.name == name)
        })?;
        Some((change.version, json!({"type": change.kind, "object": change.object})))
    }

    /// Adds an object.
    pub(crate) fn create(&mut self, collection: &str, mut object: Value) -> Result<Value, Refusal> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).ok_or(INVALID)?.to_owned();
        if self.get(collection, &name).is_some() {
            return Err(EXISTS);
        }
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).ok_or(INVALID)?;
        let uid = format!("{:08x}-0000-4000-8000-000000000000", self.version + 1);
        metadata.entry("uid").or_insert_with(|| uid.into());
        Ok(self.changed(collection, &name, "ADDED", object))
    }

    /// Merges a patch into an object (RFC 7396), if it names the object's version or none.
    pub(crate) fn patch(&mut self, collection: &str, name: &str, patch: &Value) -> Result<Value, Refusal> {
        let mut object = self.get(collection, name).ok_or(NOT_FOUND)?.clone();
        let version = |of: &Value| of.pointer("/metadata/resourceVersion").cloned();
        if version(patch).is_some_and(|wanted| Some(wanted) != version(&object)) {
            return Err(CONFLICT);
        }
        merge(&mut object, patch);
        Ok(self.changed(collection, name, "MODIFIED", object))
    }

    fn changed(&mut self, collection: &str, name: &str, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let (collection, name) = (collection.to_owned(), name.to_owned());
        self.objects.insert((collection.clone(), name.clone()), object.clone());
        let change = Change { version: self.version, collection, name, kind, object: object.clone() };
        self.changes.push(change);
        object
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(members) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_place() {
        let place = |path| {
            let Place { collection, name, part } = Place::of_path(path)?;
            Some((collection, name.unwrap_or_default(), part.unwrap_or_default()))
        };
        let wanted = |collection: &str, name: &str, part: &str| {
            Some((collection.to_owned(), name.to_owned(), part.to_owned()))
        };
        assert_eq!(place("/api/v1/nodes/a"), wanted("/api/v1/nodes", "a", ""));
        assert_eq!(place("/apis/g/v1/xs/a/status"), wanted("/apis/g/v1/xs", "a", "status"));
        assert_eq!(place("/api/v1/namespaces/n/events"), wanted("/api/v1/namespaces/n/events", "", ""));
        assert_eq!(place("/version"), None);
    }

    #[test]
    fn a_patch_of_an_old_version_is_refused_and_null_takes_away() {
        let mut store = ObjectStore::default();
        store
            .create("/api/v1/xs", json!({"metadata": {"name": "a"}, "s": {"x": 1, "y": 2}}))
            .expect("created");
        assert_eq!(store.create("/api/v1/xs", json!({"metadata": {"name": "a"}})), Err(EXISTS));
        let old = json!({"metadata": {"resourceVersion": "7"}});
        assert_eq!(store.patch("/api/v1/xs", "a", &old), Err(CONFLICT));
        let patch = json!({"metadata": {"resourceVersion": "1"}, "s": {"x": null, "z": {"n": null, "m": 3}}});
        let object = store.patch("/api/v1/xs", "a", &patch).expect("patched");
        assert_eq!(object["s"], json!({"y": 2, "z": {"m": 3}}));
        let (version, line) = store.next_change("/api/v1/xs", Some("a"), 1).expect("a change");
        assert_eq!((version, line["type"].as_str()), (2, Some("MODIFIED")));
        assert!(store.next_change("/api/v1/xs", None, 2).is_none());
    }
}
