//! A reader of raw kernel BTF (`/sys/kernel/btf/vmlinux`): where a member lies in its struct, what value an
//! enumerator has. Not a general BTF library, and it trusts nothing: any bytes give an answer or an error.
//!
//! The format is documented in the kernel's `Documentation/bpf/btf.rst`.

use std::ops::Range;

/// Why the bytes could not be read, or what is not in them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// The bytes are not BTF of this machine.
    #[error("not BTF of this machine: {0}")]
    Malformed(&'static str),
    /// A type refers to data that is not there.
    #[error("BTF is cut or damaged at type {0}")]
    Damaged(u32),
    /// There is no such struct, enum, member or enumerator.
    #[error("the kernel's BTF has no {0}")]
    Missing(String),
    /// A member has no whole-byte offset.
    #[error("{0} is a bit field")]
    BitField(String),
    /// Looking a member up took more steps than any real kernel asks for.
    #[error("{0} is nested beyond reason")]
    TooDeep(String),
}

/// Parsed BTF: the bytes and where each type starts.
pub struct Btf {
    data: Vec<u8>,
    strings: Range<usize>,
    /// Byte offset of type n + 1.
    starts: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Pointer,
    Array,
    Struct,
    Union,
    Enum,
    Forward,
    Typedef,
    Modifier,
    Function,
    FunctionProto,
    Variable,
    DataSection,
    Float,
    DeclTag,
    Enum64,
}

#[derive(Clone, Copy)]
struct Type {
    kind: Kind,
    name: u32,
    count: u16,
    has_bit_fields: bool,
    /// The type that is referred to, for kinds that do (else a size).
    reference: u32,
    /// Where the kind's own data starts.
    body: usize,
}

const MAGIC: u16 = 0xeb9f;
const TYPE_HEADER: usize = 12;
const MEMBER: usize = 12;
/// Members looked at for one question; the largest real struct has a few hundred.
const STEPS: u32 = 20_000;
const DEPTH: u32 = 12;

impl Btf {
    /// Reads the header and finds every type.
    pub fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        let word = |at| read_u32(&data, at).ok_or(BtfError::Malformed("the header is cut"));
        let first = word(0)?.to_ne_bytes();
        if u16::from_ne_bytes([first[0], first[1]]) != MAGIC {
            return Err(BtfError::Malformed("wrong magic number"));
        }
        let header = word(4)?;
        let section = |offset: u32, length: u32| -> Option<Range<usize>> {
            let start = header.checked_add(offset)?;
            let end = start.checked_add(length)?;
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            (range.end <= data.len()).then_some(range)
        };
        let outside = BtfError::Malformed("a section lies outside the data");
        let types = section(word(8)?, word(12)?).ok_or(outside.clone())?;
        let strings = section(word(16)?, word(20)?).ok_or(outside)?;
        let mut btf = Self { data, strings, starts: Vec::new() };
        btf.find_types(types)?;
        Ok(btf)
    }

    /// Byte offset of `member` in `struct name`, members of nested anonymous structs and unions included.
    pub fn member_offset(&self, name: &str, member: &str) -> Result<u32, BtfError> {
        let mut steps = STEPS;
        let missing = || BtfError::Missing(format!("struct {name} with a member {member}"));
        let mut damaged = None;
        for id in self.named(name, Kind::Struct) {
            match self.find_member(id, member, DEPTH, &mut steps) {
                Ok(Some(bits)) if bits % 8 == 0 => return Ok(bits / 8),
                Ok(Some(_)) => return Err(BtfError::BitField(format!("{name}.{member}"))),
                Ok(None) => {}
                Err(error) => damaged = Some(error),
            }
        }
        Err(damaged.unwrap_or_else(missing))
    }

    /// Value of `enumerator` in `enum name`.
    pub fn enum_value(&self, name: &str, enumerator: &str) -> Result<u32, BtfError> {
        for id in self.named(name, Kind::Enum) {
            let found = self.get(id)?;
            for at in entries(found, 8) {
                let word = |at| read_u32(&self.data, at).ok_or(BtfError::Damaged(id));
                if self.text(word(at)?) == Some(enumerator.as_bytes()) {
                    return word(at + 4);
                }
            }
        }
        Err(BtfError::Missing(format!("enum {name} with {enumerator}")))
    }

    /// Whether the kernel has the BTF tracepoint `name`.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.named(&format!("btf_trace_{name}"), Kind::Typedef).next().is_some()
    }

    fn find_types(&mut self, types: Range<usize>) -> Result<(), BtfError> {
        let mut at = types.start;
        while at < types.end {
            let id = u32::try_from(self.starts.len() + 1).map_err(|_| BtfError::Damaged(u32::MAX))?;
            let found = self.decode(id, at)?;
            self.starts.push(u32::try_from(at).map_err(|_| BtfError::Damaged(id))?);
            at = found.body.saturating_add(body_size(found));
        }
        if at == types.end { Ok(()) } else { Err(BtfError::Malformed("the last type is cut")) }
    }

    fn named(&self, name: &str, kind: Kind) -> impl Iterator<Item = u32> {
        (1..).zip(&self.starts).filter_map(move |(id, start)| {
            let found = self.decode(id, usize::try_from(*start).ok()?).ok()?;
            (found.kind == kind && self.text(found.name) == Some(name.as_bytes())).then_some(id)
        })
    }

    /// Offset of a member in bits.
    fn find_member(
        &self,
        id: u32,
        member: &str,
        depth: u32,
        steps: &mut u32,
    ) -> Result<Option<u32>, BtfError> {
        let outer = self.get(self.unmodified(id, steps)?)?;
        if !matches!(outer.kind, Kind::Struct | Kind::Union) {
            return Ok(None);
        }
        let too_deep = || BtfError::TooDeep(member.to_owned());
        for at in entries(outer, MEMBER) {
            *steps = steps.checked_sub(1).ok_or_else(too_deep)?;
            let word = |at| read_u32(&self.data, at).ok_or(BtfError::Damaged(id));
            let (name, inner, raw) = (self.text(word(at)?), word(at + 4)?, word(at + 8)?);
            let (bits, width) = if outer.has_bit_fields { (raw & 0x00ff_ffff, raw >> 24) } else { (raw, 0) };
            if name == Some(member.as_bytes()) {
                return if width == 0 { Ok(Some(bits)) } else { Err(BtfError::BitField(member.to_owned())) };
            }
            if name == Some(b"") && width == 0 {
                let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
                if let Some(further) = self.find_member(inner, member, depth, steps)? {
                    return bits.checked_add(further).map(Some).ok_or(BtfError::Damaged(id));
                }
            }
        }
        Ok(None)
    }

    /// Follows typedefs, `const`, `volatile` and tags.
    fn unmodified(&self, mut id: u32, steps: &mut u32) -> Result<u32, BtfError> {
        loop {
            let found = self.get(id)?;
            if !matches!(found.kind, Kind::Typedef | Kind::Modifier) {
                return Ok(id);
            }
            *steps = steps.checked_sub(1).ok_or_else(|| BtfError::TooDeep(format!("type {id}")))?;
            id = found.reference;
        }
    }

    fn get(&self, id: u32) -> Result<Type, BtfError> {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let start = index.and_then(|i| self.starts.get(i)).copied().ok_or(BtfError::Damaged(id))?;
        self.decode(id, usize::try_from(start).map_err(|_| BtfError::Damaged(id))?)
    }

    fn decode(&self, id: u32, at: usize) -> Result<Type, BtfError> {
        let word = |at| read_u32(&self.data, at).ok_or(BtfError::Damaged(id));
        let info = word(at + 4)?;
        let kind = match (info >> 24) & 0x1f {
            1 => Kind::Int,
            2 => Kind::Pointer,
            3 => Kind::Array,
            4 => Kind::Struct,
            5 => Kind::Union,
            6 => Kind::Enum,
            7 => Kind::Forward,
            8 => Kind::Typedef,
            9..=11 | 18 => Kind::Modifier,
            12 => Kind::Function,
            13 => Kind::FunctionProto,
            14 => Kind::Variable,
            15 => Kind::DataSection,
            16 => Kind::Float,
            17 => Kind::DeclTag,
            19 => Kind::Enum64,
            _ => return Err(BtfError::Damaged(id)),
        };
        Ok(Type {
            kind,
            name: word(at)?,
            count: u16::try_from(info & 0xffff).unwrap_or(u16::MAX),
            has_bit_fields: info >> 31 == 1,
            reference: word(at + 8)?,
            body: at + TYPE_HEADER,
        })
    }

    fn text(&self, offset: u32) -> Option<&[u8]> {
        let all = self.data.get(self.strings.clone())?;
        let rest = all.get(usize::try_from(offset).ok()?..)?;
        rest.split(|byte| *byte == 0).next()
    }
}

/// Where each of a type's entries of `size` bytes starts.
fn entries(found: Type, size: usize) -> impl Iterator<Item = usize> {
    (0..usize::from(found.count)).map(move |i| found.body + i * size)
}

fn body_size(found: Type) -> usize {
    let count = usize::from(found.count);
    match found.kind {
        Kind::Int | Kind::Variable | Kind::DeclTag => 4,
        Kind::Array => 12,
        Kind::Struct | Kind::Union | Kind::DataSection | Kind::Enum64 => count * 12,
        Kind::Enum | Kind::FunctionProto => count * 8,
        Kind::Pointer | Kind::Forward | Kind::Typedef | Kind::Modifier | Kind::Function | Kind::Float => 0,
    }
}

fn read_u32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?))
}
