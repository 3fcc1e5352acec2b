//! What each node has safely promised and voted for, by the records that its disk was given: the simulator's own
//! knowledge, apart from what any node believes. It outlives the process: a vote once cast was cast.
//!
//! Hosts without a disk order the same records; theirs count from the moment they are ordered.

use atoll_types::{Ballot, ClusterId, NodeId, Record, Slot};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Votes {
    pub(crate) promised: Ballot,
    /// All up to here is known decided.
    known: Slot,
    /// Above `known`.
    accepted: BTreeMap<Slot, Ballot>,
}

impl Votes {
    /// Holds the slot as it is decided, or as it was proposed in `ballot` or a later one.
    pub(crate) fn holds(&self, slot: Slot, ballot: Ballot) -> bool {
        self.known >= slot || self.accepted.get(&slot).is_some_and(|&accepted| accepted >= ballot)
    }

    pub(crate) fn knows(&self) -> Slot {
        self.known
    }

    fn learn(&mut self, slot: Slot) {
        if slot > self.known {
            self.known = slot;
            self.accepted = self.accepted.split_off(&slot.next());
        }
    }

    fn apply(&mut self, record: &Record) {
        match record {
            Record::Identity(_) | Record::Bucket(_) | Record::Unreadable | Record::Blank { .. } => {}
            Record::Promised(ballot) => self.promised = self.promised.max(*ballot),
            Record::Accepted { ballot, first, entries } => {
                self.promised = self.promised.max(*ballot);
                for offset in 0..entries.len() as u64 {
                    let slot = Slot(first.0 + offset);
                    if slot > self.known {
                        self.accepted.insert(slot, *ballot);
                    }
                }
            }
            Record::Learned { first, entries } => {
                if first.previous() <= self.known {
                    self.learn(Slot(first.0 + entries.len() as u64 - 1));
                }
            }
            Record::Decided(slot) => self.learn(*slot),
            Record::Checkpoint(checkpoint) => {
                self.promised = self.promised.max(checkpoint.promised);
                self.learn(checkpoint.decided);
                for (offset, held) in checkpoint.tail.iter().enumerate() {
                    let slot = Slot(checkpoint.slot.0 + 1 + offset as u64);
                    if slot > self.known {
                        self.accepted.insert(slot, held.ballot);
                    }
                }
            }
            // The log of the older generation is void; the promises in it no longer matter to anybody.
            Record::Fenced(_) => {
                self.known = Slot::ZERO;
                self.accepted.clear();
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    votes: BTreeMap<(ClusterId, NodeId), Votes>,
    /// Which node each host's records are of.
    writers: Vec<Option<(ClusterId, NodeId)>>,
}

impl Ledger {
    pub(crate) fn new(hosts: usize) -> Ledger {
        Ledger { votes: BTreeMap::new(), writers: vec![None; hosts] }
    }

    pub(crate) fn of(&self, cluster: ClusterId, node: NodeId) -> Option<&Votes> {
        self.votes.get(&(cluster, node))
    }

    /// The node that the host's safe records are of.
    pub(crate) fn writer(&self, host: usize) -> Option<(ClusterId, NodeId)> {
        self.writers[host]
    }

    /// The host's memory is gone. The votes stay cast.
    pub(crate) fn forget_writer(&mut self, host: usize) {
        self.writers[host] = None;
    }

    pub(crate) fn apply(&mut self, host: usize, record: &Record) {
        match record {
            Record::Identity(identity) => self.writers[host] = Some((identity.cluster, identity.node)),
            Record::Checkpoint(checkpoint) => {
                self.writers[host] = Some((checkpoint.identity.cluster, checkpoint.identity.node));
            }
            Record::Blank { .. } => self.writers[host] = None,
            Record::Promised(_)
            | Record::Accepted { .. }
            | Record::Learned { .. }
            | Record::Decided(_)
            | Record::Fenced(_)
            | Record::Unreadable
            | Record::Bucket(_) => {}
        }
        if let Some(writer) = self.writers[host] {
            self.votes.entry(writer).or_default().apply(record);
        }
    }
}
