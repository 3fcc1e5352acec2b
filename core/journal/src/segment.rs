//! The files of the log. Each begins with who it is; frames follow.
//!
//! ```text
//! "ATOLLLOG" │ format u32 │ crc32c u32 of what follows │ number u64 │ first u64 │ synced u64 │ zeros up to 64 bytes
//! ```

use crate::frame::Lsn;
use atoll_wire::codec;

pub(crate) const HEAD: usize = 64;
const MAGIC: &[u8; 8] = b"ATOLLLOG";
pub const FORMAT: u32 = 1;

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Its first record has this position.
    pub(crate) first: Lsn,
    /// Of the file.
    pub(crate) length: u64,
}

pub(crate) fn name(number: u64) -> String {
    format!("log-{number:016x}")
}

pub(crate) fn spare_name(number: u64) -> String {
    format!("spare-{number:016x}")
}

/// Reads only what `name` writes.
pub(crate) fn number(of: &str) -> Option<u64> {
    let number = u64::from_str_radix(of.strip_prefix("log-")?, 16).ok()?;
    (name(number) == of).then_some(number)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) first: Lsn,
    pub(crate) synced: Lsn,
}

/// Why a file does not begin like one of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHead {
    Damaged,
    /// Written by a later version.
    Format(u32),
}

impl Head {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut checked = Vec::with_capacity(24);
        for word in [self.number, self.first.0, self.synced.0] {
            checked.extend_from_slice(&word.to_le_bytes());
        }
        let mut out = Vec::with_capacity(HEAD);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&checked).to_le_bytes());
        out.extend_from_slice(&checked);
        out.resize(HEAD, 0);
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Head, NoHead> {
        let word = |at| codec::word(bytes, at).ok_or(NoHead::Damaged);
        let long = |at| codec::long_word(bytes, at).ok_or(NoHead::Damaged);
        if bytes.get(..8) != Some(MAGIC) {
            return Err(NoHead::Damaged);
        }
        let format = word(8)?;
        if format != FORMAT {
            return Err(if format > FORMAT { NoHead::Format(format) } else { NoHead::Damaged });
        }
        let (crc, head) = (word(12)?, Head { number: long(16)?, first: Lsn(long(24)?), synced: Lsn(long(32)?) });
        if crc32c::crc32c(&bytes[16..40]) != crc { Err(NoHead::Damaged) } else { Ok(head) }
    }
}
