//! Rule: a stale read shows everything that was committed `max_stale` before it was asked for, and a fiftieth of that
//! more: the node that answers measures by its own clock, which may be slow.

use super::lines::Line;
use crate::Violation;
use crate::clients::Operation;
use crate::clock::Moment;
use atoll_types::Position;
use std::time::Duration;

const RULE: &str = "stale";

pub(crate) fn on_answer(
    line: &Line,
    number: usize,
    operation: &Operation,
    position: Position,
    max_stale: Duration,
) -> Result<(), Violation> {
    let most = max_stale + max_stale / 50;
    let before = Moment(operation.began.0.saturating_sub(most.as_micros() as u64));
    let due = line.last_before(before);
    if position.mark.offset >= due {
        return Ok(());
    }
    let detail = format!("operation {number} is answered at {position}; {due} was committed {most:?} before it began");
    Err(Violation::of(RULE, detail))
}
