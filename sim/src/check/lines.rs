//! The committed log of each bucket, put together from what primaries say they committed, with what each entry does:
//! worked out by a model of its own (`model.rs`, `series.rs`), so that answers can be held against it.
//!
//! ```text
//!   line ──entry committed──▶ line
//!     ├──divided──▶ two lines with the same past
//!     └──an operator revived the bucket, or the cluster in a new generation──▶ cut back to what the new primary has
//! ```
//!
//! A line is a function of its base, its entries and its range; whatever is cut or divided is worked out again.
//!
//! Not here: whether each commit was lawful (`bucket/`).

use super::model::Model;
use super::series::{Sessions, Taken};
use crate::Violation;
use crate::clients::Operation;
use crate::clock::Moment;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::BucketEvent;
use atoll_types::{BucketBody, BucketId, Entries, Epoch, HashSlot, Mark, Offset, Payload, SlotRange, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const RULE: &str = "lines";

/// No bucket writes so much between two looks at it.
const ANEW: u64 = 1 << 20;

/// What an entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A tick or a split, or a write to the other half of what was one bucket.
    Nothing,
    /// It takes effect, and this is its answer.
    New(Vec<u8>),
    /// The same write took effect before, there.
    Duplicate(Offset),
    /// Its session does not allow it.
    Refused,
}

#[derive(Clone, Debug)]
pub(crate) struct Fated {
    /// One.
    pub(crate) entry: Entries,
    /// Of the log, after it.
    pub(crate) time: Time,
    /// When it was first known to be committed.
    pub(crate) at: Moment,
    pub(crate) operation: Option<usize>,
    pub(crate) effect: Effect,
}

impl Fated {
    pub(crate) fn body(&self) -> BucketBody<'_> {
        self.entry.first().map_or(BucketBody::Tick, |entry| entry.body)
    }
}

/// When a line was last cut back, with whose epoch, and to where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    pub(crate) at: Moment,
    pub(crate) epoch: Epoch,
    pub(crate) fork: Offset,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) range: SlotRange,
    base: Mark,
    entries: Vec<Fated>,
    /// The highest epoch that served it.
    pub(crate) served: Epoch,
    pub(crate) broken: Option<Break>,
    /// What is below the base is not known: reads cannot be checked.
    pub(crate) blind: bool,
    /// It was revived by a primary that had trimmed what it began with before anybody could look, up to here: the first
    /// commit tells where the two part.
    may_part: Option<Mark>,
    pub(crate) model: Model,
    sessions: Sessions,
}

impl Line {
    fn new(range: SlotRange, base: Mark, idle: Duration) -> Line {
        Line {
            range,
            base,
            entries: Vec::new(),
            served: Epoch::ZERO,
            broken: None,
            blind: false,
            may_part: None,
            model: Model::default(),
            sessions: Sessions::new(idle),
        }
    }

    pub(crate) fn last(&self) -> Offset {
        Offset(self.base.offset.0 + self.entries.len() as u64)
    }

    pub(crate) fn get(&self, offset: Offset) -> Option<&Fated> {
        self.entries.get(offset.0.checked_sub(self.base.offset.0 + 1)? as usize)
    }

    pub(crate) fn mark(&self, offset: Offset) -> Option<Mark> {
        if offset == self.base.offset {
            return Some(self.base);
        }
        self.get(offset).map(|fated| Mark { epoch: fated.entry.epoch(), offset })
    }

    /// The last that was committed before then.
    pub(crate) fn last_before(&self, moment: Moment) -> Offset {
        let before = self.entries.partition_point(|fated| fated.at < moment);
        Offset(self.base.offset.0 + before as u64)
    }

    /// The log's time at this offset.
    pub(crate) fn time(&self, offset: Offset) -> Time {
        self.get(offset).map_or(Time::ZERO, |fated| fated.time)
    }

    fn append(&mut self, entry: Entries, at: Moment, known: &Known) -> &Fated {
        let offset = self.last().next();
        let time = self.time(self.last()).max(entry.last_time());
        let (operation, effect) = match entry.first().map_or(BucketBody::Tick, |entry| entry.body) {
            BucketBody::Tick | BucketBody::Split => (None, Effect::Nothing),
            BucketBody::Write { slot, usage, command } => {
                let operation = known.by_command.get(&Payload::from(command)).copied();
                let true_series = operation.and_then(|operation| known.series.get(&operation)).copied();
                let taken = match (operation, usage) {
                    (Some(operation), Some(usage)) => {
                        self.sessions.enter(time, offset, operation, &usage, true_series.unwrap_or(usage.series.0))
                    }
                    (Some(operation), None) => self.sessions.first(offset, operation),
                    (None, _) => Taken::New,
                };
                let here = self.range.contains(slot);
                let effect = match taken {
                    Taken::New if here => Effect::New(self.model.apply(offset, time, command).unwrap_or_default()),
                    Taken::New => Effect::Nothing,
                    Taken::Duplicate(first) => Effect::Duplicate(first),
                    Taken::Refused => Effect::Refused,
                };
                (operation, effect)
            }
        };
        self.sessions.advance(time);
        self.entries.push(Fated { entry, time, at, operation, effect });
        &self.entries[self.entries.len() - 1]
    }

    /// The same line up to `through`, with another range.
    fn again(&self, range: SlotRange, through: Offset, known: &Known) -> Line {
        let mut line = Line::new(range, self.base, known.idle);
        (line.served, line.broken, line.blind) = (self.served, self.broken, self.blind);
        let count = through.above(self.base.offset) as usize;
        for fated in self.entries.iter().take(count) {
            line.append(fated.entry.clone(), fated.at, known);
        }
        line
    }
}

/// What is known of the operations, by which entries are told apart.
#[derive(Debug)]
struct Known {
    idle: Duration,
    by_command: BTreeMap<Payload, usize>,
    /// The number of each write in its session, not wrapped.
    series: BTreeMap<usize, u64>,
}

#[derive(Debug)]
pub(crate) struct Lines {
    lines: BTreeMap<BucketId, Line>,
    known: Known,
    pub(crate) divided: u64,
}

/// A line got a new entry, or was cut back.
#[derive(Debug)]
pub(crate) enum News {
    Nothing,
    Committed(BucketId, Offset),
    /// And then got this one.
    Broken(SlotRange, Option<(BucketId, Offset)>),
}

impl Lines {
    pub(crate) fn new(idle: Duration) -> Lines {
        let known = Known { idle, by_command: BTreeMap::new(), series: BTreeMap::new() };
        Lines { lines: BTreeMap::new(), known, divided: 0 }
    }

    pub(crate) fn on_begin(&mut self, number: usize, operation: &Operation) {
        if operation.act.is_write() {
            self.known.by_command.insert(operation.bytes.clone(), number);
            if let Some(usage) = &operation.usage {
                self.known.series.insert(number, usage.series);
            }
        }
    }

    pub(crate) fn of_slot(&self, slot: HashSlot) -> Option<&Line> {
        let (_, line) = self.lines.range(..=BucketId(slot.0)).next_back()?;
        line.range.contains(slot).then_some(line)
    }

    pub(crate) fn get(&self, bucket: BucketId) -> Option<&Line> {
        self.lines.get(&bucket)
    }

    pub(crate) fn on_event(
        &mut self,
        hosts: &[Host],
        host: usize,
        event: &BucketEvent,
        now: Moment,
    ) -> Result<News, Violation> {
        match event {
            BucketEvent::Serving { bucket, epoch, .. } => self.on_serving(hosts, host, *bucket, *epoch, now),
            BucketEvent::Committed { bucket, epoch, mark, entry } => {
                self.on_committed(host, *bucket, *epoch, *mark, (entry, now))
            }
            BucketEvent::Divided { bucket, at, lower, upper } => {
                self.on_divided(*bucket, *at, *lower, *upper);
                Ok(News::Nothing)
            }
            BucketEvent::Applied { .. }
            | BucketEvent::Cut { .. }
            | BucketEvent::Installed { .. }
            | BucketEvent::Purged { .. }
            | BucketEvent::Confirmed { .. }
            | BucketEvent::VouchedFor { .. }
            | BucketEvent::Leased { .. }
            | BucketEvent::Diverged { .. } => Ok(News::Nothing),
        }
    }

    fn on_serving(
        &mut self,
        hosts: &[Host],
        host: usize,
        bucket: BucketId,
        epoch: Epoch,
        now: Moment,
    ) -> Result<News, Violation> {
        let shards = hosts[host].core().map_or(&[][..], |node| node.shards());
        let Some(replica) = shards.iter().find_map(|shard| shard.replicas().get(&bucket)) else {
            return Ok(News::Nothing);
        };
        // It may be in a later epoch already. The log is the same all the same, if no operator has had a word in it.
        if replica.duty().is_none_or(|duty| duty.appointment.epoch.generations() != epoch.generations()) {
            return Ok(News::Nothing);
        }
        let (range, log, idle) = (replica.range(), replica.log(), self.known.idle);
        let begins = replica.duty().is_some_and(|duty| duty.begins.epoch == duty.appointment.epoch);
        let Some(line) = self.lines.get_mut(&bucket) else {
            let mut line = Line::new(range, log.base(), idle);
            line.blind = log.base().offset != Offset::ZERO && !begins;
            line.served = epoch;
            self.lines.insert(bucket, line);
            return Ok(News::Nothing);
        };
        if epoch < line.served {
            return Ok(News::Nothing); // Of a generation that is over, and has not heard of it.
        }
        let last = line.last();
        // A bucket that begins anew does so far above every offset it ever had.
        let begins = begins || log.base().offset.above(last) > ANEW;
        let ahead = log.base().offset > last && !begins;
        let whole = line.range == range && (ahead || log.mark(last) == line.mark(last));
        let lawful = epoch.generations() > line.served.generations();
        if whole {
            (line.served, line.may_part) = (epoch, (ahead && lawful).then_some(log.base()));
            return Ok(News::Nothing);
        }
        if !lawful {
            let detail = format!(
                "{} serves bucket {bucket} {range:?} in epoch {epoch} from {} to {}; committed is {range:?} up to {:?}",
                host_name(host),
                log.base(),
                log.last(),
                line.mark(last),
                range = line.range,
            );
            return Err(Violation::of(RULE, detail));
        }
        let mut fork = last.min(log.last_offset());
        while fork > line.base.offset && log.mark(fork).is_none_or(|mark| line.mark(fork) != Some(mark)) {
            fork = fork.previous();
        }
        let shared = log.mark(fork).is_some() && line.mark(fork) == log.mark(fork);
        let mut again = if shared {
            line.again(range, fork, &self.known)
        } else {
            let mut line = Line::new(range, log.base(), idle);
            line.blind = !begins;
            fork = log.base().offset;
            line
        };
        again.served = epoch;
        again.broken = Some(Break { at: now, epoch, fork });
        self.lines.retain(|_, other| !range.contains(other.range.first));
        self.lines.insert(bucket, again);
        Ok(News::Broken(range, None))
    }

    fn on_committed(
        &mut self,
        host: usize,
        bucket: BucketId,
        epoch: Epoch,
        mark: Mark,
        (entry, now): (&Entries, Moment),
    ) -> Result<News, Violation> {
        let Some(line) = self.lines.get_mut(&bucket) else { return Ok(News::Nothing) };
        if epoch < line.served || (line.blind && mark.offset <= line.base.offset) {
            return Ok(News::Nothing);
        }
        let last = line.last();
        if let Some(base) = line.may_part.filter(|base| mark.offset > last.next() && mark.offset == base.offset.next())
        {
            // It was revived from a copy that had begun to differ before: that beginning nobody can see any more.
            let (range, fork) = (line.range, base.offset);
            let mut again = Line::new(range, base, self.known.idle);
            (again.blind, again.served) = (true, line.served);
            again.broken = Some(Break { at: now, epoch, fork });
            again.append(entry.clone(), now, &self.known);
            *line = again;
            return Ok(News::Broken(range, Some((bucket, mark.offset))));
        }
        if mark.offset > last.next() {
            let detail = format!("{} commits {mark} of bucket {bucket} after {last}", host_name(host));
            return Err(Violation::of(RULE, detail));
        }
        if mark.offset <= last {
            let same = line.get(mark.offset).is_some_and(|fated| fated.entry == *entry);
            if !same && line.may_part.is_some() {
                let (range, fork) = (line.range, mark.offset.previous());
                let mut again = line.again(range, fork, &self.known);
                again.broken = Some(Break { at: now, epoch, fork });
                again.append(entry.clone(), now, &self.known);
                *line = again;
                return Ok(News::Broken(range, Some((bucket, mark.offset))));
            }
            if !same {
                let first = line.get(mark.offset).map(|fated| &fated.entry);
                let detail = format!(
                    "{} commits {entry:?} at {mark} of bucket {bucket}, where {first:?} was committed",
                    host_name(host)
                );
                return Err(Violation::of(RULE, detail));
            }
            return Ok(News::Nothing);
        }
        line.append(entry.clone(), now, &self.known);
        Ok(News::Committed(bucket, mark.offset))
    }

    /// Told by every member, each at its own time: the first one counts.
    fn on_divided(&mut self, bucket: BucketId, at: Mark, lower: SlotRange, upper: SlotRange) {
        let Some(line) = self.lines.get(&bucket) else { return };
        let whole = SlotRange { first: lower.first, last: upper.last };
        if line.range != whole || line.mark(at.offset) != Some(at) {
            return;
        }
        self.divided += 1;
        let halves = [lower, upper].map(|half| line.again(half, at.offset, &self.known));
        for (half, line) in [lower, upper].into_iter().zip(halves) {
            self.lines.insert(half.bucket(), line);
        }
    }
}
