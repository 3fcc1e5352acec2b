//! What a shard alone is given, and what comes of it. Most of it reads as it does for a whole node.

use atoll_node::shard::door::{Directive, ShardInput, ShardOutput};
use atoll_node::{Input, Output};
use atoll_types::Record;

pub(super) fn input(input: &ShardInput) -> String {
    let same = match input {
        ShardInput::Directive(directive) => return format!("from the cluster machine: {}", self::directive(directive)),
        ShardInput::Message { from, envelope } => Input::Message { from: from.clone(), envelope: (**envelope).clone() },
        ShardInput::Request { id, request } => Input::Request { id: *id, request: request.clone() },
        ShardInput::Persisted(seq) => Input::Persisted(*seq),
        ShardInput::Condense(bucket) => Input::Condense(Some(*bucket)),
        ShardInput::Wake => Input::Wake,
        ShardInput::ConnectionRefused { address } => Input::ConnectionRefused { address: address.clone() },
    };
    super::input(&same)
}

pub(super) fn output(output: &ShardOutput) -> String {
    let same = match output {
        ShardOutput::Send { to, envelope } => Output::Send { to: to.clone(), envelope: (**envelope).clone() },
        ShardOutput::Persist { seq, record } => {
            Output::Persist { seq: *seq, record: Record::Bucket((**record).clone()) }
        }
        ShardOutput::WakeAt(time) => Output::WakeAt(*time),
        ShardOutput::Answer { id, answer } => Output::Answer { id: *id, answer: answer.clone() },
        ShardOutput::Reports(reports) => return format!("to the cluster machine: {} reports", reports.len()),
        ShardOutput::Event { by, event } => Output::Bucket { by: by.clone(), event: (**event).clone() },
    };
    super::output(&same)
}

/// A table may have thousands of duties, and a roster hundreds of nodes.
pub(super) fn directive(directive: &Directive) -> String {
    match directive {
        Directive::Named { node, incarnation, .. } => format!("this is {node}, {}", super::incarnation(*incarnation)),
        Directive::Generation(generation) => format!("generation {generation}"),
        Directive::Departed => "this node departed".to_owned(),
        Directive::Roster(roster) => {
            let present = roster.values().filter(|contact| contact.present).count();
            format!("{present} of {} nodes are present", roster.len())
        }
        Directive::Table(table) => {
            let (changed, purged) = (table.duties.len(), table.purge.len());
            format!("the table of slot {}: {changed} duties, {purged} copies to be purged", table.version)
        }
        Directive::Current { since } => format!("the table lacks nothing of before {since}"),
    }
}
