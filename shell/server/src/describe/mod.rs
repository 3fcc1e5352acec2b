//! Inputs and outputs of a node, a readable line each. For people only: no tool should parse them.
//!
//! Not here: messages (`describe/message.rs`), entries of the log (`describe/entry.rs`), what concerns buckets
//! (`describe/bucket.rs`).

mod bucket;
mod entry;
mod message;

use atoll_node::{Envelope, Event, Input, Order, Output, Rejection};
use atoll_types::{Entry, Government, Incarnation, NodeId, Payload, Record};
use std::fmt::Display;

/// What an entry of the cluster log says.
pub fn decided(entry: &Entry) -> String {
    entry::body(&entry.body)
}

/// A message, with whom it is from and for.
pub fn envelope(envelope: &Envelope) -> String {
    message::envelope(envelope)
}

/// What a step does: an input, or the start of the node.
pub fn step(input: Option<&Input>) -> String {
    input.map_or_else(|| "start".to_owned(), self::input)
}

fn input(input: &Input) -> String {
    match input {
        Input::Message { from, envelope } => format!("message from {from}: {}", message::envelope(envelope)),
        Input::Wake => "wake".to_owned(),
        Input::Persisted(seq) => format!("records up to {} are safe", seq.0),
        Input::Pulse(pulse) => format!("{pulse:?}"),
        Input::Hang { shard, hangs: true } => format!("shard {shard} stands still"),
        Input::Hang { shard, hangs: false } => format!("shard {shard} goes on"),
        Input::Condense(None) => "say all of the cluster log again in one record".to_owned(),
        Input::Condense(Some(bucket)) => format!("say all of bucket {bucket} again in one record"),
        Input::ConnectionRefused { address } => format!("connection refused by {address}"),
        Input::Submit { ticket, payload } => format!("submit {payload:?}, ticket {ticket}"),
        Input::Broadcast { ticket, payload } => format!("open a barrier with {payload:?}, ticket {ticket}"),
        Input::Answer { barrier, answer } => format!("answer the barrier of slot {barrier} with {answer:?}"),
        Input::Operator { ticket, order } => format!("operator: {}, ticket {ticket}", self::order(order)),
        Input::Reports(reports) => format!("{} reports of replicas", reports.len()),
        Input::Request { id, request } => bucket::request(*id, request),
    }
}

fn order(order: &Order) -> String {
    match order {
        Order::Depart(node) => format!("remove {node} for good"),
        Order::Recover => "go on from this copy, in a new generation".to_owned(),
        Order::Operate(operation) => format!("{operation:?}"),
        Order::Pause => "stop this node for a while".to_owned(),
    }
}

pub fn output(output: &Output) -> String {
    match output {
        Output::Send { to, envelope } => format!("send to {to}: {}", message::envelope(envelope)),
        Output::Persist { seq, record } => format!("write record {}: {}", seq.0, self::record(record)),
        Output::WakeAt(time) => format!("wake at {time}"),
        Output::Event(event) => format!("event: {}", self::event(event)),
        Output::Directive(directive) => format!("to the shards: {directive:?}"),
        Output::Answer { id, answer } => bucket::answer(*id, answer),
        Output::Bucket { event, .. } => format!("bucket: {}", bucket::event(event)),
    }
}

fn record(record: &Record) -> String {
    match record {
        Record::Identity(identity) => {
            let (node, life) = (identity.node, incarnation(identity.incarnation));
            format!("this is {node}, {life}, of cluster {}", identity.cluster)
        }
        Record::Promised(ballot) => format!("promised {ballot}"),
        Record::Accepted { ballot, first, entries } => {
            format!("accepted in {ballot}: {}", entry::range(*first, entries))
        }
        Record::Learned { first, entries } => format!("learned: {}", entry::range(*first, entries)),
        Record::Decided(slot) => format!("decided up to {slot}"),
        Record::Checkpoint(checkpoint) => {
            let (bytes, held) = (checkpoint.snapshot.len(), checkpoint.tail.len());
            let (slot, decided, promised) = (checkpoint.slot, checkpoint.decided, checkpoint.promised);
            format!(
                "checkpoint at slot {slot}, {bytes} bytes, {held} entries held above it, decided up to {decided}, \
                 promised {promised}"
            )
        }
        Record::Fenced(generation) => format!("fenced by generation {generation}"),
        Record::Bucket(record) => format!("bucket: {}", bucket::record(record)),
        Record::Unreadable => "a record that cannot be read".to_owned(),
        Record::Blank { .. } => "blank: nothing before counts".to_owned(),
    }
}

fn event(event: &Event) -> String {
    match event {
        Event::Named { node, incarnation } => format!("this is {node}, {}", self::incarnation(*incarnation)),
        Event::Decided { slot, entry } => format!("decided slot {slot}: {}", entry::entry(entry)),
        Event::Delivered { slot, node, cookie, sequence, payload } => {
            let (cookie, sequence) = (cookie.0, sequence.0);
            format!("delivered slot {slot}: {payload:?} of {node}, cookie {cookie:016x}, number {sequence}")
        }
        Event::BarrierOpened { barrier, payload } => format!("barrier of slot {barrier} opened with {payload:?}"),
        Event::BarrierReduced { barrier, slot, answers } => {
            let answers = list(answers.iter().map(|(node, answer)| told(*node, answer)));
            format!("barrier of slot {barrier} complete at slot {slot}: {answers}")
        }
        Event::Submitted { ticket, slot, answer } if answer.is_empty() => {
            format!("ticket {ticket} is in the log at slot {slot}")
        }
        Event::Submitted { ticket, slot, answer } => {
            format!("ticket {ticket} is in the log at slot {slot}: {answer:?}")
        }
        Event::Rejected { ticket, rejection } => format!("ticket {ticket} rejected: {}", self::rejection(*rejection)),
        Event::Unknown { ticket } => format!("ticket {ticket}: its fate is not known"),
        Event::Leading { ballot, slot } => format!("leads in {ballot}, since slot {slot}"),
        Event::SteppedDown { ballot } => format!("no longer leads in {ballot}"),
        Event::Government { slot, government } => {
            format!("government of slot {slot} in effect: {}", self::government(government))
        }
        Event::SnapshotInstalled { slot, digest } => format!("installed the snapshot of slot {slot}, {digest:016x}"),
        Event::SnapshotMade { slot, digest } => format!("made a snapshot at slot {slot}, {digest:016x}"),
        Event::Trimmed { slot } => format!("trimmed the log up to slot {slot}"),
        Event::Departed { at } => format!("departed at slot {at}"),
        Event::Fenced { generation } => format!("fenced by generation {generation}"),
        Event::LevelRaised { level } => format!("feature level {}", level.0),
        Event::Alarm(what) => format!("alarm: {what}"),
    }
}

fn rejection(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Busy => "too much is waiting already",
        Rejection::Blank => "this node belongs to no cluster yet",
        Rejection::TooLarge => "larger than an entry may be",
        Rejection::NotPossible => "no such node or bucket, or too few voters or copies would be left",
    }
}

fn government(government: &Government) -> String {
    let mut text = format!("{} lead, {} stand by", nodes(&government.majority), nodes(&government.minority));
    if !government.learners.is_empty() {
        text += &format!(", {} learn", nodes(&government.learners));
    }
    text + &format!(" ({})", entry::cause(&government.cause))
}

fn incarnation(incarnation: Incarnation) -> String {
    format!("life {}, cookie {:016x}", incarnation.life, incarnation.cookie.0)
}

fn told(node: NodeId, answer: &Payload) -> String {
    format!("{node} {answer:?}")
}

/// A cluster may have hundreds of nodes, and a line has only so many columns.
fn nodes(nodes: &[NodeId]) -> String {
    const SHOWN: usize = 8;
    match nodes {
        [] => "none".to_owned(),
        few if few.len() <= SHOWN => list(few),
        many => format!("{} and {} more", list(&many[..SHOWN]), many.len() - SHOWN),
    }
}

fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Ballot, Body, Cause, Entry, Generation, Slot, Time};
    use std::sync::Arc;

    fn elected(learners: u32) -> Government {
        let voters = [NodeId(1), NodeId(2), NodeId(3)];
        Government::of(&voters, (1..=3 + learners).map(NodeId), Cause::Elected)
    }

    #[test]
    fn inputs_read_as_sentences() {
        assert_eq!(step(None), "start");
        assert_eq!(step(Some(&Input::Wake)), "wake");
        let submit = Input::Submit { ticket: 7, payload: b"hello".as_slice().into() };
        assert_eq!(step(Some(&submit)), "submit \"hello\", ticket 7");
    }

    #[test]
    fn a_decided_entry_reads_as_a_sentence() {
        let entry = Arc::new(Entry { time: Time(1_500_000), leader: NodeId(1), body: Body::Noop });
        let decided = Output::Event(Event::Decided { slot: Slot(4), entry });
        assert_eq!(output(&decided), "event: decided slot 4: nothing (by #1 at 1.500000)");
    }

    #[test]
    fn a_large_government_stays_on_its_line() {
        assert_eq!(government(&elected(1)), "#1 #2 lead, #3 stand by, #4 learn (elected)");
        let large = government(&elected(300));
        assert!(large.contains("and 292 more") && large.len() < 120, "{large}");
    }

    #[test]
    fn a_promise_on_disk_names_its_ballot() {
        let ballot = Ballot { generation: Generation::default(), round: 3, node: NodeId(2) };
        assert_eq!(record(&Record::Promised(ballot)), "promised 0/3#2");
    }
}
