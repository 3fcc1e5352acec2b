//! From a backup into another cluster: a copy in pieces, each an ordinary write of the bucket that takes it in.
//!
//! ```text
//! command   IMPORT  1  sessions (postcard)
//!           IMPORT  2  piece of the machine
//! answer    1: taken in   0: these bytes are nothing of a backup, and nothing was done
//! ```
//!
//! So a restored cluster holds what its members committed, like any other, and may have any buckets: what is in a slot
//! is sent to that slot, and what is in none, the sessions above all, to each bucket that holds a part of the range.

use crate::copy::Copy;
use crate::session::Sessions;
use atoll_types::{At, HashSlot, IMPORT, Payload, Piece};

const SESSIONS: u8 = 1;
const MACHINE: u8 = 2;

/// A write that takes a part of a backup in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// None: every bucket that holds a part of the range is to have it.
    pub slot: Option<HashSlot>,
    pub command: Payload,
}

/// Does this answer to such a write say that it was done?
pub fn taken_in(answer: &[u8]) -> bool {
    answer == [1]
}

impl Copy {
    /// Everything that is here, in writes of at most about `most` bytes. Those of one slot are to be made in order.
    pub fn imports(&self, most: usize) -> Vec<Import> {
        let sessions = self.sessions.pieces(most).into_iter().map(|sessions| {
            let command = postcard::to_extend(&sessions, vec![IMPORT, SESSIONS]).expect("sessions always have bytes");
            Import { slot: None, command: command.into() }
        });
        let machine = self.machine.pieces(self.at(), most).into_iter().map(|Piece { slot, bytes }| {
            let command = [&[IMPORT, MACHINE], &bytes[..]].concat();
            Import { slot, command: command.into() }
        });
        sessions.chain(machine).collect()
    }

    pub(crate) fn import(&mut self, at: At, slot: HashSlot, piece: &[u8]) {
        let done = match piece.split_first() {
            Some((&SESSIONS, bytes)) => match postcard::from_bytes::<Sessions>(bytes) {
                Ok(sessions) => {
                    let range = self.range;
                    self.sessions.absorb(sessions, |slot| range.contains(slot));
                    self.sessions.advance(self.time);
                    true
                }
                Err(_) => false,
            },
            Some((&MACHINE, bytes)) => self.machine.absorb(at, slot, bytes).is_ok(),
            Some(_) | None => false,
        };
        self.answer.push(u8::from(done));
    }
}
