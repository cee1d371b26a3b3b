//! Netlink attributes, written and read: what the crates at hand lack is HTB and nf_tables, and both are nothing but
//! nested attributes. Reading never trusts a length.

/// Set in the type of an attribute that holds attributes.
const NESTED: u16 = 0x8000;
/// The type without its flags.
const TYPE_MASK: u16 = 0x3fff;

/// Attributes in the making.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    /// Starts with the fixed part of a message.
    pub(super) fn after(header: &[u8]) -> Self {
        Self { bytes: header.to_vec() }
    }

    /// Adds an attribute. One that is longer than an attribute can be is a mistake of the caller, and cut.
    pub(super) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let value = value.get(..value.len().min(usize::from(u16::MAX) - 4)).unwrap_or(value);
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a number in the machine's order.
    pub(super) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a number in the network's order.
    pub(super) fn network_number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// Adds a text, ended by a zero.
    pub(super) fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    /// Adds an attribute that holds attributes.
    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        fill(&mut inner);
        self.put(kind | NESTED, &inner.bytes)
    }

    /// All of it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Attributes that were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a>(pub(super) &'a [u8]);

impl<'a> Read<'a> {
    /// Those after the first `fixed` bytes of a message.
    pub(super) fn after(message: &'a [u8], fixed: usize) -> Self {
        Self(message.get(fixed..).unwrap_or_default())
    }

    /// Type and value of each; ends at the first that is malformed.
    pub(super) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let length = usize::from(u16_at(rest, 0)?);
            let kind = u16_at(rest, 2)? & TYPE_MASK;
            let value = rest.get(4..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }

    /// The value of the first attribute of a type.
    pub(super) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(each, _)| *each == kind).map(|(_, value)| value)
    }

    /// The attributes within one.
    pub(super) fn nested(self, kind: u16) -> Option<Self> {
        self.get(kind).map(Read)
    }

    /// A number in the machine's order.
    pub(super) fn number(self, kind: u16) -> Option<u32> {
        u32_at(self.get(kind)?, 0)
    }

    /// A long number in the machine's order.
    pub(super) fn long(self, kind: u16) -> Option<u64> {
        Some(u64::from_ne_bytes(self.get(kind)?.get(..8)?.try_into().ok()?))
    }

    /// A text up to its zero.
    pub(super) fn text(self, kind: u16) -> Option<&'a str> {
        let bytes = self.get(kind)?;
        std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
    }

    /// Whether each of `wanted` is here with the same value, whatever else is: the kernel adds figures of its own when
    /// it shows an object. Attributes of one type are compared in their order.
    pub(super) fn shows(self, wanted: Self) -> bool {
        let mut taken: Vec<(u16, usize)> = Vec::new();
        wanted.raw().all(|(raw, value)| {
            let kind = raw & TYPE_MASK;
            let nth = taken.iter().filter(|(each, _)| *each == kind).count();
            taken.push((kind, nth));
            let found = self.iter().filter(|(each, _)| *each == kind).nth(nth);
            found.is_some_and(|(_, found)| match raw & NESTED {
                0 => found == value,
                _ => Read(found).shows(Read(value)),
            })
        })
    }

    /// As [`Self::iter`], the flags left in the type.
    fn raw(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let length = usize::from(u16_at(rest, 0)?);
            let (kind, value) = (u16_at(rest, 2)?, rest.get(4..length)?);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }
}

/// A number of the machine's order at `offset`.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..)?.get(..2)?.try_into().ok()?))
}

/// A number of the machine's order at `offset`.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..)?.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_and_nonsense_ends_them() {
        let mut made = Attributes::default();
        made.number(1, 7).text(2, "htb").nested(3, |inner| {
            inner.network_number(1, 258).put(2, &[5]);
        });
        let read = Read(made.bytes());
        assert_eq!((read.number(1), read.text(2)), (Some(7), Some("htb")));
        let inner = read.nested(3).unwrap();
        assert_eq!(inner.get(1), Some(&[0, 0, 1, 2][..]));
        assert_eq!((inner.get(2), inner.get(9), inner.number(2)), (Some(&[5][..]), None, None));
        for bytes in [&[][..], &[3, 0, 1, 0], &[0xff, 0xff, 1, 0, 0], &[0, 0, 0, 0], &[4]] {
            assert_eq!(Read(bytes).iter().count(), 0, "{bytes:?}");
        }
        let cut = &made.bytes()[..made.bytes().len() - 4];
        assert_eq!(Read(cut).iter().count(), 2, "the last one is cut");
    }

    #[test]
    fn an_object_may_show_more_than_was_wished() {
        let mut wished = Attributes::default();
        wished.nested(4, |list| {
            for number in [1, 2] {
                list.nested(1, |inner| _ = inner.number(2, number));
            }
        });
        let mut shown = Attributes::default();
        shown.number(9, 9).nested(4, |list| {
            for number in [1, 2] {
                list.nested(1, |inner| _ = inner.number(7, 7).number(2, number));
            }
        });
        assert!(Read(shown.bytes()).shows(Read(wished.bytes())));
        assert!(!Read(wished.bytes()).shows(Read(shown.bytes())));
        let mut other = Attributes::default();
        other.nested(4, |list| _ = list.nested(1, |inner| _ = inner.number(2, 2)));
        assert!(!Read(other.bytes()).shows(Read(wished.bytes())), "order counts, and so does the number");
    }
}
