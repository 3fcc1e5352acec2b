//! What clients see, held against what the logs say: joins the rules about answers.
//!
//! | Rule | File |
//! |---|---|
//! | every request is answered, once | `callers.rs` |
//! | every write counts once | `series.rs` |
//! | positions follow real time and the order of a connection; reads show the state at theirs | `positions.rs` |
//! | each key by itself is linearizable | `linear.rs` |
//! | stale reads are not too old | `stale.rs` |
//!
//! They share the committed logs (`lines.rs`). Where an operator revived a bucket, or recovered the cluster in a new
//! generation, acknowledged writes may be gone: then the line is cut back, and of its slots nothing that began before
//! is held against anything that comes after.

use super::callers::Callers;
use super::linear::Linear;
use super::lines::{Line, Lines, News};
use super::positions::Positions;
use super::series::Series;
use super::stale;
use crate::Violation;
use crate::clients::Operation;
use crate::clock::Moment;
use crate::host::Host;
use atoll_node::shard::door::Answer;
use atoll_node::{BucketEvent, Timing};
use atoll_types::{ClusterId, HashSlot, Payload, Position, SlotRange};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) callers: Callers,
    pub(crate) linear: Linear,
    lines: Lines,
    series: Series,
    positions: Positions,
    max_stale: Duration,
    /// The cluster that all of this is about.
    cluster: Option<ClusterId>,
    /// There is a second cluster: which one a client speaks with nobody can say.
    void: bool,
}

impl Audit {
    pub(crate) fn new(timing: &Timing) -> Audit {
        Audit {
            callers: Callers::default(),
            linear: Linear::default(),
            lines: Lines::new(timing.session_idle),
            series: Series::default(),
            positions: Positions::default(),
            max_stale: timing.max_stale,
            cluster: None,
            void: false,
        }
    }

    /// How many buckets were divided.
    pub(crate) fn divided(&self) -> u64 {
        self.lines.divided
    }

    pub(crate) fn on_event(
        &mut self,
        hosts: &[Host],
        host: usize,
        event: &BucketEvent,
        now: Moment,
    ) -> Result<(), Violation> {
        if let Some((cluster, _)) = hosts[host].identity() {
            self.void |= *self.cluster.get_or_insert(cluster) != cluster;
        }
        if self.void {
            return Ok(());
        }
        match self.lines.on_event(hosts, host, event, now)? {
            News::Nothing => Ok(()),
            News::Committed(bucket, offset) => self.series.on_committed(&self.lines, bucket, offset),
            News::Broken(range, then) => {
                self.forget(range);
                then.map_or(Ok(()), |(bucket, offset)| self.series.on_committed(&self.lines, bucket, offset))
            }
        }
    }

    fn forget(&mut self, range: SlotRange) {
        self.positions.on_break(|slot| range.contains(slot));
        self.linear.forget(|key| range.contains(HashSlot::of(key.as_bytes())));
    }

    pub(crate) fn on_begin(&mut self, number: usize, operation: &Operation) {
        self.lines.on_begin(number, operation);
        self.positions.on_begin(number, operation);
        if !operation.stale {
            self.linear.on_begin(number, &operation.act);
        }
    }

    /// The line that an operation's answers are held against.
    fn line(&self, operation: &Operation) -> Option<&Line> {
        let line = self.lines.of_slot(operation.slot).filter(|_| !self.void)?;
        line.broken.is_none_or(|broken| broken.at < operation.began).then_some(line)
    }

    /// A host answers a request.
    pub(crate) fn on_answer(
        &mut self,
        number: usize,
        operation: &Operation,
        attempt: u32,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let line = self.lines.of_slot(operation.slot).filter(|_| !self.void);
        let mut line = line.filter(|line| line.broken.is_none_or(|broken| broken.at < operation.began));
        if let Answer::Done { position, .. } = answer {
            // Of a generation that is over, by somebody who has not heard of it.
            let generations = position.mark.epoch.generations();
            line = line.filter(|line| generations >= line.served.generations() || line.broken.is_none());
        }
        if operation.act.is_write() {
            self.series.on_answer(line, number, operation, attempt, answer)?;
        }
        match (line, answer) {
            (Some(line), Answer::Done { payload, position, .. }) => {
                if operation.stale {
                    stale::on_answer(line, number, operation, *position, self.max_stale)?;
                }
                self.positions.on_answer(line, number, operation, payload, *position)
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// The order of a connection's requests.
    pub(crate) fn on_connection(
        &mut self,
        connection: u64,
        sent: u64,
        number: usize,
        operation: &Operation,
        position: Position,
    ) -> Result<(), Violation> {
        if operation.stale || self.line(operation).is_none() {
            return Ok(());
        }
        self.positions.on_connection(connection, sent, number, operation, position)
    }

    /// The client has the answer.
    pub(crate) fn on_done(
        &mut self,
        number: usize,
        operation: &Operation,
        payload: &Payload,
        position: Position,
        now: Moment,
    ) -> Result<(), Violation> {
        if operation.stale || self.void {
            return Ok(());
        }
        if self.line(operation).is_some() {
            self.positions.on_done(number, operation, position);
        }
        self.linear.on_done(number, &operation.act, payload.as_slice(), now)
    }

    pub(crate) fn on_not_applied(&mut self, number: usize, operation: &Operation) -> Result<(), Violation> {
        if operation.stale || self.void {
            return Ok(());
        }
        self.linear.on_not_applied(number, &operation.act)
    }

    pub(crate) fn on_unknown(&mut self, number: usize, operation: &Operation) {
        if !operation.stale {
            self.linear.on_unknown(number, &operation.act);
        }
    }
}
