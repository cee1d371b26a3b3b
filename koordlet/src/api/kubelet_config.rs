//! The kubelet's configuration as its `/configz` shows it (collection.md 7.5): the few fields that say which CPUs it
//! keeps or pins. Every other field is ignored, so that one of another version's form (`logging` has been such a
//! one) cannot hide these.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Part of a `KubeletConfiguration`. Empty text and maps stand for what is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletConfig {
    /// `none`, `static`.
    pub cpu_manager_policy: String,
    /// Options of that policy, e.g. `full-pcpus-only`.
    pub cpu_manager_policy_options: BTreeMap<String, String>,
    /// CPU list that the kubelet gives to no container.
    pub reserved_system_cpus: String,
    /// Amounts kept for the system, by resource name.
    pub system_reserved: BTreeMap<String, String>,
    /// Amounts kept for the kubelet, by resource name.
    pub kube_reserved: BTreeMap<String, String>,
    /// `none`, `best-effort`, `restricted`, `single-numa-node`.
    pub topology_manager_policy: String,
    /// `container`, `pod`.
    pub topology_manager_scope: String,
    /// Fields of another type than expected; they count as absent.
    pub skipped: Vec<String>,
}

/// An answer of `/configz` without a configuration in it.
#[derive(Debug, thiserror::Error)]
pub enum KubeletConfigError {
    /// Not JSON.
    #[error("the kubelet's configuration is not JSON")]
    Json(#[source] serde_json::Error),
    /// No object under `kubeletconfig`.
    #[error("the kubelet's answer has no object `kubeletconfig`")]
    Shape,
}

impl KubeletConfig {
    /// Reads the answer of `/configz`, `{"kubeletconfig": {...}}`.
    pub fn parse_configz(text: &str) -> Result<Self, KubeletConfigError> {
        let root: Value = serde_json::from_str(text).map_err(KubeletConfigError::Json)?;
        let config = root.get("kubeletconfig").and_then(Value::as_object);
        config.map(Self::from_fields).ok_or(KubeletConfigError::Shape)
    }

    /// Reads the fields of a `KubeletConfiguration`.
    pub fn from_fields(fields: &Map<String, Value>) -> Self {
        let mut reader = Reader { fields, skipped: Vec::new() };
        Self {
            cpu_manager_policy: reader.text("cpuManagerPolicy"),
            cpu_manager_policy_options: reader.texts("cpuManagerPolicyOptions"),
            reserved_system_cpus: reader.text("reservedSystemCPUs"),
            system_reserved: reader.texts("systemReserved"),
            kube_reserved: reader.texts("kubeReserved"),
            topology_manager_policy: reader.text("topologyManagerPolicy"),
            topology_manager_scope: reader.text("topologyManagerScope"),
            skipped: reader.skipped,
        }
    }
}

struct Reader<'a> {
    fields: &'a Map<String, Value>,
    skipped: Vec<String>,
}

impl Reader<'_> {
    fn text(&mut self, name: &str) -> String {
        match self.fields.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                self.skipped.push(format!("{name} is no text"));
                String::new()
            }
        }
    }

    fn texts(&mut self, name: &str) -> BTreeMap<String, String> {
        let entries = match self.fields.get(name) {
            None | Some(Value::Null) => return BTreeMap::new(),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                self.skipped.push(format!("{name} is no object"));
                return BTreeMap::new();
            }
        };
        let mut texts = BTreeMap::new();
        for (key, value) in entries {
            match value {
                Value::String(text) => texts.insert(key.clone(), text.clone()),
                Value::Number(number) => texts.insert(key.clone(), number.to_string()),
                _ => {
                    self.skipped.push(format!("{name}.{key:.80} is no text"));
                    None
                }
            };
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fields_are_read_whatever_stands_beside_them() {
        let text = r#"{"kubeletconfig":{"cpuManagerPolicy":"static","cpuManagerPolicyOptions":{"full-pcpus-only":"true"},
            "reservedSystemCPUs":"0-1","systemReserved":{"cpu":"500m"},"kubeReserved":{"cpu":1,"memory":null},
            "topologyManagerPolicy":"restricted","topologyManagerScope":7,"logging":{"flushFrequency":"5s"}}}"#;
        let config = KubeletConfig::parse_configz(text).unwrap();
        assert_eq!(config.cpu_manager_policy, "static");
        assert_eq!(config.cpu_manager_policy_options["full-pcpus-only"], "true");
        assert_eq!(
            (config.system_reserved["cpu"].as_str(), config.kube_reserved["cpu"].as_str()),
            ("500m", "1")
        );
        assert_eq!(
            (config.reserved_system_cpus.as_str(), config.topology_manager_scope.as_str()),
            ("0-1", "")
        );
        assert_eq!(config.skipped, ["kubeReserved.memory is no text", "topologyManagerScope is no text"]);
        let null = r#"{"kubeletconfig":{"kubeReserved":null,"cpuManagerPolicy":null}}"#;
        assert_eq!(KubeletConfig::parse_configz(null).unwrap(), KubeletConfig::default());
    }

    #[test]
    fn an_answer_without_a_configuration_is_an_error() {
        for text in ["", "{", "[]", "{}", r#"{"kubeletconfig":[]}"#, r#"{"kubeletconfig":null}"#] {
            assert!(KubeletConfig::parse_configz(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            drop(KubeletConfig::parse_configz(&text));
        }
    }
}
