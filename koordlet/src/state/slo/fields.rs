//! The fields of a policy section, read one by one. What is wrong with them is collected, not returned, so that all of
//! it is told at once; fields that nobody asks for are told too, since they mean nothing.

use std::fmt;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::api::quantity::Quantity;
use crate::units::Percent;

/// Faults that are told of one part of the policy; more say no more.
const MAX_TOLD: usize = 32;

/// Unknown fields that are told of one section.
const MAX_UNKNOWN: usize = 8;

/// A field that was refused, and what applies instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SloNotice {
    /// Path of the field, e.g. `spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent`.
    pub field: String,
    /// What was given, shortened.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What applies instead.
    pub applies: String,
}

impl SloNotice {
    /// A notice that does not say yet what applies instead.
    pub(super) fn new(field: String, value: &Value, problem: &str) -> Self {
        let value = value.to_string().chars().take(80).collect();
        Self { field, value, problem: problem.to_owned(), applies: String::new() }
    }
}

impl fmt::Display for SloNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, problem, applies } = self;
        write!(f, "{field}: {value} {problem}; {applies}")
    }
}

/// What is wrong with a part of the policy.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// With these the part cannot be used.
    pub(super) refused: Vec<SloNotice>,
    /// These change nothing, or act as something else.
    pub(super) odd: Vec<SloNotice>,
}

impl Faults {
    pub(super) fn refuse(&mut self, field: String, value: &Value, problem: &str) {
        if self.refused.len() < MAX_TOLD {
            self.refused.push(SloNotice::new(field, value, problem));
        }
    }

    fn tell(&mut self, field: String, value: &Value, problem: &str, applies: String) {
        if self.odd.len() < MAX_TOLD {
            self.odd.push(SloNotice { applies, ..SloNotice::new(field, value, problem) });
        }
    }
}

/// The fields of one section.
pub(super) struct Fields<'a, 'f> {
    path: String,
    map: Option<&'a Map<String, Value>>,
    asked: Vec<&'static str>,
    faults: &'f mut Faults,
}

impl<'a, 'f> Fields<'a, 'f> {
    /// The section at `path`; absent and null are both one without fields, as in Go.
    pub(super) fn at(path: String, value: Option<&'a Value>, faults: &'f mut Faults) -> Self {
        let map = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(other) => {
                faults.refuse(path.clone(), other, "is not an object");
                None
            }
        };
        Self { path, map, asked: Vec::new(), faults }
    }

    /// Reads the section at `path`, and tells the fields in it that `read` did not ask for.
    pub(super) fn read<T>(
        path: String,
        value: Option<&'a Value>,
        faults: &'f mut Faults,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let mut fields = Self::at(path, value, faults);
        let result = read(&mut fields);
        let Self { path, map, asked, faults } = fields;
        let unknown = map.into_iter().flatten().filter(|(name, _)| !asked.contains(&name.as_str()));
        for (name, value) in unknown.take(MAX_UNKNOWN) {
            let field = format!("{path}.{name:.80}");
            faults.tell(field, value, "is in a field that is not known here", "it is ignored".to_owned());
        }
        result
    }

    /// Reads the section `name` within this one.
    pub(super) fn section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields<'a, '_>) -> T,
    ) -> T {
        let value = self.value(name);
        Fields::read(self.field(name), value, self.faults, read)
    }

    /// The entries of list `name`, each with its path; `None` without a list.
    pub(super) fn list(&mut self, name: &'static str) -> Option<Vec<(String, &'a Value)>> {
        let list = self.get(name, "is not a list", Value::as_array)?;
        let field = self.field(name);
        Some(list.iter().enumerate().map(|(index, entry)| (format!("{field}[{index}]"), entry)).collect())
    }

    /// The members of object `name`, e.g. of a map of features.
    pub(super) fn members(&mut self, name: &'static str) -> Option<&'a Map<String, Value>> {
        self.get(name, "is not an object", Value::as_object)
    }

    /// Fields that somebody else reads.
    pub(super) fn know(&mut self, names: &[&'static str]) {
        self.asked.extend_from_slice(names);
    }

    /// Where faults are told.
    pub(super) fn faults(&mut self) -> &mut Faults {
        self.faults
    }

    /// The path of field `name`.
    pub(super) fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// The value of `name` through `read`; absent and null are both "not set".
    pub(super) fn get<T>(
        &mut self,
        name: &'static str,
        problem: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(name)?;
        let read = read(value);
        if read.is_none() {
            self.faults.refuse(self.field(name), value, problem);
        }
        read
    }

    fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.push(name);
        self.map?.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.get(name, "is not true or false", Value::as_bool)
    }

    /// A whole number of that range.
    pub(super) fn whole(&mut self, name: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let problem = match (*range.start(), *range.end()) {
            (i64::MIN, i64::MAX) => "is not a whole number".to_owned(),
            (least, i64::MAX) => format!("is not a whole number from {least} up"),
            (least, most) => format!("is not a whole number from {least} to {most}"),
        };
        self.get(name, &problem, |value| value.as_i64().filter(|number| range.contains(number)))
    }

    /// Any whole number.
    pub(super) fn any_whole(&mut self, name: &'static str) -> Option<i64> {
        self.whole(name, i64::MIN..=i64::MAX)
    }

    /// A whole number from `least` up.
    pub(super) fn unsigned(&mut self, name: &'static str, least: i64) -> Option<u64> {
        self.whole(name, least..=i64::MAX).and_then(|number| u64::try_from(number).ok())
    }

    /// A percentage from 0 to 100.
    pub(super) fn percent(&mut self, name: &'static str) -> Option<Percent> {
        self.whole(name, 0..=100).map(Percent)
    }

    /// A percentage from 0 up.
    pub(super) fn large_percent(&mut self, name: &'static str) -> Option<Percent> {
        self.whole(name, 0..=i64::MAX).map(Percent)
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.get(name, "is not a text", Value::as_str)
    }

    pub(super) fn quantity(&mut self, name: &'static str) -> Option<Quantity> {
        self.get(name, "is not a quantity", |value| serde_json::from_value(value.clone()).ok())
    }

    /// One of some words; another one is refused. Empty text is "not set".
    pub(super) fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(name).filter(|text| !text.is_empty())?;
        let found = find(text, words);
        if found.is_none() {
            self.faults.refuse(self.field(name), &Value::from(text), &none_of(words));
        }
        found
    }

    /// One of some words; another one acts as the first of them.
    pub(super) fn word_or_first<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(name).filter(|text| !text.is_empty())?;
        find(text, words).or_else(|| {
            let (first, value) = words.first()?;
            let (field, acts) = (self.field(name), format!("it acts as {first:?}"));
            self.faults.tell(field, &Value::from(text), &none_of(words), acts);
            Some(*value)
        })
    }
}

fn find<T: Copy>(text: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

fn none_of<T>(words: &[(&str, T)]) -> String {
    let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    format!("is none of {}", words.join(", "))
}
