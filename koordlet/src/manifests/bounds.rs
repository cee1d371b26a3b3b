//! Bounds on what a manifest may cost, so that no file can hang the agent or eat its memory. They are far
//! above any real manifest; JSON is decoded as a stream and needs fewer of them.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// Most documents in a file.
pub const MAX_DOCUMENTS: usize = 20_000;
/// Most errors that are reported of one file; after these it is not read on.
pub const MAX_ERRORS: usize = 10;
/// Most separators in one YAML document: its parser holds some hundred bytes for each.
const MAX_SEPARATORS: u64 = 1_000_000;
/// Most brackets times separators in one YAML document: its parser looks at every open bracket at each token.
const MAX_NESTING_WORK: u64 = 4_000_000_000;

/// Why a YAML document is not even tried.
pub fn refuse_yaml(document: &str) -> Option<&'static str> {
    let (mut separators, mut brackets) = (0u64, 0u64);
    for byte in document.bytes() {
        match byte {
            b'[' | b'{' => {
                brackets += 1;
                separators += 1;
            }
            b'\n' | b',' | b':' => separators += 1,
            _ => {}
        }
    }
    if separators > MAX_SEPARATORS {
        return Some("the document is too large for YAML (split it or use JSON)");
    }
    (brackets.saturating_mul(separators) > MAX_NESTING_WORK)
        .then_some("the document has too many brackets for YAML (split it or use JSON)")
}

/// Walks a document without keeping anything and fails once it unfolds, through aliases, to more than
/// `budget` nodes and bytes.
#[derive(Clone, Copy, Debug)]
pub struct Unfold<'a> {
    budget: &'a Cell<usize>,
}

impl<'a> Unfold<'a> {
    /// A walk that may take `budget`.
    pub fn new(budget: &'a Cell<usize>) -> Self {
        Self { budget }
    }

    fn take<E: Error>(self, cost: usize) -> Result<(), E> {
        let left = self.budget.get().checked_sub(cost);
        let left = left.ok_or_else(|| E::custom("aliases unfold to many times the size of the document"))?;
        self.budget.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Unfold<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalars {
    ($($visit:ident($value:ty)),*) => {
        $(fn $visit<E: Error>(self, _: $value) -> Result<(), E> {
            self.take(1)
        })*
    };
}

impl<'de> Visitor<'de> for Unfold<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without a tag")
    }

    scalars!(
        visit_bool(bool),
        visit_i64(i64),
        visit_u64(u64),
        visit_i128(i128),
        visit_u128(u128),
        visit_f64(f64)
    );

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.take(1)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.take(1)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.take(text.len().saturating_add(1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.take(1)?;
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.take(1)?;
        while entries.next_key_seed(self)?.is_some() {
            entries.next_value_seed(self)?;
        }
        Ok(())
    }
}
