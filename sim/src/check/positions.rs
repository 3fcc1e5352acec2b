//! Rule: what ended before something else began, in the same hash slot, has the lower position; so have requests that
//! one connection sent before others. A read shows the state at its position, and nothing that is not committed; a
//! stale read shows a state no older than it was asked for.

use super::lines::{Break, Line};
use super::series::show;
use crate::Violation;
use crate::clients::Operation;
use atoll_types::{Generation, HashSlot, Mark, Offset, Payload, Position};
use std::collections::BTreeMap;

const RULE: &str = "positions";

/// Of a mark: what is comparable over changes of epoch.
type Place = ((Generation, u32), Offset);

fn place(mark: Mark) -> Place {
    (mark.epoch.generations(), mark.offset)
}

#[derive(Clone, Copy, Debug)]
struct Effected {
    place: Place,
    is_write: bool,
    number: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// The highest place of whatever ended so far, in each slot.
    ended: BTreeMap<HashSlot, (Place, usize)>,
    /// What `ended` was when each operation began.
    floors: BTreeMap<usize, (Place, usize)>,
    /// What each connection's requests came to, by slot, in the order in which they were sent.
    connections: BTreeMap<(u64, HashSlot), BTreeMap<u64, Effected>>,
}

impl Positions {
    pub(crate) fn on_begin(&mut self, number: usize, operation: &Operation) {
        if let Some(&floor) = self.ended.get(&operation.slot) {
            self.floors.insert(number, floor);
        }
    }

    /// The client has the answer.
    pub(crate) fn on_done(&mut self, number: usize, operation: &Operation, position: Position) {
        if operation.stale {
            return;
        }
        self.floors.remove(&number);
        let highest = self.ended.entry(operation.slot).or_insert((Place::default(), number));
        if place(position.mark) > highest.0 {
            *highest = (place(position.mark), number);
        }
    }

    /// Acknowledged writes of these slots may be gone. What comes after is above what ended before all the same, by
    /// its generation; only what a connection sends may be carried out on either side.
    pub(crate) fn on_break(&mut self, of: impl Fn(HashSlot) -> bool) {
        self.connections.retain(|(_, slot), _| !of(*slot));
    }

    /// A host says that it is done.
    pub(crate) fn on_answer(
        &mut self,
        line: &Line,
        number: usize,
        operation: &Operation,
        payload: &Payload,
        position: Position,
    ) -> Result<(), Violation> {
        let what = || format!("operation {number}, {:?}", operation.act);
        if !operation.act.is_write() && !line.blind {
            read_at(line, operation, payload, position).map_err(|why| {
                Violation::of(RULE, format!("{} at {position}, stale {}: {why}", what(), operation.stale))
            })?;
        }
        if operation.stale {
            return Ok(());
        }
        if let Some(&(floor, other)) = self.floors.get(&number) {
            let after =
                if operation.act.is_write() { place(position.mark) > floor } else { place(position.mark) >= floor };
            if !after {
                let detail = format!("{} at {position} began after operation {other} ended at {floor:?}", what());
                return Err(Violation::of(RULE, detail));
            }
        }
        Ok(())
    }

    /// The same for the first attempt of an operation, on its connection: `sent` counts what was sent there.
    pub(crate) fn on_connection(
        &mut self,
        connection: u64,
        sent: u64,
        number: usize,
        operation: &Operation,
        position: Position,
    ) -> Result<(), Violation> {
        let lane = self.connections.entry((connection, operation.slot)).or_default();
        let is_write = operation.act.is_write();
        let this = Effected { place: place(position.mark), is_write, number };
        let before = lane.range(..sent).next_back().map(|(_, effected)| *effected);
        let after = lane.range(sent + 1..).next().map(|(_, effected)| *effected);
        lane.insert(sent, this);
        let in_order = |first: &Effected, second: &Effected| {
            if second.is_write { second.place > first.place } else { second.place >= first.place }
        };
        let first = before.filter(|before| !in_order(before, &this)).map(|before| (before, this));
        let second = after.filter(|after| !in_order(&this, after)).map(|after| (this, after));
        match first.or(second) {
            None => Ok(()),
            Some((one, other)) => {
                let ((first, one), (second, other)) = ((one.number, one.place), (other.number, other.place));
                let detail = format!(
                    "connection {connection} sent operation {first}, which is at {one:?}, before {second}, at {other:?}"
                );
                Err(Violation::of(RULE, detail))
            }
        }
    }
}

/// Does the answer show the state at its position?
fn read_at(line: &Line, operation: &Operation, payload: &Payload, position: Position) -> Result<(), String> {
    let mark = position.mark;
    if let Some(Break { epoch, fork, .. }) = line.broken
        && operation.stale
        && mark.epoch < epoch
        && mark.offset > fork
    {
        return Ok(()); // A member that has not heard of the new life yet.
    }
    let begins_empty = mark.offset.0 > 0 && mark.offset.0 == mark.epoch.slot.0 << 32;
    if line.mark(mark.offset).is_none() && begins_empty {
        return Ok(()); // An operator let the bucket begin anew, and nothing was written since.
    }
    if line.mark(mark.offset) != Some(mark) {
        return Err(format!("not committed; there is {:?}", line.mark(mark.offset)));
    }
    if let Some(after) = operation.after
        && mark.offset < after.mark.offset
    {
        return Err(format!("older than {after}, which was asked for"));
    }
    let expected = line.model.read(mark.offset, line.time(mark.offset), &operation.act);
    match expected {
        Some(expected) if expected != payload.as_slice() => {
            Err(format!("it shows {}; it should be {}", show(payload.as_slice()), show(&expected)))
        }
        Some(_) | None => Ok(()),
    }
}
