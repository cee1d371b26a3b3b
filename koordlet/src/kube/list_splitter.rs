//! Cuts the JSON text of a Kubernetes list into its items while it arrives, in chunks of any size. Only one item is
//! held at a time.
//!
//! It finds where members and items begin and end, by brackets and quotes alone; that what lies between is JSON is
//! checked by whoever decodes it: each item by its taker, each other member here. So a text is accepted only if all
//! of it is JSON.

use serde::de::IgnoredAny;

/// Longest text of one item, or of another member of the list, in bytes. The API server stores no object above 1.5 MiB.
pub const MAX_ITEM_BYTES: usize = 4 << 20;
/// Longest text of a whole list, in bytes.
pub const MAX_LIST_BYTES: usize = 128 << 20;
/// Deepest nesting of brackets in an item.
const MAX_DEPTH: u32 = 100;
/// Longest key of a member of the list.
const MAX_KEY_BYTES: usize = 256;

/// Why a text is not a list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// Something else was due at that place.
    #[error("the answer is not a list of pods: {what} was expected at byte {at}")]
    Syntax {
        /// Place in the text.
        at: usize,
        /// What was due.
        what: &'static str,
    },
    /// A part is not JSON.
    #[error("the answer is not JSON in the part that ends at byte {at}")]
    Json {
        /// Place in the text.
        at: usize,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The text ended in the middle.
    #[error("the answer ends after {0} bytes in the middle of the list")]
    CutShort(usize),
    /// It is a list of something else, or an error in the form of a `Status`.
    #[error("the answer is of kind {0}, not PodList")]
    Kind(String),
    /// The same member came twice.
    #[error("the answer has two members {0}")]
    Twice(&'static str),
    /// Brackets within brackets.
    #[error("the answer is nested deeper than {MAX_DEPTH} levels at byte {0}")]
    TooDeep(usize),
    /// One part is too long.
    #[error("one item of the answer is longer than {MAX_ITEM_BYTES} bytes")]
    ItemTooLong,
    /// The whole is too long.
    #[error("the answer is longer than {MAX_LIST_BYTES} bytes")]
    ListTooLong,
    /// More items than any node has.
    #[error("the answer has more than {0} items")]
    TooManyItems(usize),
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The list's `{`.
    Start,
    /// A key or the list's `}`.
    FirstKey,
    /// A key.
    Key,
    /// The rest of a key.
    InKey,
    /// `:`
    Colon,
    /// The value of a member.
    Value,
    /// The rest of it.
    InValue,
    /// `,` or the list's `}`.
    AfterValue,
    /// An item or `]`.
    FirstItem,
    /// An item.
    Item,
    /// The rest of it.
    InItem,
    /// `,` or `]`.
    AfterItem,
    /// Blanks.
    End,
}

/// Members of the list that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Kind,
    Items,
    Other,
}

/// The state between two chunks.
#[derive(Debug)]
pub struct ListSplitter {
    at: At,
    member: Member,
    /// Text of the key, member or item that has begun.
    part: Vec<u8>,
    scan: Scan,
    /// Bytes of earlier chunks.
    before: usize,
    has_kind: bool,
    has_items: bool,
}

impl Default for ListSplitter {
    fn default() -> Self {
        Self {
            at: At::Start,
            member: Member::Other,
            part: Vec::new(),
            scan: Scan::default(),
            before: 0,
            has_kind: false,
            has_items: false,
        }
    }
}

impl ListSplitter {
    /// Takes the next chunk and hands each item that ends in it to `take`, with the place of its end. After an error
    /// nothing more must be fed.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        take: &mut impl FnMut(&[u8], usize) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        if self.before.saturating_add(chunk.len()) > MAX_LIST_BYTES {
            return Err(ListError::ListTooLong);
        }
        let mut rest = chunk;
        while let Some(&byte) = rest.first() {
            let at = self.before + (chunk.len() - rest.len());
            let taken = match self.at {
                At::InKey | At::InValue | At::InItem => self.go_on(rest, at, take)?,
                _ if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => 1,
                _ => self.step(byte, at)?,
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        self.before += chunk.len();
        Ok(())
    }

    /// Whether the list was whole.
    pub fn finish(self) -> Result<(), ListError> {
        match self.at {
            At::End if self.has_items => Ok(()),
            At::End => Err(ListError::Syntax { at: self.before, what: "a member \"items\" before the end" }),
            _ => Err(ListError::CutShort(self.before)),
        }
    }

    /// Takes one byte between parts, or leaves it to the part that begins with it: bytes taken.
    fn step(&mut self, byte: u8, at: usize) -> Result<usize, ListError> {
        let expected = |what| Err(ListError::Syntax { at, what });
        self.at = match (self.at, byte) {
            (At::Start, b'{') => At::FirstKey,
            (At::FirstKey | At::Key, b'"') => return Ok(self.begin(At::InKey)),
            (At::FirstKey | At::AfterValue, b'}') => At::End,
            (At::Colon, b':') => At::Value,
            (At::Value, b'[') if self.member == Member::Items => At::FirstItem,
            (At::Value, _) => return Ok(self.begin(At::InValue)),
            (At::AfterValue, b',') => At::Key,
            (At::FirstItem | At::Item, b'{') => return Ok(self.begin(At::InItem)),
            (At::FirstItem | At::AfterItem, b']') => At::AfterValue,
            (At::AfterItem, b',') => At::Item,
            (At::Start, _) => return expected("the list's {"),
            (At::FirstKey | At::Key, _) => return expected("a member"),
            (At::Colon, _) => return expected("a :"),
            (At::AfterValue, _) => return expected("a , or the list's }"),
            (At::FirstItem | At::Item, _) => return expected("an item's {"),
            (At::AfterItem, _) => return expected("a , or ]"),
            (At::End, _) => return expected("the end"),
            (At::InKey | At::InValue | At::InItem, _) => return expected("nothing"),
        };
        Ok(1)
    }

    fn begin(&mut self, at: At) -> usize {
        self.at = at;
        self.part.clear();
        self.scan = Scan::default();
        0
    }

    /// Goes on with the part that has begun: bytes taken.
    fn go_on(
        &mut self,
        rest: &[u8],
        at: usize,
        take: &mut impl FnMut(&[u8], usize) -> Result<(), ListError>,
    ) -> Result<usize, ListError> {
        let (taken, ended) = self.scan.run(rest).map_err(|offset| ListError::TooDeep(at + offset))?;
        let longest = if self.at == At::InKey { MAX_KEY_BYTES } else { MAX_ITEM_BYTES };
        if self.part.len() + taken > longest {
            return Err(ListError::ItemTooLong);
        }
        self.part.extend_from_slice(rest.get(..taken).unwrap_or_default());
        if !ended {
            return Ok(taken);
        }
        let end = at + taken;
        self.at = match self.at {
            At::InKey => {
                self.key(end)?;
                At::Colon
            }
            At::InItem => {
                take(&self.part, end)?;
                At::AfterItem
            }
            _ => {
                self.value(end)?;
                At::AfterValue
            }
        };
        Ok(taken)
    }

    fn key(&mut self, at: usize) -> Result<(), ListError> {
        let key: String = self.decode(at)?;
        let (member, seen, name) = match &*key {
            "kind" => (Member::Kind, &mut self.has_kind, "kind"),
            "items" => (Member::Items, &mut self.has_items, "items"),
            _ => {
                self.member = Member::Other;
                return Ok(());
            }
        };
        self.member = member;
        if std::mem::replace(seen, true) { Err(ListError::Twice(name)) } else { Ok(()) }
    }

    /// A member that is no array of items.
    fn value(&mut self, at: usize) -> Result<(), ListError> {
        match self.member {
            Member::Other => self.decode::<IgnoredAny>(at).map(|_| ()),
            Member::Kind => {
                let kind: String = self.decode(at)?;
                if kind == "PodList" { Ok(()) } else { Err(ListError::Kind(kind.chars().take(80).collect())) }
            }
            // Go writes an empty list as `null`.
            Member::Items if self.part == b"null" => Ok(()),
            Member::Items => Err(ListError::Syntax { at, what: "an array of items" }),
        }
    }

    fn decode<T: serde::de::DeserializeOwned>(&self, at: usize) -> Result<T, ListError> {
        serde_json::from_slice(&self.part).map_err(|source| ListError::Json { at, source })
    }
}

/// Finds the end of one JSON value.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Bytes of `text` that belong to the value, and whether it ends with them. A number or a word ends before what
    /// follows it. The error is the place of a bracket that is too deep.
    fn run(&mut self, text: &[u8]) -> Result<(usize, bool), usize> {
        for (place, byte) in text.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return Ok((place + 1, true));
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(place);
                    }
                }
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 => return Ok((place + 1, true)),
                b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                    return Ok((place, true));
                }
                _ => {}
            }
        }
        Ok((text.len(), false))
    }
}
