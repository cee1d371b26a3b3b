//! One event of the audit log and its line in the file, collection.md 13.1.

use std::borrow::Cow;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::stamp::created_at;

/// Longest text of one field, in bytes; the rest is cut.
const MAX_FIELD: usize = 4096;

/// How much of a detail an event is: kept if `--audit-verbose` is 0 or at least this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub u32);

impl Level {
    /// Evictions.
    pub const EVICTION: Self = Self(0);
    /// Changes of BE's quota by suppression.
    pub const SUPPRESSION: Self = Self(1);
    /// File writes, creation of groups, results of hooks.
    pub const WRITE: Self = Self(3);
    /// Tasks moved between resctrl groups.
    pub const TASK: Self = Self(5);

    /// Whether an event of this level is kept, collection.md 13.1.
    pub fn is_kept_at(self, verbose: u32) -> bool {
        verbose == 0 || self.0 <= verbose
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The node.
    Node,
    /// A pod or one of its containers.
    Pod,
    /// A group of pods, e.g. a QoS class.
    Group,
    /// Something else.
    Unknown,
}

/// An event. Empty fields are left out of its line. The fields up to `message` are the reference's; `owner`,
/// `why` and `was` are our own and say what a value rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// RFC 3339 with a fraction, in local time.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub created_at: Cow<'static, str>,
    /// What it is about.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Cow<'static, str>,
    /// Name of the pod or group.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Cow<'static, str>,
    /// Id of the container.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub container: Cow<'static, str>,
    /// Kind of event, one word.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    /// What happened.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Cow<'static, str>,
    /// Whose claim it was.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner: Cow<'static, str>,
    /// What the claim rests on, one sentence.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: Cow<'static, str>,
    /// What was there before.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub was: Cow<'static, str>,
}

impl Event {
    /// An event of the node.
    pub fn of_node(reason: &'static str, message: String) -> Self {
        Self {
            subject: Some(Subject::Node),
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// A pod is evicted; `message` says for which feature (qos.md 7). To be recorded at [`Level::EVICTION`].
    pub fn evicted(namespace: &str, name: &str, message: String) -> Self {
        Self {
            subject: Some(Subject::Pod),
            namespace: namespace.to_owned().into(),
            name: name.to_owned().into(),
            reason: "evicted".into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// With the time at which it happened.
    #[must_use]
    pub fn at(self, at: SystemTime) -> Self {
        Self { created_at: created_at(at).into(), ..self }
    }

    /// Its line, with the line break. Each field is cut to its bound.
    pub fn line(mut self) -> Vec<u8> {
        for field in [
            &mut self.namespace,
            &mut self.name,
            &mut self.container,
            &mut self.message,
            &mut self.owner,
            &mut self.why,
            &mut self.was,
        ] {
            cut(field);
        }
        // An event is texts alone, which always can be written.
        let mut line = serde_json::to_vec(&self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Whether a line (without its line break) is an event.
    pub fn is_in(line: &[u8]) -> bool {
        // A list of fields would be read, too, but is none.
        line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<Self>(line).is_ok()
    }
}

fn cut(field: &mut Cow<'static, str>) {
    if field.len() > MAX_FIELD {
        let end = field.floor_char_boundary(MAX_FIELD);
        let text = field.get(..end).unwrap_or_default().to_owned();
        *field = text.into();
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn collection_row_77_what_is_kept() {
        let kept = |verbose| [0, 3, 5].map(|level| Level(level).is_kept_at(verbose));
        assert_eq!((kept(3), kept(0)), ([true, true, false], [true; 3]));
        assert!(Level::EVICTION.is_kept_at(1) && !Level::WRITE.is_kept_at(1));
    }

    #[test]
    fn a_line_has_the_fields_of_13_1_and_no_empty_ones() {
        let event = Event::evicted("shop", "web", "kill pod: web\n\"quoted\"".into()).at(UNIX_EPOCH);
        let line = String::from_utf8(event.line()).unwrap();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["createdAt", "message", "name", "namespace", "reason", "type"]);
        assert_eq!((&value["type"], &value["reason"]), (&"pod".into(), &"evicted".into()));
        assert!(Event::is_in(line.trim_end().as_bytes()));
        let node = String::from_utf8(Event::of_node("X", String::new()).line()).unwrap();
        assert_eq!(node, "{\"type\":\"node\",\"reason\":\"X\"}\n");
    }

    #[test]
    fn a_line_is_bounded_whatever_is_in_it() {
        let long = "ä".repeat(100_000);
        let event = Event { why: long.clone().into(), ..Event::evicted(&long, &long, long.clone()) };
        let line = event.line();
        assert!(line.len() < 4 * MAX_FIELD + 200, "{}", line.len());
        assert!(Event::is_in(&line[..line.len() - 1]));
    }

    #[test]
    fn lines_of_others_are_events_or_not() {
        assert!(Event::is_in(br#"{"createdAt":"x","level":3,"more":[1]}"#));
        for line in [&b""[..], b"x", b"{", b"[]", b"7", b"\xff", br#"{"name":1}"#, br#"{"type":"house"}"#] {
            assert!(!Event::is_in(line), "{line:?}");
        }
    }
}
