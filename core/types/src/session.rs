//! A client's own numbering of its writes, by which each counts once.

use crate::bytes::{Reader, put_long, put_short, put_word};
use crate::{HashSlot, Malformed, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One client's session. Carries when it was opened, so that a bucket that has never heard of it can tell whether it
/// is new or was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    pub opened: Time,
    pub token: u64,
    pub counter: Counter,
}

/// How a session's numbers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Counter {
    /// 64 bits: they never come round.
    #[default]
    Full,
    /// A device's counter of so many bits (8 to 63) that wraps. Such a session writes to one hash slot only, so that
    /// one table sees all of its numbers.
    Wrapping { bits: u8, slot: HashSlot },
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.opened.0, self.token)?;
        match self.counter {
            Counter::Full => Ok(()),
            Counter::Wrapping { bits, slot } => write!(f, "-{bits}-{}", slot.0),
        }
    }
}

impl FromStr for SessionId {
    type Err = Malformed;

    /// Reads only what `Display` writes: two texts never name the same session.
    fn from_str(text: &str) -> Result<SessionId, Malformed> {
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or(Malformed);
        let opened = u64::from_str_radix(part()?, 16).map_err(|_| Malformed)?;
        let token = u64::from_str_radix(part()?, 16).map_err(|_| Malformed)?;
        let counter = match part() {
            Err(Malformed) => Counter::Full,
            Ok(bits) => {
                let bits = bits.parse().map_err(|_| Malformed)?;
                let slot: u16 = part()?.parse().map_err(|_| Malformed)?;
                if slot >= HashSlot::COUNT {
                    return Err(Malformed);
                }
                Counter::Wrapping { bits, slot: HashSlot(slot) }
            }
        };
        let session = SessionId { opened: Time(opened), token, counter };
        if session.to_string() == text { Ok(session) } else { Err(Malformed) }
    }
}

/// The number of a write in its session. Of a wrapping counter: its low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Series(pub u64);

/// What a write carries of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUse {
    pub session: SessionId,
    pub series: Series,
    /// The lowest series the client still waits for: answers below it are dropped, such writes refused.
    pub floor: Series,
    /// How often it was sent before. For people only; nothing depends on it.
    pub attempt: u32,
}

/// `opened:8 token:8 wraps:1 bits:1 slot:2 series:8 floor:8 attempt:4`
impl SessionUse {
    pub const BYTES: usize = 40;

    pub fn put(&self, out: &mut Vec<u8>) {
        put_long(out, self.session.opened.0);
        put_long(out, self.session.token);
        let (wraps, bits, slot) = match self.session.counter {
            Counter::Full => (0, 0, HashSlot(0)),
            Counter::Wrapping { bits, slot } => (1, bits, slot),
        };
        out.extend_from_slice(&[wraps, bits]);
        put_short(out, slot.0);
        put_long(out, self.series.0);
        put_long(out, self.floor.0);
        put_word(out, self.attempt);
    }

    pub fn read(reader: &mut Reader<'_>) -> Option<SessionUse> {
        let (opened, token) = (Time(reader.long()?), reader.long()?);
        let counter = match (reader.byte()?, reader.byte()?, HashSlot(reader.short()?)) {
            (0, 0, HashSlot(0)) => Counter::Full,
            (1, bits, slot) => Counter::Wrapping { bits, slot },
            (0, _, _) | (2.., _, _) => return None,
        };
        let session = SessionId { opened, token, counter };
        let (series, floor) = (Series(reader.long()?), Series(reader.long()?));
        Some(SessionUse { session, series, floor, attempt: reader.word()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_as_it_was_written() {
        let wrapping = Counter::Wrapping { bits: 12, slot: HashSlot(16_383) };
        for opened in [0, 1, 0x18c_2f00_0000, u64::MAX] {
            for token in [0, 7, u64::MAX] {
                for counter in [Counter::Full, wrapping] {
                    let session = SessionId { opened: Time(opened), token, counter };
                    assert_eq!(session.to_string().parse(), Ok(session));
                }
            }
        }
    }

    #[test]
    fn what_is_no_session_is_refused() {
        let texts = [
            "",
            "-",
            "1",
            "1-2",
            "01-0000000000000002",
            "1-000000000000000G",
            "1-0000000000000002-",
            "1-0000000000000002-8",
            "1-0000000000000002-8-16384",
            "1-0000000000000002-8-1-1",
            "+1-0000000000000002",
        ];
        for text in texts {
            assert_eq!(text.parse::<SessionId>(), Err(Malformed), "{text}");
        }
    }
}
