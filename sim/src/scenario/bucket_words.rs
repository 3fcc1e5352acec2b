//! Buckets in words: steps of orders, reports, wishes of operators, what replicas and shards say to each other, and
//! what callers are told.
//!
//! Not here: entries of the cluster log and its messages (`words.rs`, `letters.rs`).

use crate::scenario::words::Words;
use atoll_distributor::{Alarm, Bucket};
use atoll_kv::{Action, Answer as KvAnswer, Command, Detail, Query};
use atoll_node::BucketEvent;
use atoll_node::shard::door::{Answer, Ask, Reason, Request};
use atoll_node::shard::message::{Hop, Hopped, ShardMessage, Vouch, Vouched};
use atoll_node::store::KV;
use atoll_replica::message::{Body, Message, Write};
use atoll_types::{BucketBody, BucketEntry, Entries, Offset, Operation, Order, Payload, Report, SlotRange, Step};

/// The one word that names a kind of replica's message in commands.
pub(super) fn kind(message: &Message) -> &'static str {
    match message.body {
        Body::Open(_) => "open",
        Body::Opened(_) => "opened",
        Body::Write(_) => "write",
        Body::Ack(_) => "ack",
        Body::Piece(_) => "piece",
        Body::Got(_) => "got",
        Body::Refused(_) => "refused",
    }
}

fn join(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `5`, or `5..7`.
fn span(first: Offset, last: Offset) -> String {
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}

pub(super) fn range(range: SlotRange) -> String {
    format!("slots {} to {}", range.first.0, range.last.0)
}

/// A command for the key-value store; scenarios know no other.
pub(super) fn command(bytes: &[u8]) -> String {
    let decoded = bytes.split_first().filter(|(part, _)| **part == KV);
    match decoded.and_then(|(_, command)| Command::decode(command)) {
        Some(command) => join(command.operations.iter().map(|operation| {
            let key = text(operation.key);
            match operation.action {
                Action::Put { value, .. } => format!("put {key} {}", text(value)),
                Action::Increment { .. } => format!("count {key}"),
                Action::Check
                | Action::Get
                | Action::Delete
                | Action::Append { .. }
                | Action::Expire { .. }
                | Action::GetAndPut { .. }
                | Action::GetAndDelete => format!("{:?} of {key}", operation.action),
            }
        })),
        None => format!("{} bytes", bytes.len()),
    }
}

pub(super) fn request(request: &Request) -> String {
    let query = |query: &Payload| {
        let decoded = query.as_slice().get(1..).and_then(Query::decode);
        if let Some(Query::Get { key }) = decoded { format!("get {}", text(key)) } else { "a query".to_owned() }
    };
    match &request.ask {
        Ask::Write { command: bytes, usage } => {
            let series = usage.map(|usage| format!(" (series {})", usage.series.0)).unwrap_or_default();
            format!("{}{series}", command(bytes.as_slice()))
        }
        Ask::Read { query: bytes } => query(bytes),
        Ask::Stale { query: bytes, .. } => format!("stale {}", query(bytes)),
    }
}

pub(super) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Done { payload, position, duplicate } => {
            let again = if *duplicate { ", the first time it was sent" } else { "" };
            let mark = position.mark;
            let place = format!("at {} of bucket {}, written in epoch {}", mark.offset, position.bucket, mark.epoch);
            let place = if mark.offset == Offset::ZERO { format!("of bucket {}", position.bucket) } else { place };
            format!("{} ({place}{again})", outcome(payload))
        }
        Answer::NotApplied(reason) => format!("not applied: {}", self::reason(*reason)),
        Answer::Unknown => "unknown, it may have an effect or not".to_owned(),
    }
}

/// What the key-value store answered.
fn outcome(payload: &Payload) -> String {
    match KvAnswer::decode(payload.as_slice()) {
        Some(KvAnswer::Value(Some(found))) => text(found.value),
        Some(KvAnswer::Value(None)) => "nothing there".to_owned(),
        Some(KvAnswer::Done(outcomes)) => join(outcomes.iter().map(|outcome| match outcome.detail {
            Detail::Number(number) => number.to_string(),
            Detail::Nothing | Detail::Length(_) | Detail::Old(_) => "done".to_owned(),
        })),
        Some(other) => format!("{other:?}"),
        None => "done".to_owned(),
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Busy => "busy, too much is waiting",
        Reason::Paused => "not served in time",
        Reason::Lost => "the bucket is lost",
        Reason::NoTable => "there is no table yet",
        Reason::TooManyHops => "passed on too often",
        Reason::OutOfMemory => "a member has no memory to spare",
        Reason::SessionExpired => "the session has expired",
        Reason::BelowFloor => "below the client's own floor",
        Reason::BeyondWindow => "too many writes outstanding",
        Reason::BadSession => "no such session can be",
        Reason::TooStale => "nobody has got so far",
        Reason::TooLarge => "larger than a write may be",
    }
}

fn entry(entry: &BucketEntry<'_>) -> String {
    match entry.body {
        BucketBody::Write { command: bytes, .. } => command(bytes),
        BucketBody::Tick => "the time".to_owned(),
        BucketBody::Split => "the split".to_owned(),
    }
}

fn entries(entries: &Entries, after: Offset) -> String {
    const TOLD: u64 = 2;
    let span = span(after.next(), Offset(after.0 + entries.count()));
    match entries.count() {
        0..=TOLD => format!("{span} ({})", join(entries.iter().map(|one| entry(&one)))),
        _many => span,
    }
}

impl Words<'_> {
    pub(super) fn order(&self, order: &Order) -> String {
        let steps = order.steps.iter().map(|step| self.step(step));
        format!("order {}: {}", order.number, steps.collect::<Vec<_>>().join("; "))
    }

    fn step(&self, step: &Step) -> String {
        match step {
            Step::Place { buckets, copies, min_copies, .. } => {
                let many = if *buckets == 1 { "bucket" } else { "buckets" };
                format!("place {buckets} {many} of {copies} copies, never fewer than {min_copies}")
            }
            Step::Expand { bucket, add, .. } => format!("bucket {bucket}, {} to catch up", self.nodes(add)),
            Step::Unite { bucket, .. } => format!("bucket {bucket}, who is ready becomes a member"),
            Step::Abandon { bucket, drop, .. } => format!("bucket {bucket}, {} catches up no more", self.nodes(drop)),
            Step::Abdicate { bucket, to, .. } => format!("bucket {bucket}, {} to be primary", self.node(*to)),
            Step::Contract { bucket, drop, .. } => format!("bucket {bucket}, without {}", self.nodes(drop)),
            Step::Split { bucket, .. } => format!("bucket {bucket}, to be split"),
        }
    }

    pub(super) fn reports(&self, reports: &[Report]) -> String {
        join(reports.iter().map(|report| match report {
            Report::Ready { bucket, node, epoch } => {
                format!("{} is ready for bucket {bucket} in epoch {epoch}", self.node(*node))
            }
            Report::Settled { bucket, epoch } => format!("bucket {bucket} has settled in epoch {epoch}"),
            Report::Divided { bucket, epoch } => format!("bucket {bucket} ends with a split in epoch {epoch}"),
            Report::Complain { bucket, epoch, about } => {
                format!("waits in vain for {} in bucket {bucket}, epoch {epoch}", self.node(*about))
            }
            Report::Damaged { bucket, .. } => format!("its copy of bucket {bucket} is damaged"),
            Report::Sought { bucket, at, .. } if at.is_nobody() => format!("bucket {bucket} is sought all over"),
            Report::Sought { bucket, at, .. } => format!("bucket {bucket} is sought at {}", self.node(*at)),
        }))
    }

    pub(super) fn operation(&self, operation: &Operation) -> String {
        match operation {
            Operation::Drain { node } => format!("drain {}", self.node(*node)),
            Operation::Undrain { node } => format!("do not drain {}", self.node(*node)),
            Operation::HandOver { node } => format!("{} hands over what it leads", self.node(*node)),
            Operation::Split { bucket: Some(bucket) } => format!("split bucket {bucket}"),
            Operation::Split { bucket: None } => "split all buckets".to_owned(),
            Operation::Rebalance => "level out now".to_owned(),
            Operation::Revive { bucket, from: Some(node) } => {
                format!("revive bucket {bucket} from the copy of {}", self.node(*node))
            }
            Operation::Revive { bucket, from: None } => format!("revive bucket {bucket} empty"),
        }
    }

    pub(super) fn of_shard(&self, message: &ShardMessage) -> String {
        match message {
            ShardMessage::Replicas(messages) => {
                messages.iter().map(|message| self.of_replica(message)).collect::<Vec<_>>().join("; ")
            }
            ShardMessage::Hop(Hop { number, version, requests, hops, .. }) => {
                let again = if *hops > 1 { format!(", passed on {hops} times") } else { String::new() };
                format!("hop {number} by table {version}{again}: {}", join(requests.iter().map(request)))
            }
            ShardMessage::Hopped(Hopped { number, answers, .. }) => {
                format!("hop {number}: {}", join(answers.iter().map(|(_, one)| answer(one))))
            }
            ShardMessage::Vouch(Vouch { number, .. }) => format!("vouch {number}: what have you heard of?"),
            ShardMessage::Vouched(Vouched { number, latest: Some(latest), .. }) => {
                format!("vouch {number}: nothing later than slot {}", latest.slot)
            }
            ShardMessage::Vouched(Vouched { number, latest: None, .. }) => format!("vouch {number}: I cannot tell"),
        }
    }

    pub(super) fn of_replica(&self, message: &Message) -> String {
        let Message { bucket, epoch, body } = message;
        let what = match body {
            Body::Open(_) => "what do you hold?".to_owned(),
            Body::Opened(opened) if opened.nothing => "I hold nothing of use".to_owned(),
            Body::Opened(opened) => {
                let held = opened.runs.iter().filter(|run| run.last > Offset::ZERO);
                let runs = held.map(|run| format!("to {} of epoch {}", run.last, run.epoch));
                let runs = join(runs);
                if runs.is_empty() { "I hold nothing yet".to_owned() } else { format!("I hold all {runs}") }
            }
            Body::Write(write) => told_write(write),
            Body::Ack(ack) => {
                let gap = if ack.gap { ", something is missing" } else { "" };
                let waits = if ack.waits { ": what is committed?" } else { "" };
                format!("I hold {}, round {}{gap}{waits}", ack.held, ack.round)
            }
            Body::Piece(piece) => {
                let end = piece.at + piece.bytes.len() as u64;
                format!("bytes {} to {end} of {}, a snapshot of {}", piece.at, piece.length, piece.mark.offset)
            }
            Body::Got(got) => match got.have {
                Some(have) => format!("I have {have} bytes of the snapshot of {}", got.mark.offset),
                None => format!("the snapshot of {} was bad, begin anew", got.mark.offset),
            },
            Body::Refused(refused) => format!("refused, there is epoch {}", refused.current),
        };
        format!("bucket {bucket} epoch {epoch}: {what}")
    }

    /// `entries`: whether each entry is worth a line.
    pub(super) fn bucket_event(&self, event: &BucketEvent, entries: bool) -> Option<String> {
        Some(match event {
            BucketEvent::Serving { bucket, epoch, inherited } => {
                format!("serves bucket {bucket} in epoch {epoch}, on top of {inherited}")
            }
            BucketEvent::Committed { bucket, mark, entry: one, .. } if entries => {
                format!("commits {} of bucket {bucket}: {}", mark.offset, join(one.iter().map(|one| entry(&one))))
            }
            BucketEvent::Applied { bucket, mark, .. } if entries => {
                format!("applies {} of bucket {bucket}", mark.offset)
            }
            BucketEvent::Cut { bucket, epoch, to, entries } => {
                let many = if *entries == 1 { "entry" } else { "entries" };
                format!("cuts {entries} {many} above {to} of bucket {bucket}, as epoch {epoch} opens")
            }
            BucketEvent::Installed { bucket, mark, .. } => {
                format!("installed a snapshot of bucket {bucket} as of {}", mark.offset)
            }
            BucketEvent::Divided { bucket, at, lower, upper } => {
                let halves = format!("{} and {}", range(*lower), range(*upper));
                format!("halves its copy of bucket {bucket} at {}: {halves}", at.offset)
            }
            BucketEvent::Purged { bucket } => format!("purges its copy of bucket {bucket}"),
            BucketEvent::Diverged { bucket, offset, .. } => {
                format!("finds its copy of bucket {bucket} unlike its primary's at {offset}")
            }
            BucketEvent::Committed { .. }
            | BucketEvent::Applied { .. }
            | BucketEvent::Confirmed { .. }
            | BucketEvent::VouchedFor { .. }
            | BucketEvent::Leased { .. } => return None,
        })
    }

    /// A row of the table.
    pub(super) fn bucket(&self, bucket: &Bucket) -> String {
        let mut words = format!("bucket {}  {}, epoch {}", bucket.id(), range(bucket.range), bucket.epoch());
        words += if bucket.settled { ", settled" } else { ", not settled" };
        if bucket.splitting {
            words += ", splitting";
        }
        if bucket.is_lost() {
            words += ", lost";
        }
        words += &format!(": primary {}", self.node(bucket.primary()));
        let lists = [
            ("members", bucket.members()),
            ("catching up", bucket.catching_up()),
            ("ready", &bucket.ready),
            ("eligible", &bucket.eligible),
        ];
        for (list, nodes) in lists.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
            words += &format!(", {list} {}", self.nodes(nodes));
        }
        words
    }

    pub(super) fn alarm(&self, alarm: &Alarm) -> String {
        match alarm {
            Alarm::Unserved { buckets, waiting_for } => {
                let buckets = join(buckets.iter().map(ToString::to_string));
                format!("bucket {buckets} is not served until one of {} returns", self.nodes(waiting_for))
            }
            Alarm::DrainWithoutSpare { node } => {
                format!("the drain of {} leaves fewer copies: there is no spare node", self.node(*node))
            }
            Alarm::DrainBlocked { node } => format!("the drain of {} waits: too few would remain", self.node(*node)),
            Alarm::Skewed { node, leads } => {
                format!("the clock of {} is off; it leads {leads} buckets", self.node(*node))
            }
            Alarm::Lost { .. } | Alarm::Stopped { .. } | Alarm::Short { .. } => alarm.to_string(),
        }
    }
}

/// `write 5..6 after 4, committed 4`
fn told_write(write: &Write) -> String {
    let after = write.previous.offset;
    let mut words = if write.opening { "opening, ".to_owned() } else { String::new() };
    words += &match write.entries.is_empty() {
        true => format!("nothing after {after}"),
        false => format!("write {} after {after}", entries(&write.entries, after)),
    };
    words += &format!(", committed {}", write.committed);
    if write.confirm {
        words += &format!(", confirm round {}", write.round);
    }
    words
}
