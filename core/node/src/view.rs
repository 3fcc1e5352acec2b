//! What can be seen of a node from outside, for people, metrics and checkers. Reading it changes nothing.

use atoll_cluster::State;
use atoll_cluster::arrival::Waiting;
use atoll_distributor::Distributor;
use atoll_types::{Ballot, Gauge, Generation, Government, Identity, NodeId, Slot};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// None while blank.
    pub identity: Option<&'a Identity>,
    pub generation: Generation,
    pub promised: Ballot,
    /// Entries up to here were dropped from the log.
    pub trimmed: Slot,
    /// All up to here is known decided, and applied to `state`.
    pub decided: Slot,
    /// The last entry held, decided or not.
    pub last: Slot,
    /// Set while this node leads and its own government is decided.
    pub leading: Option<Ballot>,
    /// Whom this node takes for the leader.
    pub leader: Option<NodeId>,
    pub government: Option<(Slot, &'a Government)>,
    /// None while blank or waiting for a snapshot.
    pub state: Option<&'a State>,
    /// Who serves which bucket; None like `state`.
    pub distributor: Option<&'a Distributor>,
    /// While blank: what keeps it so.
    pub waiting: Option<&'a Waiting>,
    pub counters: &'a Counters,
}

/// What happened so far, and how full the queues are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub refused_other_cluster: u64,
    pub refused_old_generation: u64,
    pub refused_old_incarnation: u64,
    pub refused_not_me: u64,
    pub told_departed: u64,
    /// Messages that came before this node's own records were safe: as good as lost.
    pub dropped_not_ready: u64,
    pub elections: u64,
    pub snapshots_installed: u64,
    pub snapshots_refused: u64,
    /// Submissions waiting at this node while it leads.
    pub submissions: Gauge,
    /// Own submissions waiting for their decision.
    pub outstanding: Gauge,
    pub arrivals: Gauge,
    /// Slots proposed and not decided.
    pub pipeline: Gauge,
    /// Decided entries kept.
    pub log: Gauge,
}
