//! What a disk's records add up to, for the cluster machine.
//!
//! Not here: the records of buckets, which are the shards' (`node.rs` tells them apart).

use crate::replicated::Replicated;
use atoll_paxos::Log;
use atoll_types::{Ballot, Bug, Generation, Held, Identity, Record, Slot, StateMachine, planted};

/// A node as its disk knows it.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) identity: Option<Identity>,
    /// Belonged to a cluster once, and no longer.
    pub(crate) departed: bool,
    pub(crate) generation: Generation,
    /// A later generation was seen, and nothing of it is here yet.
    pub(crate) fenced: bool,
    /// Something cannot be read: what was promised and accepted is not known, and nobody votes from a guess.
    pub(crate) damaged: bool,
    pub(crate) promised: Ballot,
    /// The state at `log.trimmed()`; None if a snapshot is still to be fetched.
    pub(crate) replicated: Option<Replicated>,
    pub(crate) log: Log,
    decided: Slot,
}

impl Restored {
    fn blank() -> Restored {
        Restored {
            identity: None,
            departed: false,
            generation: Generation::default(),
            fenced: false,
            damaged: false,
            promised: Ballot::default(),
            replicated: None,
            log: Log::default(),
            decided: Slot::ZERO,
        }
    }

    pub(crate) fn from(records: Vec<Record>, kind: Option<&dyn StateMachine>) -> Restored {
        let mut restored = Restored::blank();
        for record in records {
            restored.take(record, kind);
        }
        if planted(Bug::PromiseForgottenOnRestart) {
            let last = restored.log.last();
            restored.promised = restored.log.get(last).map_or(Ballot::default(), |held| held.ballot);
        }
        restored
    }

    fn take(&mut self, record: Record, kind: Option<&dyn StateMachine>) {
        if self.damaged && !matches!(record, Record::Blank { .. }) {
            return;
        }
        match record {
            Record::Identity(identity) => self.identity = Some(identity),
            Record::Promised(ballot) => self.promise(ballot, kind),
            Record::Accepted { ballot, first, entries } => {
                self.promise(ballot, kind);
                for (offset, entry) in entries.into_iter().enumerate() {
                    self.hold(Slot(first.0 + offset as u64), Held { ballot, entry });
                }
            }
            Record::Learned { first, entries } => {
                for (offset, entry) in entries.into_iter().enumerate() {
                    let slot = Slot(first.0 + offset as u64);
                    self.hold(slot, Held { ballot: Ballot::default(), entry });
                    self.decide(slot);
                }
            }
            Record::Decided(slot) => self.decide(slot),
            Record::Checkpoint(checkpoint) => {
                let Some(replicated) = Replicated::open(checkpoint.snapshot.as_slice(), kind) else {
                    *self = Restored { departed: true, damaged: true, ..Restored::blank() };
                    return;
                };
                let time = replicated.state.time;
                self.generation = replicated.state.generation;
                self.replicated = Some(replicated);
                self.fenced = false;
                self.identity = Some(checkpoint.identity);
                self.log = Log::after(checkpoint.slot, time);
                self.promised = checkpoint.promised;
                for (offset, held) in checkpoint.tail.into_iter().enumerate() {
                    self.hold(Slot(checkpoint.slot.0 + 1 + offset as u64), held);
                }
                self.decide(checkpoint.decided);
            }
            Record::Fenced(generation) => {
                let identity = self.identity.take();
                *self = Restored { identity, generation, fenced: true, ..Restored::blank() };
            }
            Record::Unreadable => *self = Restored { departed: true, damaged: true, ..Restored::blank() },
            Record::Bucket(_) => {}
            Record::Blank { departed } => *self = Restored { departed, ..Restored::blank() },
        }
    }

    fn promise(&mut self, ballot: Ballot, kind: Option<&dyn StateMachine>) {
        self.promised = self.promised.max(ballot);
        self.generation = self.generation.max(ballot.generation);
        // A founder's log begins with its own first entry, after the empty state.
        if self.replicated.is_none() && self.log.trimmed() == Slot::ZERO {
            self.replicated = Some(Replicated::new(kind));
        }
    }

    fn hold(&mut self, slot: Slot, held: Held) {
        if slot > self.log.decided() && slot <= self.log.last().next() {
            self.log.put(slot, held);
        }
    }

    fn decide(&mut self, slot: Slot) {
        self.decided = self.decided.max(slot);
        while self.log.decided() < self.decided.min(self.log.last()) {
            self.log.decide_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Body, Checkpoint, ClusterId, Entry, Incarnation, NodeId, Payload, Time};
    use std::sync::Arc;

    fn ballot(round: u64) -> Ballot {
        Ballot { generation: Generation::default(), round, node: NodeId(1) }
    }

    fn entry(time: u64) -> Arc<Entry> {
        Arc::new(Entry { time: Time(time), leader: NodeId(1), body: Body::Noop })
    }

    fn identity() -> Identity {
        Identity { cluster: ClusterId(1), node: NodeId(2), incarnation: Incarnation::default() }
    }

    fn checkpoint(snapshot: Payload) -> Record {
        let (promised, slot, tail) = (ballot(5), Slot(0), vec![]);
        Record::Checkpoint(Checkpoint { identity: identity(), promised, snapshot, slot, decided: slot, tail })
    }

    #[test]
    fn votes_and_promises_come_back_as_they_were() {
        let restored = Restored::from(
            vec![
                Record::Identity(identity()),
                Record::Accepted { ballot: ballot(2), first: Slot(1), entries: vec![entry(1), entry(2)] },
                Record::Promised(ballot(4)),
                Record::Accepted { ballot: ballot(3), first: Slot(2), entries: vec![entry(9)] },
                Record::Decided(Slot(1)),
            ],
            None,
        );
        assert_eq!((restored.promised, restored.log.decided(), restored.log.last()), (ballot(4), Slot(1), Slot(2)));
        assert_eq!(restored.log.get(Slot(2)).map(|held| held.ballot), Some(ballot(3)), "the later vote");
    }

    #[test]
    fn a_departed_node_keeps_nothing() {
        let records = vec![Record::Identity(identity()), Record::Promised(ballot(4)), Record::Blank { departed: true }];
        let restored = Restored::from(records, None);
        assert_eq!((restored.identity, restored.promised, restored.departed), (None, Ballot::default(), true));
    }

    #[test]
    fn a_fenced_node_keeps_its_identity_and_no_log() {
        let generation = Generation { number: 1, by: NodeId(3) };
        let records = vec![Record::Identity(identity()), Record::Promised(ballot(4)), Record::Fenced(generation)];
        let restored = Restored::from(records, None);
        assert_eq!((restored.identity, restored.generation, restored.fenced), (Some(identity()), generation, true));
        assert!(restored.replicated.is_none());
    }

    #[test]
    fn nobody_votes_from_a_checkpoint_that_cannot_be_read() {
        let damaged = checkpoint(Payload::from(&b"?"[..]));
        let restored = Restored::from(vec![damaged, Record::Promised(ballot(9))], None);
        assert_eq!((restored.identity, restored.damaged, restored.promised), (None, true, Ballot::default()));
    }
}
