//! A netlink socket: requests that the kernel acknowledges, dumps, and batches that it takes whole or not at all.

use std::io;

use netlink_sys::{Socket, SocketAddr};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::attributes::{Read, u16_at, u32_at};

/// `struct nlmsghdr`
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Flags of a message.
pub(super) mod flags {
    pub(in super::super) const REQUEST: u16 = 0x1;
    pub(in super::super) const ACK: u16 = 0x4;
    pub(in super::super) const DUMP_INTERRUPTED: u16 = 0x10;
    pub(in super::super) const EXCLUSIVE: u16 = 0x200;
    pub(in super::super) const DUMP: u16 = 0x300;
    pub(in super::super) const CREATE: u16 = 0x400;
    pub(in super::super) const APPEND: u16 = 0x800;
}

/// How long the kernel may take to answer, in seconds.
const PATIENCE_SECONDS: i64 = 2;

/// More than the kernel puts into one piece of an answer.
const RECEIVE_BYTES: usize = 64 << 10;

/// Tries of a dump that the kernel says was changed while it was read.
const DUMP_TRIES: usize = 3;

/// Why the kernel did not do as asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetlinkError {
    /// The socket failed.
    #[error("netlink does not answer")]
    Socket(#[from] io::Error),
    /// The kernel refused.
    #[error("{error}{}", if text.is_empty() { String::new() } else { format!(" ({text})") })]
    Refused {
        /// Its error number.
        error: io::Error,
        /// What it says beside it.
        text: String,
    },
}

impl NetlinkError {
    /// Whether the kernel gave this error number.
    pub(super) fn is(&self, errno: i32) -> bool {
        matches!(self, Self::Refused { error, .. } if error.raw_os_error() == Some(errno))
    }
}

/// A message to send.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) body: Vec<u8>,
}

/// A socket of one netlink family, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open(protocol: isize) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Refusals in words and without the whole request, where the kernel can.
        if let Err(error) = socket.set_ext_ack(true).and_then(|()| socket.set_cap_ack(true)) {
            tracing::debug!(%error, "netlink gives no texts with its errors");
        }
        let patience = TimeVal::seconds(PATIENCE_SECONDS);
        setsockopt(&socket, sockopt::ReceiveTimeout, &patience).map_err(io::Error::from)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one message and waits for the kernel's word on it.
    pub(super) fn request(&mut self, message: &Message) -> Result<(), NetlinkError> {
        let sequence = self.next();
        let flags = message.flags | flags::REQUEST | flags::ACK;
        self.socket.send(&encode(message, flags, sequence), 0)?;
        self.answer(sequence..=sequence)
    }

    /// Sends messages as one piece and waits for the kernel's word on the last; the first refusal is returned. `frame`
    /// stands before and after them and is not acknowledged.
    pub(super) fn batch(&mut self, frame: [Message; 2], messages: &[Message]) -> Result<(), NetlinkError> {
        if messages.is_empty() {
            return Ok(());
        }
        let [begin, end] = frame;
        let mut bytes = encode(&begin, begin.flags | flags::REQUEST, self.next());
        let first = self.sequence.wrapping_add(1);
        for (place, message) in messages.iter().enumerate() {
            let last = place + 1 == messages.len();
            let ack = if last { flags::ACK } else { 0 };
            let sequence = self.next();
            bytes.extend(encode(message, message.flags | flags::REQUEST | ack, sequence));
        }
        let last = self.sequence;
        bytes.extend(encode(&end, end.flags | flags::REQUEST, self.next()));
        self.socket.send(&bytes, 0)?;
        self.answer(first..=last)
    }

    /// All objects that the kernel shows, each the body of a message.
    pub(super) fn dump(&mut self, message: &Message) -> Result<Vec<Vec<u8>>, NetlinkError> {
        for _ in 0..DUMP_TRIES {
            if let Some(bodies) = self.try_dump(message)? {
                return Ok(bodies);
            }
        }
        Err(NetlinkError::Socket(io::Error::other("it changes while it is read")))
    }

    fn try_dump(&mut self, message: &Message) -> Result<Option<Vec<Vec<u8>>>, NetlinkError> {
        let sequence = self.next();
        let flags = message.flags | flags::REQUEST | flags::DUMP;
        self.socket.send(&encode(message, flags, sequence), 0)?;
        let (mut bodies, mut whole) = (Vec::new(), true);
        loop {
            let bytes = self.receive()?;
            for part in parts(&bytes).filter(|part| part.sequence == sequence) {
                whole &= part.flags & flags::DUMP_INTERRUPTED == 0;
                match part.kind {
                    NLMSG_DONE => return Ok(whole.then_some(bodies)),
                    NLMSG_ERROR => refusal(&part).map_or(Ok(()), Err)?,
                    _ => bodies.push(part.body.to_vec()),
                }
            }
        }
    }

    /// Waits for the acknowledgement of the last sequence number, or for a refusal of any.
    fn answer(&mut self, sequences: std::ops::RangeInclusive<u32>) -> Result<(), NetlinkError> {
        loop {
            let bytes = self.receive()?;
            for part in parts(&bytes).filter(|part| sequences.contains(&part.sequence)) {
                if part.kind != NLMSG_ERROR {
                    continue;
                }
                match refusal(&part) {
                    Some(refusal) => return Err(refusal),
                    None if part.sequence == *sequences.end() => return Ok(()),
                    None => {}
                }
            }
        }
    }

    fn receive(&self) -> Result<Vec<u8>, NetlinkError> {
        let mut bytes = Vec::with_capacity(RECEIVE_BYTES);
        self.socket.recv(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn next(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

fn encode(message: &Message, flags: u16, sequence: u32) -> Vec<u8> {
    let length = u32::try_from(HEADER + message.body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER + message.body.len() + 4);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&message.kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(&message.body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// One message of what was received.
struct Part<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

fn parts(bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let part = Part {
            kind: u16_at(rest, 4)?,
            flags: u16_at(rest, 6)?,
            sequence: u32_at(rest, 8)?,
            body: rest.get(HEADER..length)?,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(part)
    })
}

/// The refusal in an error message; `None` for the number 0, which acknowledges.
fn refusal(part: &Part<'_>) -> Option<NetlinkError> {
    /// `NLM_F_CAPPED`, `NLM_F_ACK_TLVS`, `NLMSGERR_ATTR_MSG`
    const CAPPED: u16 = 0x100;
    const HAS_TEXT: u16 = 0x200;
    const TEXT: u16 = 1;
    let number = u32_at(part.body, 0).map(u32::cast_signed).unwrap_or_default();
    if number == 0 {
        return None;
    }
    let echoed = match part.flags & CAPPED {
        0 => usize::try_from(u32_at(part.body, 4).unwrap_or_default()).unwrap_or_default(),
        _ => HEADER,
    };
    let attributes = Read::after(part.body, echoed.saturating_add(4).next_multiple_of(4));
    let text = if part.flags & HAS_TEXT == 0 { None } else { attributes.text(TEXT) };
    Some(NetlinkError::Refused {
        error: io::Error::from_raw_os_error(number.saturating_neg()),
        text: text.unwrap_or_default().to_owned(),
    })
}
