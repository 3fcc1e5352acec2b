//! A session as it is asked for, and as it is given: by its numbers each write counts once.
//!
//! ```text
//! wanted   opened:8 token:8 (both zero: a new one) counter:1 (0: 64 bits that never wrap; 8 to 63: bits that wrap)
//!          slot:2 (of a wrapping counter; otherwise 0) window:2 (0: as many as allowed)
//! opened   the same, with what was granted
//! ```

use atoll_types::bytes::{Reader, put_long, put_short};
use atoll_types::{Counter, HashSlot, SessionId, Time};

/// Writes of one session that may be outstanding, where the client asks for no fewer.
pub const WINDOW_MOST: u16 = 1024;

/// What a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// When it was opened, and its token. None: a new one.
    pub session: Option<(Time, u64)>,
    pub counter: Counter,
    /// Writes that the client wants to have outstanding; zero: as many as allowed.
    pub window: u16,
}

/// What it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    pub session: SessionId,
    /// Writes that may be outstanding: floor ≤ series < floor + this.
    pub window: u16,
}

impl Wanted {
    /// The same session again.
    pub fn again(session: SessionId) -> Wanted {
        Wanted { session: Some((session.opened, session.token)), counter: session.counter, window: 0 }
    }

    /// As many as wanted, as far as the counter allows: a window is at most a quarter of its range, or a late message
    /// could be taken for a new one.
    pub fn granted(&self) -> u16 {
        let most = match self.counter {
            Counter::Full => WINDOW_MOST,
            Counter::Wrapping { bits, slot: _ } => {
                let quarter = 1_u64.checked_shl(u32::from(bits)).map_or(u64::MAX, |range| range / 4);
                u16::try_from(quarter).map_or(WINDOW_MOST, |quarter| quarter.min(WINDOW_MOST))
            }
        };
        if self.window == 0 { most } else { self.window.min(most) }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (opened, token) = self.session.unwrap_or((Time::ZERO, 0));
        put(out, opened, token, self.counter, self.window);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Wanted> {
        let (opened, token, counter, window) = read(reader)?;
        let session = (opened != Time::ZERO || token != 0).then_some((opened, token));
        Some(Wanted { session, counter, window })
    }
}

impl Opened {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.session.opened, self.session.token, self.session.counter, self.window);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Opened> {
        let (opened, token, counter, window) = read(reader)?;
        Some(Opened { session: SessionId { opened, token, counter }, window })
    }
}

fn put(out: &mut Vec<u8>, opened: Time, token: u64, counter: Counter, window: u16) {
    put_long(out, opened.0);
    put_long(out, token);
    let (bits, slot) = match counter {
        Counter::Full => (0, 0),
        Counter::Wrapping { bits, slot } => (bits, slot.0),
    };
    out.push(bits);
    put_short(out, slot);
    put_short(out, window);
}

fn read(reader: &mut Reader<'_>) -> Option<(Time, u64, Counter, u16)> {
    let (opened, token) = (Time(reader.long()?), reader.long()?);
    let (bits, slot) = (reader.byte()?, reader.short()?);
    let counter = match bits {
        0 if slot == 0 => Counter::Full,
        8..=63 if slot < HashSlot::COUNT => Counter::Wrapping { bits, slot: HashSlot(slot) },
        0..=255 => return None,
    };
    Some((opened, token, counter, reader.short()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_at_most_a_quarter_of_a_counter_that_wraps() {
        let wanted = |bits, window| {
            let counter = Counter::Wrapping { bits, slot: HashSlot(1) };
            Wanted { session: None, counter, window }.granted()
        };
        assert_eq!((wanted(8, 0), wanted(8, 10), wanted(8, 1000)), (64, 10, 64));
        assert_eq!((wanted(63, 0), wanted(16, 0), wanted(12, 0)), (1024, 1024, 1024));
        assert_eq!(Wanted::default().granted(), 1024);
        assert_eq!(Wanted { window: 5, ..Wanted::default() }.granted(), 5);
    }
}
