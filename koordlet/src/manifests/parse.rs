//! A manifest file to objects, design.md 5. One bad document does not spoil the others.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::bounds::{MAX_ERRORS, MAX_FILE_BYTES};
use super::document::{Document, Fault, Format, split};
use super::objects::{Located, ManifestError, Object};
use crate::api::node::Node;
use crate::api::node_slo::{NodeSlo, NodeSloSpec};
use crate::api::pod::{ObjectMeta, Pod};
use crate::api::topology::NodeResourceTopology;

/// What a file yields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedFile {
    /// Usable objects in the order of the file.
    pub objects: Vec<Located>,
    /// Objects that are left out, with the reason: another node's, or of a kind that is not used.
    pub ignored: Vec<String>,
    /// What could not be used.
    pub errors: Vec<ManifestError>,
}

/// Parses a file's bytes for the node `node_name`; an empty name takes every node's objects.
pub fn parse_file(file: &Path, bytes: &[u8], node_name: &str) -> ParsedFile {
    let mut reader = Reader { file: file.into(), node_name, parsed: ParsedFile::default() };
    match documents(file, bytes) {
        Ok(documents) => {
            for document in documents {
                reader.read(document);
                if reader.parsed.errors.len() >= MAX_ERRORS {
                    break;
                }
            }
        }
        Err(fault) => reader.fail(fault),
    }
    reader.parsed
}

fn documents<'a>(file: &Path, bytes: &'a [u8]) -> Result<Vec<Document<'a>>, Fault> {
    let fault = |line, what: String| Fault { line, field: String::new(), what };
    if bytes.len() > MAX_FILE_BYTES {
        return Err(fault(1, format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        fault(good.split(|byte| *byte == b'\n').count(), "it is not UTF-8".to_owned())
    })?;
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    split(text, if is_json { Format::Json } else { Format::Yaml })
}

/// What has to be known of an object before it is decoded.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
    items: Option<Vec<Head>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Node,
    Pod,
    NodeSlo,
    Topology,
    Unused,
}

/// The kinds in use with their API group; the version is not asked for.
const KINDS: &[(&str, &str, Kind)] = &[
    ("", "Node", Kind::Node),
    ("", "Pod", Kind::Pod),
    ("slo.koordinator.sh", "NodeSLO", Kind::NodeSlo),
    ("topology.node.k8s.io", "NodeResourceTopology", Kind::Topology),
];

impl Head {
    /// The kind; `fallback` is what a list says of items that do not say it themselves.
    fn kind(&self, fallback: Option<&str>) -> Option<Kind> {
        let name = self.kind.as_deref().or(fallback)?;
        let group = self.api_version.as_deref().map(|version| version.split_once('/').map_or("", |(g, _)| g));
        let of_kind = |(g, n, _): &&(&str, &str, Kind)| *n == name && group.is_none_or(|group| group == *g);
        Some(KINDS.iter().find(of_kind).map_or(Kind::Unused, |(_, _, kind)| *kind))
    }

    /// `Pod` for a `PodList`, empty for a plain `List`.
    fn list_of(&self) -> Option<&str> {
        self.kind.as_deref()?.strip_suffix("List")
    }
}

/// An object as decoded, not yet checked.
enum Decoded {
    Node(Node),
    Pod(Pod),
    NodeSlo(NodeSlo),
    Topology(NodeResourceTopology),
    Unused,
}

struct Reader<'a> {
    file: Arc<Path>,
    node_name: &'a str,
    parsed: ParsedFile,
}

impl Reader<'_> {
    fn fail(&mut self, fault: Fault) {
        let Fault { line, field, what } = fault;
        self.parsed.errors.push(ManifestError { file: self.file.to_path_buf(), line, field, what });
    }

    fn fail_at(&mut self, line: usize, field: String, what: &str) {
        self.fail(Fault { line, field, what: what.to_owned() });
    }

    fn read(&mut self, document: Document<'_>) {
        let head = document.check_bounds().and_then(|()| document.decode::<Head>());
        let decoded = head.and_then(|head| match head.list_of() {
            Some(item_kind) => {
                let fallback = Some(item_kind).filter(|kind| !kind.is_empty());
                let items = head.items.as_deref().unwrap_or_default();
                let kinds: Vec<_> = items.iter().map(|item| item.kind(fallback)).collect();
                let decoded =
                    if kinds.is_empty() { Vec::new() } else { document.decode_seed(ListSeed(&kinds))? };
                Ok(decoded.into_iter().enumerate().map(|(i, item)| (format!("items[{i}]."), item)).collect())
            }
            None => document.decode_seed(ObjectSeed(head.kind(None))).map(|one| vec![(String::new(), one)]),
        });
        match decoded {
            Ok(items) => items.into_iter().for_each(|(at, item)| self.take(document, &at, item)),
            Err(fault) => self.fail(fault),
        }
    }

    /// Checks one object; `at` is its path in the document.
    fn take(&mut self, document: Document<'_>, at: &str, decoded: Decoded) {
        let line = document.line;
        let object = match decoded {
            Decoded::Unused => {
                self.parsed.ignored.push(format!("line {line}: {at}kind is not used here"));
                return;
            }
            Decoded::Pod(pod) => self.check_pod(line, at, pod),
            Decoded::Node(node) => {
                self.is_for_this_node(line, at, &node.metadata).then(|| Object::Node(Arc::new(node)))
            }
            Decoded::NodeSlo(slo) => {
                self.is_for_this_node(line, at, &slo.metadata).then(|| Object::NodeSlo(Arc::new(slo)))
            }
            Decoded::Topology(topology) => self
                .is_for_this_node(line, at, &topology.metadata)
                .then(|| Object::Topology(Arc::new(topology))),
        };
        if let Some(object) = object {
            let fields = match &object {
                Object::NodeSlo(slo) => field_lines(document, &slo.spec),
                _ => BTreeMap::new(),
            };
            let file = Arc::clone(&self.file);
            self.parsed.objects.push(Located { object, file, line, fields: Arc::new(fields) });
        }
    }

    fn is_for_this_node(&mut self, line: usize, at: &str, metadata: &ObjectMeta) -> bool {
        if metadata.name.is_empty() {
            self.fail_at(line, format!("{at}metadata.name"), "it is missing");
            return false;
        }
        let ours = self.node_name.is_empty() || metadata.name == self.node_name;
        if !ours {
            self.parsed.ignored.push(format!("line {line}: {at}metadata.name is {:?}", metadata.name));
        }
        ours
    }

    fn check_pod(&mut self, line: usize, at: &str, mut pod: Pod) -> Option<Object> {
        let bound = &pod.spec.node_name;
        if !bound.is_empty() && !self.node_name.is_empty() && bound != self.node_name {
            let name = &pod.metadata.name;
            self.parsed.ignored.push(format!("line {line}: {at}spec.nodeName of pod {name} is {bound:?}"));
            return None;
        }
        let uid = pod.metadata.uid.as_str();
        let problem = if uid.is_empty() {
            Some("it is missing; a pod's cgroup is named after its UID")
        } else if uid.len() > 253 || !uid.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) {
            Some("it is not a UID (letters, digits, - and _)")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.fail_at(line, format!("{at}metadata.uid"), problem);
            return None;
        }
        if pod.metadata.name.is_empty() {
            self.fail_at(line, format!("{at}metadata.name"), "it is missing");
            return None;
        }
        if pod.metadata.namespace.is_empty() {
            "default".clone_into(&mut pod.metadata.namespace);
        }
        Some(Object::Pod(Arc::new(pod)))
    }
}

/// Decodes one object of a known kind.
#[derive(Clone, Copy)]
struct ObjectSeed(Option<Kind>);

impl<'de> DeserializeSeed<'de> for ObjectSeed {
    type Value = Decoded;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Decoded, D::Error> {
        match self.0 {
            Some(Kind::Node) => Node::deserialize(deserializer).map(Decoded::Node),
            Some(Kind::Pod) => Pod::deserialize(deserializer).map(Decoded::Pod),
            Some(Kind::NodeSlo) => NodeSlo::deserialize(deserializer).map(Decoded::NodeSlo),
            Some(Kind::Topology) => NodeResourceTopology::deserialize(deserializer).map(Decoded::Topology),
            Some(Kind::Unused) => IgnoredAny::deserialize(deserializer).map(|_| Decoded::Unused),
            None => Err(serde::de::Error::custom("kind: it is missing")),
        }
    }
}

/// Decodes a list whose items' kinds are known.
#[derive(Clone, Copy)]
struct ListSeed<'a>(&'a [Option<Kind>]);

impl<'de> DeserializeSeed<'de> for ListSeed<'_> {
    type Value = Vec<Decoded>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListSeed<'_> {
    type Value = Vec<Decoded>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut decoded = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                decoded = map.next_value_seed(ItemsSeed(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(decoded)
    }
}

struct ItemsSeed<'a>(&'a [Option<Kind>]);

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = Vec<Decoded>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = Vec<Decoded>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut decoded = Vec::with_capacity(self.0.len());
        while let Some(item) =
            items.next_element_seed(ObjectSeed(self.0.get(decoded.len()).copied().flatten()))?
        {
            decoded.push(item);
        }
        Ok(decoded)
    }
}

/// Lines of a NodeSLO's sections and of the fields in them.
fn field_lines(document: Document<'_>, spec: &NodeSloSpec) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    let Ok(Value::Object(sections)) = serde_json::to_value(spec) else { return lines };
    for (section, value) in sections {
        let Some(start) = find_key(document.text, &section) else { continue };
        let line_at = |offset: usize| {
            document.line + document.text.get(..offset).unwrap_or_default().matches('\n').count()
        };
        lines.insert(format!("spec.{section}"), line_at(start));
        for field in value.as_object().into_iter().flat_map(|fields| fields.keys()) {
            let below = document.text.get(start..).unwrap_or_default();
            if let Some(offset) = find_key(below, field) {
                lines.insert(format!("spec.{section}.{field}"), line_at(start + offset));
            }
        }
    }
    lines
}

/// Where `key` stands as a key, quoted or not.
fn find_key(text: &str, key: &str) -> Option<usize> {
    text.match_indices(key).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        let after = text.get(at + key.len()..).unwrap_or_default();
        let after = after.strip_prefix(['"', '\'']).unwrap_or(after).trim_start();
        after.starts_with(':') && before.is_none_or(|c| c.is_whitespace() || "\"'{,".contains(c))
    })
}

#[cfg(test)]
mod tests;
