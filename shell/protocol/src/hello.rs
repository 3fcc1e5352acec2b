//! The first words of both sides, so that a stranger, another version or another protocol is turned away with a reason
//! before anything is read as a frame.
//!
//! ```text
//! hello    magic:4 version:1 wanted:21 credential: length:2, bytes
//! answer   magic:4 version:1 (0 refused reason:string
//!                            |1 welcome opened:21 requests:4 waiting:4 request_bytes:4 session_idle:4 (milliseconds)
//!                               cluster:8 table:8 name:string)
//! ```
//!
//! `string` is a length of 4 bytes and so many bytes.

use crate::session::{Opened, Wanted};
use crate::{CREDENTIAL_MOST, MAGIC, TEXT_MOST, VERSION};
use atoll_types::bytes::{Reader, put_long, put_short, put_string, put_word};

/// Magic and version: what every version has in common.
const PREFIX: usize = MAGIC.len() + 1;
/// The length of a hello up to its credential.
const HELLO: usize = PREFIX + 21 + 2;
/// A welcome up to its name, with the length of that.
const WELCOME: usize = PREFIX + 1 + 21 + 4 * 4 + 2 * 8 + 4;
/// A refusal up to its reason.
const REFUSAL: usize = PREFIX + 1 + 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    pub wanted: Wanted,
    /// Empty, for now: nobody checks it yet.
    pub credential: &'a [u8],
}

/// What a node allows one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests under way; a node reads no further then.
    pub requests: u32,
    /// Reads that wait for a position.
    pub waiting: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Milliseconds for which an unused session is remembered at least.
    pub session_idle: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Welcome {
    Refused {
        reason: String,
    },
    Welcome {
        opened: Opened,
        limits: Limits,
        /// Zero: the node belongs to none yet.
        cluster: u64,
        /// The version of the table that the node has.
        table: u64,
        name: String,
    },
}

/// Something that has a length of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// It, and how many bytes it had.
    Done(T, usize),
    /// So many bytes must be there before more can be said.
    Needs(usize),
}

/// Why these are no first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Another protocol.
    Magic,
    Version(u8),
    /// No such counter, credential, status or text.
    Malformed,
}

/// Looks no further than it must: whoever speaks another protocol may send less than a hello and wait.
fn prefix(bytes: &[u8]) -> Result<(), Unreadable> {
    if bytes.iter().zip(&MAGIC).any(|(byte, magic)| byte != magic) {
        return Err(Unreadable::Magic);
    }
    match bytes.get(MAGIC.len()) {
        Some(&version) if version != VERSION => Err(Unreadable::Version(version)),
        Some(_) | None => Ok(()),
    }
}

fn put_prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
}

fn limited(length: usize, most: usize) -> Result<usize, Unreadable> {
    if length > most { Err(Unreadable::Malformed) } else { Ok(length) }
}

impl<'a> Hello<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_prefix(out);
        self.wanted.encode(out);
        put_short(out, u16::try_from(self.credential.len()).unwrap_or(u16::MAX));
        out.extend_from_slice(self.credential);
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Step<Hello<'a>>, Unreadable> {
        prefix(bytes)?;
        let Some(fixed) = bytes.get(PREFIX..HELLO) else { return Ok(Step::Needs(HELLO)) };
        let mut reader = Reader::new(fixed);
        let wanted = Wanted::read(&mut reader).ok_or(Unreadable::Malformed)?;
        let length = limited(usize::from(reader.short().ok_or(Unreadable::Malformed)?), CREDENTIAL_MOST)?;
        let Some(credential) = bytes.get(HELLO..HELLO + length) else { return Ok(Step::Needs(HELLO + length)) };
        Ok(Step::Done(Hello { wanted, credential }, HELLO + length))
    }
}

impl Welcome {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_prefix(out);
        match self {
            Welcome::Refused { reason } => {
                out.push(0);
                put_string(out, reason.as_bytes());
            }
            Welcome::Welcome { opened, limits, cluster, table, name } => {
                out.push(1);
                opened.encode(out);
                put_word(out, limits.requests);
                put_word(out, limits.waiting);
                put_word(out, limits.request_bytes);
                put_word(out, limits.session_idle);
                put_long(out, *cluster);
                put_long(out, *table);
                put_string(out, name.as_bytes());
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Step<Welcome>, Unreadable> {
        prefix(bytes)?;
        let Some(&status) = bytes.get(PREFIX) else { return Ok(Step::Needs(PREFIX + 1)) };
        let fixed = match status {
            0 => REFUSAL,
            1 => WELCOME,
            2.. => return Err(Unreadable::Malformed),
        };
        let Some(length) = bytes.get(fixed - 4..fixed).and_then(|bytes| Reader::new(bytes).word()) else {
            return Ok(Step::Needs(fixed));
        };
        let whole = fixed + limited(length as usize, TEXT_MOST)?;
        let Some(bytes) = bytes.get(PREFIX + 1..whole) else { return Ok(Step::Needs(whole)) };
        let mut reader = Reader::new(bytes);
        let welcome = if status == 0 { refusal(&mut reader) } else { welcome(&mut reader) };
        Ok(Step::Done(welcome.ok_or(Unreadable::Malformed)?, whole))
    }
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    std::str::from_utf8(reader.string()?).ok().map(str::to_owned)
}

fn refusal(reader: &mut Reader<'_>) -> Option<Welcome> {
    Some(Welcome::Refused { reason: text(reader)? })
}

fn welcome(reader: &mut Reader<'_>) -> Option<Welcome> {
    let opened = Opened::read(reader)?;
    let limits = Limits {
        requests: reader.word()?,
        waiting: reader.word()?,
        request_bytes: reader.word()?,
        session_idle: reader.word()?,
    };
    Some(Welcome::Welcome { opened, limits, cluster: reader.long()?, table: reader.long()?, name: text(reader)? })
}
