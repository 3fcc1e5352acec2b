//! Promising and accepting. Every answer here waits for the journal.

use crate::machine::{Paxos, Role, Withheld};
use crate::message::{Accept, Accepted, Canvass, Message, Prepare, Promise, Refusal, Refused, Support};
use atoll_types::{Ballot, Bug, Held, NodeId, Record, Slot, planted};

impl Paxos {
    /// In `ballot` all up to here is held: decided, or accepted in that very ballot.
    pub(crate) fn through(&self, ballot: Ballot) -> Slot {
        if self.run.0 == ballot { self.run.1.max(self.log.decided()) } else { self.log.decided() }
    }

    pub(crate) fn refuse(&mut self, to: NodeId, ballot: Ballot, refusal: Refusal) {
        self.send(to, Message::Refused(Refused { ballot, refusal }));
    }

    fn refuse_for_leader(&mut self, to: NodeId, ballot: Ballot) {
        let leader = match &self.role {
            Role::Leader(leader) => leader.ballot,
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => self.leader,
        };
        self.refuse(to, ballot, Refusal::LeaderAlive { ballot: leader, leader: leader.node });
    }

    pub(crate) fn on_canvass(&mut self, from: NodeId, canvass: Canvass) {
        self.highest = self.highest.max(canvass.ballot);
        if canvass.decided < self.log.decided() && !planted(Bug::PromiseWithoutDecidedMark) {
            self.feed(from, canvass.decided);
        }
        if canvass.ballot <= self.promised {
            return self.refuse(from, canvass.ballot, Refusal::Promised(self.promised));
        }
        if self.hears_a_leader(from) {
            return self.refuse_for_leader(from, canvass.ballot);
        }
        self.send(from, Message::Support(Support { ballot: canvass.ballot }));
    }

    pub(crate) fn on_prepare(&mut self, from: NodeId, prepare: Prepare) {
        self.highest = self.highest.max(prepare.ballot);
        if prepare.ballot < self.promised {
            return self.refuse(from, prepare.ballot, Refusal::Promised(self.promised));
        }
        // A duplicate of a prepare that was answered finds its promise in place and gets it again.
        if prepare.ballot > self.promised {
            if !prepare.ordered && self.hears_a_leader(from) {
                return self.refuse_for_leader(from, prepare.ballot);
            }
            self.become_follower();
            self.promise(prepare.ballot);
        } else if self.recorded < prepare.ballot {
            self.promise(prepare.ballot);
        }
        let promise = self.own_promise(prepare.ballot);
        self.withhold(Withheld::Promise { to: from, promise });
    }

    pub(crate) fn promise(&mut self, ballot: Ballot) {
        debug_assert!(ballot >= self.promised, "a promise is not taken back");
        (self.promised, self.recorded) = (ballot, ballot);
        self.highest = self.highest.max(ballot);
        self.persist(Record::Promised(ballot));
    }

    pub(crate) fn own_promise(&self, ballot: Ballot) -> Promise {
        let decided = self.log.decided();
        Promise { ballot, decided, first: decided.next(), held: self.log.tail(decided) }
    }

    pub(crate) fn on_accept(&mut self, from: NodeId, accept: Accept) {
        if accept.ballot < self.promised && !planted(Bug::AcceptBelowPromise) {
            return self.refuse(from, accept.ballot, Refusal::Promised(self.promised));
        }
        if accept.ballot.node == self.me {
            return; // An echo of this node's own ballot, from before a restart: nobody else proposes in it.
        }
        if accept.ballot > self.promised {
            // No record of its own: the entries accepted below carry the ballot, and a heartbeat promises nothing.
            self.promised = accept.ballot;
        }
        self.hear(accept.ballot, accept.beat, from);
        self.known = self.known.max(accept.decided);
        if planted(Bug::DecidedMarkForOldBallot) {
            self.decide_through(accept.decided.min(self.log.last()));
        }
        let through = self.through(accept.ballot);
        if accept.previous > through {
            return self.refuse(from, accept.ballot, Refusal::Gap { through });
        }
        let fresh = self.accept_after(through, &accept);
        let through = self.through(accept.ballot);
        self.decide_through(accept.decided.min(through));
        self.raise_floor(accept.floor);
        let accepted = Accepted { ballot: accept.ballot, beat: accept.beat, through };
        if planted(Bug::AckBeforePersist) {
            return self.send(from, Message::Accepted(accepted));
        }
        if !fresh && self.safe < self.journal {
            // A heartbeat is answered at once, with the vote that is safe already: a slow disk is not a dead node.
            let through = if self.acknowledged.0 == accept.ballot { self.acknowledged.1 } else { Slot::ZERO };
            return self.send(from, Message::Accepted(Accepted { through, ..accepted }));
        }
        self.withhold(Withheld::Accepted { to: from, accepted });
    }

    /// Takes the entries above `through`; those below are held already. True if there were any.
    fn accept_after(&mut self, through: Slot, accept: &Accept) -> bool {
        let held = through.above(accept.previous) as usize;
        let Some(fresh) = accept.entries.get(held..).filter(|fresh| !fresh.is_empty()) else { return false };
        let first = through.next();
        for (offset, entry) in fresh.iter().enumerate() {
            let slot = Slot(first.0 + offset as u64);
            self.log.put(slot, Held { ballot: accept.ballot, entry: entry.clone() });
            self.run = (accept.ballot, slot);
        }
        self.persist(Record::Accepted { ballot: accept.ballot, first, entries: fresh.to_vec() });
        true
    }
}
