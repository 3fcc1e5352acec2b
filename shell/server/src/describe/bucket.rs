//! What concerns buckets, as a person reads it.

use atoll_node::BucketEvent;
use atoll_node::shard::door::{Answer, Ask, Request, RequestId};
use atoll_node::shard::message::ShardMessage;
use atoll_types::{BucketRecord, Entries, SlotRange};

pub(super) fn request(id: RequestId, request: &Request) -> String {
    let Request { connection, slot, principal: _, ask } = request;
    let ask = match ask {
        Ask::Write { usage: Some(usage), command } => {
            let (session, series) = (usage.session, usage.series.0);
            format!("write {command:?}, number {series} of session {session}")
        }
        Ask::Write { usage: None, command } => format!("write {command:?}"),
        Ask::Read { query } => format!("read {query:?}"),
        Ask::Stale { query, after: Some(after) } => format!("stale read {query:?}, at or after {after}"),
        Ask::Stale { query, after: None } => format!("stale read {query:?}"),
    };
    format!("request {} of connection {connection}, slot {}: {ask}", id.0, slot.0)
}

pub(super) fn answer(id: RequestId, answer: &Answer) -> String {
    let answer = match answer {
        Answer::Done { payload, position, duplicate: false } => format!("{payload:?} at {position}"),
        Answer::Done { payload, position, duplicate: true } => format!("{payload:?} at {position}, as before"),
        Answer::NotApplied(reason) => format!("not applied: {reason:?}"),
        Answer::Unknown => "its fate is not known".to_owned(),
    };
    format!("answer request {}: {answer}", id.0)
}

pub(super) fn message(message: &ShardMessage) -> String {
    match message {
        ShardMessage::Replicas(messages) => {
            let told =
                messages.iter().map(|message| format!("{} {} {:?}", message.bucket, message.epoch, message.body));
            format!("Replicas: {}", told.collect::<Vec<_>>().join("; "))
        }
        ShardMessage::Hop(hop) => {
            let (count, root) = (hop.requests.len(), range(hop.root));
            format!("Hop {} of {count} requests for slots {root}, table {}, hop {}", hop.number, hop.version, hop.hops)
        }
        ShardMessage::Hopped(hopped) => format!("Hopped {}: {} answers", hopped.number, hopped.answers.len()),
        ShardMessage::Vouch(vouch) => format!("Vouch {}", vouch.number),
        ShardMessage::Vouched(vouched) => match vouched.latest {
            Some(latest) => format!("Vouched {}: nothing later than slot {}", vouched.number, latest.slot),
            None => format!("Vouched {}: cannot tell", vouched.number),
        },
    }
}

pub(super) fn record(record: &BucketRecord) -> String {
    let bucket = record.bucket();
    match record {
        BucketRecord::Began { range, base, .. } => format!("{bucket} begins at {base}, slots {}", self::range(*range)),
        BucketRecord::Seen { epoch, .. } => format!("{bucket} has seen epoch {epoch}"),
        BucketRecord::Appended { first, entries, .. } => {
            format!("{bucket} takes {} entries from {first} on", entries.count())
        }
        BucketRecord::Cut { to, .. } => format!("{bucket} is cut to {to}"),
        BucketRecord::Copied { snapshot, .. } => {
            format!("{bucket} is a copy at {}, {} bytes", snapshot.mark, snapshot.bytes.len())
        }
        BucketRecord::Divided { at, lower, upper, .. } => {
            format!("{bucket} is divided at {at} into slots {} and {}", range(*lower), range(*upper))
        }
        BucketRecord::Purged { .. } => format!("{bucket} is gone"),
        BucketRecord::Image { seen, snapshot, tail, .. } => {
            let (mark, bytes, held) =
                (snapshot.mark, snapshot.bytes.len(), tail.iter().map(Entries::count).sum::<u64>());
            format!("{bucket} is whole at {mark}, {bytes} bytes, {held} entries held above it, epoch {seen} seen")
        }
        BucketRecord::Unreadable { .. } => format!("{bucket} has a record that cannot be read"),
    }
}

pub(super) fn event(event: &BucketEvent) -> String {
    format!("{event:?}")
}

fn range(range: SlotRange) -> String {
    format!("{} to {}", range.first.0, range.last.0)
}
