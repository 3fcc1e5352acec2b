//! The state of one bucket: its keys and values, and its last changes.
//!
//! ```text
//!   command ─▶ decode ─▶ one plain put, one operation ───────────▶ table, changes ─▶ answer
//!                  └───▶ several: all well-formed, one slot? ─▶ each in turn ─▶ changes ─▶ answer
//!                                                                  └ one fails: undo, in reverse
//! ```
//!
//! Invariants: a key that is due by the time of the last entry is not there; a command that is not done leaves state
//! and digest as they were; everything that shows, the digest with it, is a function of the entries applied.
//!
//! Not here: what one operation does (`operation.rs`), queries (`read.rs`), bytes of a snapshot (`snapshot.rs`).

use crate::OPERATIONS_MOST;
use crate::answer::{Answer, Failure, Kind};
use crate::changes::Changes;
use crate::codec::{Operations, plain_put, put_done, put_outcome, put_written};
use crate::command::{Action, Operation};
use crate::operation::{Undo, perform, put};
use crate::table::Table;
use atoll_types::{At, HashSlot, Malformed, Offset, Piece, StateMachine, Time};
use xxhash_rust::xxh3::xxh3_64;

/// Keys that a command changed, in order, with their hashes.
type AllChanged<'a> = Vec<(&'a [u8], Kind, u64)>;

#[derive(Clone, Debug, Default)]
pub struct Store {
    pub(crate) table: Table,
    pub(crate) changes: Changes,
    /// Every version that was imported is at most this, and every one given here is above it: a value's version is this
    /// and the offset it was written at.
    pub(crate) lift: u64,
}

impl Store {
    pub fn new() -> Store {
        Store::default()
    }

    /// As `split`, and says what it is.
    pub fn halve(&mut self, first: HashSlot) -> Store {
        let goes = |key: &[u8]| HashSlot::of(key) >= first;
        Store { table: self.table.split(goes), changes: self.changes.split(goes), lift: self.lift }
    }

    /// Where a value written now is from.
    fn lifted(&self, at: At) -> At {
        let offset = Offset(at.offset.0.saturating_add(self.lift));
        At { offset, ..at }
    }

    /// Takes out what is due.
    #[cold]
    fn expire(&mut self, at: At) {
        for handle in self.table.due_by(at.time) {
            let key = self.table.record(handle).key();
            self.changes.push(at.offset, Kind::Expired, key, xxh3_64(key));
            self.table.remove(handle);
        }
    }

    /// What most commands are.
    fn apply_put(&mut self, at: At, key: &[u8], value: &[u8], answer: &mut Vec<u8>) {
        let lifted = self.lifted(at);
        match put(&mut self.table, lifted, key, value) {
            Ok(spot) => {
                put_written(answer, spot.handle.is_some(), lifted.offset);
                self.changes.push(at.offset, Kind::Put, key, spot.hash);
            }
            Err(why) => Answer::Failed { operation: 0, why }.encode(answer),
        }
    }

    /// One operation: no undo, since what fails fails before anything is changed.
    fn apply_one(&mut self, at: At, operation: &Operation<'_>, answer: &mut Vec<u8>) {
        let (begin, lifted) = (answer.len(), self.lifted(at));
        put_done(answer, 1);
        match perform(&mut self.table, lifted, operation, |outcome| put_outcome(answer, outcome)) {
            Ok(Some((kind, hash))) => self.changes.push(at.offset, kind, operation.key, hash),
            Ok(None) => {}
            Err(why) => {
                answer.truncate(begin);
                Answer::Failed { operation: 0, why }.encode(answer);
            }
        }
    }

    fn apply_batch(&mut self, at: At, operations: Operations<'_>, answer: &mut Vec<u8>) {
        if let Err(refusal) = one_slot(operations) {
            return refusal.encode(answer);
        }
        let begin = answer.len();
        put_done(answer, operations.count());
        match self.perform_all(at, operations, answer) {
            Ok(changed) => {
                changed.into_iter().for_each(|(key, kind, hash)| self.changes.push(at.offset, kind, key, hash));
            }
            Err((operation, why)) => {
                answer.truncate(begin);
                Answer::Failed { operation, why }.encode(answer);
            }
        }
    }

    /// All of them, or none: then which failed. What changed is told only at the end, since telling cannot be undone.
    fn perform_all<'a>(
        &mut self,
        at: At,
        mut operations: Operations<'a>,
        answer: &mut Vec<u8>,
    ) -> Result<AllChanged<'a>, (u16, Failure)> {
        let (begin, lifted) = (answer.len(), self.lifted(at));
        let mut undo: Vec<Undo<'a>> = Vec::new();
        let mut changed = Vec::new();
        let mut number = 0;
        while let Ok(Some(operation)) = operations.next() {
            undo.push(Undo::before(&self.table, &operation));
            let performed = perform(&mut self.table, lifted, &operation, |outcome| put_outcome(answer, outcome));
            let too_long = answer.len() - begin > crate::ANSWER_MOST;
            match if too_long { Err(Failure::AnswerTooLong) } else { performed } {
                Ok(change) => changed.extend(change.map(|(kind, hash)| (operation.key, kind, hash))),
                Err(why) => {
                    undo.into_iter().rev().for_each(|undo| undo.restore(&mut self.table));
                    return Err((number, why));
                }
            }
            number += 1;
        }
        Ok(changed)
    }
}

/// Are these all operations, not too many, with keys of one slot?
fn one_slot(mut operations: Operations<'_>) -> Result<(), Answer<'static>> {
    let count = usize::from(operations.count());
    let mut first = None;
    let mut crossed = None;
    while let Some(operation) = operations.next().map_err(|()| Answer::Malformed)? {
        let slot = HashSlot::of(operation.key);
        let first = *first.get_or_insert(slot);
        if slot != first {
            crossed.get_or_insert(Answer::CrossSlot { first, other: slot });
        }
    }
    if count > OPERATIONS_MOST {
        return Err(Answer::Failed { operation: OPERATIONS_MOST as u16, why: Failure::TooManyOperations });
    }
    crossed.map_or(Ok(()), Err)
}

impl StateMachine for Store {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(Store::new())
    }

    fn apply(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>) {
        if let Some((key, value)) = plain_put(command) {
            return self.apply_put(at, key, value, answer);
        }
        let Some(operations) = Operations::of(command) else { return Answer::Malformed.encode(answer) };
        if operations.count() != 1 {
            return self.apply_batch(at, operations, answer);
        }
        match operations.only() {
            Some(operation) => self.apply_one(at, &operation, answer),
            None => Answer::Malformed.encode(answer),
        }
    }

    fn foresee(&self, command: &[u8]) {
        if let Some((key, _)) = plain_put(command) {
            self.table.foresee(key);
        }
    }

    fn advance(&mut self, at: At) {
        self.changes.begin(at.offset);
        // Between commands nobody holds a handle.
        self.table.tidy();
        if self.table.due().is_some_and(|due| due <= at.time) {
            self.expire(at);
        }
    }

    fn due(&self) -> Option<Time> {
        self.table.due()
    }

    fn read(&self, at: At, query: &[u8], answer: &mut Vec<u8>) {
        self.answer(at, query).encode(answer);
    }

    /// Each operation is held against the state as it is: a batch that deletes and puts counts as one that grows.
    fn grows(&self, command: &[u8]) -> bool {
        let Some(mut operations) = Operations::of(command) else { return false };
        let mut grows = false;
        while let Ok(Some(operation)) = operations.next() {
            let held = || self.table.get(operation.key).map(|record| record.value().len());
            grows |= match operation.action {
                Action::Check | Action::Get | Action::Delete | Action::Expire { .. } | Action::GetAndDelete => false,
                Action::Put { value, .. } | Action::GetAndPut { value, .. } => held().is_none_or(|h| value.len() > h),
                Action::Increment { .. } => held().is_none(),
                Action::Append { value, .. } => !value.is_empty() || held().is_none(),
            };
        }
        grows
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.changes.bytes()
    }

    fn count(&self) -> usize {
        self.table.count()
    }

    fn snapshot(&self) -> Vec<u8> {
        crate::snapshot::encode(self)
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        *self = crate::snapshot::decode(bytes).ok_or(Malformed)?;
        Ok(())
    }

    fn pieces(&self, at: At, most: usize) -> Vec<Piece> {
        crate::import::pieces(self, at, most)
    }

    fn absorb(&mut self, at: At, slot: HashSlot, piece: &[u8]) -> Result<(), Malformed> {
        crate::import::absorb(self, at, slot, piece).ok_or(Malformed)
    }

    fn split(&mut self, first: HashSlot) -> Box<dyn StateMachine> {
        Box::new(self.halve(first))
    }

    fn digest(&self) -> u64 {
        let lift = if self.lift == 0 { 0 } else { xxh3_64(&self.lift.to_le_bytes()) };
        self.table.digest().wrapping_add(self.changes.digest()).wrapping_add(lift)
    }
}
