//! Bytes to documents to values: splitting, decoding within [`super::bounds`], and where an error stands.
//! Lines count from the start of the file, also in later documents.

use std::cell::Cell;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny};

use super::bounds::{MAX_DOCUMENTS, Unfold, refuse_yaml};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `*.yaml`, `*.yml`
    Yaml,
    /// `*.json`
    Json,
}

/// One document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// Its text.
    pub text: &'a str,
    /// Line in the file on which the text begins, from 1.
    pub line: usize,
    /// How it is written.
    pub format: Format,
}

/// Where and why decoding failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line in the file.
    pub line: usize,
    /// Path of the field; empty when none can be named.
    pub field: String,
    /// What is wrong.
    pub what: String,
}

impl Fault {
    fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, field: String::new(), what: what.into() }
    }
}

/// Cuts a file into its documents; blank ones are left out.
pub fn split(text: &str, format: Format) -> Result<Vec<Document<'_>>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Yaml => split_yaml(text),
        Format::Json => split_json(text),
    }
}

/// A line that begins with `---` starts a document wherever it stands, in scalars too (YAML 1.2, 9.1.2).
fn split_yaml(text: &str) -> Result<Vec<Document<'_>>, Fault> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 1, 0);
    let mut push = |from: usize, to: usize, line: usize| {
        let text = text.get(from..to).unwrap_or_default();
        if !is_blank(text) {
            documents.push(Document { text, line, format: Format::Yaml });
        }
        if documents.len() > MAX_DOCUMENTS {
            return Err(Fault::new(line, format!("the file has more than {MAX_DOCUMENTS} documents")));
        }
        Ok(())
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_marker && at > start {
            push(start, at, start_line)?;
            (start, start_line) = (at, index + 1);
        }
        at += line.len();
    }
    push(start, text.len(), start_line)?;
    Ok(documents)
}

/// Whether a document holds only comments, directives and markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.strip_prefix("---").unwrap_or(line).trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "..."
    })
}

fn split_json(text: &str) -> Result<Vec<Document<'_>>, Fault> {
    let mut documents = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let (mut from, mut line) = (0, 1);
    while let Some(value) = values.next() {
        value.map_err(|error| json_fault(&error))?;
        let to = values.byte_offset();
        let part = text.get(from..to).unwrap_or_default();
        let lead = part.len() - part.trim_start().len();
        line += newlines(part.get(..lead).unwrap_or_default());
        let text = part.get(lead..).unwrap_or_default();
        documents.push(Document { text, line, format: Format::Json });
        if documents.len() > MAX_DOCUMENTS {
            return Err(Fault::new(line, format!("the file has more than {MAX_DOCUMENTS} documents")));
        }
        line += newlines(text);
        from = to;
    }
    Ok(documents)
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

impl Document<'_> {
    /// Refuses a document that would cost too much to decode. To be asked once, before [`Self::decode`].
    pub fn check_bounds(&self) -> Result<(), Fault> {
        if self.format == Format::Json {
            return Ok(());
        }
        if let Some(why) = refuse_yaml(self.text) {
            return Err(Fault::new(self.line, why));
        }
        // Without an anchor there is nothing to unfold.
        if !(self.text.contains('&') && self.text.contains('*')) {
            return Ok(());
        }
        let budget = Cell::new(self.text.len().saturating_mul(2).saturating_add(1000));
        self.decode_seed(Unfold::new(&budget))
    }

    /// Decodes the document.
    pub fn decode<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Fault> {
        self.decode_seed(PhantomData)
    }

    /// Decodes the document with a seed.
    pub fn decode_seed<T, S>(&self, seed: S) -> Result<T, Fault>
    where
        S: for<'de> DeserializeSeed<'de, Value = T> + Copy,
    {
        match self.format {
            Format::Yaml => match yaml(self.text, seed) {
                Ok(value) => Ok(value),
                Err(error) => Err(self.locate(&error, seed)),
            },
            Format::Json => match json(self.text, seed) {
                Ok(value) => Ok(value),
                Err(error) => Err(self.locate_json(&error, seed)),
            },
        }
    }

    /// JSON is YAML, and that decoder knows the field's path; but it takes numbers for text.
    fn locate_json<T, S>(&self, error: &serde_json::Error, seed: S) -> Fault
    where
        S: for<'de> DeserializeSeed<'de, Value = T>,
    {
        let located = self.locate(error, seed);
        if !located.field.is_empty() {
            return located;
        }
        let fault = json_fault(error);
        let field = key_before(self.text, error).unwrap_or_default().to_owned();
        Fault { line: fault.line + self.line - 1, field, ..fault }
    }

    /// Decodes once more with empty lines in front, so that every line in the error counts from the start of
    /// the file.
    fn locate<T, S>(&self, error: &impl std::fmt::Display, seed: S) -> Fault
    where
        S: for<'de> DeserializeSeed<'de, Value = T>,
    {
        let unplaced = || Fault::new(self.line, error.to_string());
        if self.format == Format::Json && refuse_yaml(self.text).is_some() {
            return unplaced();
        }
        let mut padded = "\n".repeat(self.line - 1);
        padded.push_str(self.text);
        match yaml(&padded, seed) {
            Ok(_) => unplaced(),
            Err(error) => yaml_fault(&error, self.line),
        }
    }
}

fn yaml<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, serde_yaml_ng::Error> {
    seed.deserialize(serde_yaml_ng::Deserializer::from_str(text))
}

fn json<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, serde_json::Error> {
    seed.deserialize(&mut serde_json::Deserializer::from_str(text))
}

fn json_fault(error: &serde_json::Error) -> Fault {
    let what = error.to_string();
    let what = what.rfind(" at line ").and_then(|end| what.get(..end)).unwrap_or(&what);
    Fault::new(error.line().max(1), what)
}

/// The last key before the place of an error.
fn key_before<'a>(text: &'a str, error: &serde_json::Error) -> Option<&'a str> {
    let lines = text.split_inclusive('\n').take(error.line().checked_sub(1)?);
    let at = lines.map(str::len).sum::<usize>() + error.column();
    let before = text.get(..at.min(text.len()))?;
    let (before, _) = before.rsplit_once("\":")?;
    before.rsplit_once('"').map(|(_, key)| key)
}

/// The decoder puts the field's path before its message and the place behind it.
fn yaml_fault(error: &serde_yaml_ng::Error, document_line: usize) -> Fault {
    let line = error.location().map_or(document_line, |place| place.line()).max(document_line);
    let text = error.to_string();
    let place = format!(" at line {line} column ");
    let what = match text.rfind(&place) {
        Some(end) if !text.get(end + place.len()..).is_some_and(|rest| rest.contains(' ')) => {
            text.get(..end).unwrap_or(&text)
        }
        _ => &text,
    };
    match what.split_once(": ") {
        Some((field, what)) if is_field_path(field) => {
            Fault { line, field: field.to_owned(), what: what.to_owned() }
        }
        _ => Fault::new(line, what),
    }
}

fn is_field_path(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_/[]".contains(&b))
}
