//! What a shard says of what it has heard of, and to whom.

use super::town::config;
use crate::envelope::{Envelope, Message};
use crate::shard::Shard;
use crate::shard::door::{Contact, Directive, ShardInput, ShardOutput, Table};
use crate::shard::message::{ShardMessage, Vouch, Vouched};
use atoll_types::{ClusterId, Cookie, Generation, Incarnation, NodeId, Slot, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);
const NOW: Time = Time(1_000_000);

fn life(life: u32) -> Incarnation {
    Incarnation { life, cookie: Cookie(life.into()) }
}

fn roster(other: Incarnation) -> Directive {
    let contact = |name: &str, incarnation| Contact { address: name.into(), incarnation, present: true };
    Directive::Roster(BTreeMap::from([(ME, contact("n1", life(1))), (OTHER, contact("n2", other))]))
}

fn shard() -> Shard {
    let mut shard = Shard::start(&config("n1", &["n1"]), 0, 1, Vec::new(), NOW);
    let (cluster, generation) = (ClusterId(7), Generation::default());
    let (version, lease, duties, purge) = (Slot(5), Duration::ZERO, Vec::new(), Vec::new());
    let told = [
        Directive::Named { cluster, generation, node: ME, incarnation: life(1) },
        roster(life(1)),
        Directive::Table(Table { version, width: 4096, lease, complete: true, duties, purge }),
    ];
    told.into_iter().for_each(|directive| shard.handle(NOW, ShardInput::Directive(directive)));
    while shard.poll().is_some() {}
    shard
}

fn ask(shard: &mut Shard, from: Incarnation, number: u64) {
    let shards = config("n1", &["n1"]).shards as u16;
    let message = Message::Shard(ShardMessage::Vouch(Vouch { number, shard: 0, shards }));
    let (cluster, generation) = (ClusterId(7), Generation::default());
    let (to, to_cookie) = (ME, life(1).cookie);
    let envelope = Envelope { cluster, generation, from: OTHER, incarnation: from, to, to_cookie, message };
    shard.handle(NOW, ShardInput::Message { from: "n2".into(), envelope: Box::new(envelope) });
}

fn answers(shard: &mut Shard) -> Vec<(Cookie, Vouched)> {
    let mut answers = Vec::new();
    while let Some(output) = shard.poll() {
        if let ShardOutput::Send { envelope, .. } = output
            && let Message::Shard(ShardMessage::Vouched(vouched)) = envelope.message
        {
            answers.push((envelope.to_cookie, vouched));
        }
    }
    answers
}

#[test]
fn the_last_question_of_a_turn_is_answered() {
    let mut shard = shard();
    (1..=3).for_each(|number| ask(&mut shard, life(1), number));
    let found = answers(&mut shard);
    assert_eq!(found.iter().map(|(to, vouched)| (to.0, vouched.number)).collect::<Vec<_>>(), [(1, 3)]);
    assert_eq!(found[0].1.latest.map(|latest| latest.slot), Some(Slot(5)));
}

/// A later life counts its questions anew: an answer to the life before would seem to be one to a question of its own.
#[test]
fn what_a_former_life_asked_is_not_answered_to_the_next() {
    let mut shard = shard();
    ask(&mut shard, life(1), 9);
    shard.handle(NOW, ShardInput::Directive(roster(life(2))));
    assert_eq!(answers(&mut shard), []);
    ask(&mut shard, life(2), 1);
    assert_eq!(answers(&mut shard).len(), 1);
}
