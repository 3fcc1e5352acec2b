//! What a user of a log provides: a state that committed commands change, the same on every member.

use crate::{HashSlot, Offset, Time};
use std::fmt;

/// Where and when in the log something is applied or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub offset: Offset,
    /// The log's time, which never goes back: the only clock a state machine may look at.
    pub time: Time,
}

/// The bytes are no snapshot of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The first byte of a command that the copy carries out itself: something of a backup is taken in. No machine's own
/// commands begin with it.
pub const IMPORT: u8 = 255;

/// A part of a state, for another machine of the same kind to take in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// All that it speaks of is in this slot. None: it speaks of no key, and every bucket of the range is to have it.
    pub slot: Option<HashSlot>,
    pub bytes: Vec<u8>,
}

/// A deterministic state. The same commands at the same places give the same state, the same answers and the same
/// digest on every member; nothing else may have an influence: no clock, no randomness, no order of an unordered map.
///
/// Commands and queries are bytes; a machine that cannot read one answers so in its own words, and changes nothing.
pub trait StateMachine: fmt::Debug + Send {
    /// An empty machine of the same kind.
    fn empty(&self) -> Box<dyn StateMachine>;

    /// Applies a committed command, and appends the answer to `answer`. The machine was advanced to `at` before.
    fn apply(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>);

    /// This command may soon be applied. Changes nothing: it is the moment to have brought from memory what applying it
    /// will look at, while others are applied.
    fn foresee(&self, _command: &[u8]) {}

    /// The log's time is now `at.time`: what was due has happened. Called before each `apply`, and for entries that
    /// only carry a time. Must be cheap when nothing is due.
    fn advance(&mut self, at: At);

    /// When, in log time, something is next due. The primary then logs a time entry.
    fn due(&self) -> Option<Time>;

    /// Answers a query from the state as it is. What is due by `at.time` is not shown, also where it has not been
    /// advanced over yet.
    fn read(&self, at: At, query: &[u8], answer: &mut Vec<u8>);

    /// Would this command need more memory?
    fn grows(&self, command: &[u8]) -> bool;

    /// About how many bytes of memory the state holds.
    fn bytes(&self) -> usize;

    /// How many keys, streams or the like it holds, for people.
    fn count(&self) -> usize;

    /// The whole state. A function of the state: equal states, equal bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Becomes what `bytes` say, or stays as it is.
    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed>;

    /// The state in pieces, each no longer than `most` unless it is one indivisible thing. An empty machine that
    /// absorbs them, those of one slot in order, shows the same as this one at `at`. Nothing, where a machine cannot do
    /// that.
    fn pieces(&self, _at: At, _most: usize) -> Vec<Piece> {
        Vec::new()
    }

    /// Takes in a piece of another machine's state; what it speaks of must be in `slot`. What is here already and is
    /// newer stays. Done twice it does nothing the second time.
    fn absorb(&mut self, _at: At, _slot: HashSlot, _piece: &[u8]) -> Result<(), Malformed> {
        Err(Malformed)
    }

    /// Gives away everything that belongs to slots from `first` on. What belongs to no slot goes to both.
    fn split(&mut self, first: HashSlot) -> Box<dyn StateMachine>;

    /// Equal for equal states. Cheap enough to be asked for often: kept up to date at each change.
    fn digest(&self) -> u64;
}
