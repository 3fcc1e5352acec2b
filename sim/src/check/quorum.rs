//! Rule: a slot is decided only when more than half of the voters in force there have safely voted for it in that
//! ballot or a later one; no vote is cast below a promise; no promise is taken back.
//!
//! The voters in force at a slot are those of the last government below it. A vote that a node without a disk cast
//! before it vanished was cast: nobody comes back in its place who could cast another.

use super::ledger::Ledger;
use super::logs::Lineage;
use crate::Violation;
use crate::plan::host_name;
use atoll_node::{Envelope, View};
use atoll_types::{Ballot, ClusterId, NodeId, Record, Slot};

const RULE: &str = "quorum";

#[derive(Debug)]
pub(crate) struct Quorum {
    /// The highest ballot each host has ordered a promise or a vote in, and as which node.
    promised: Vec<(Option<(ClusterId, NodeId)>, Ballot)>,
    /// The ballot each host led in when it was last looked at: it may lose its place in the step that decides.
    led: Vec<Option<Ballot>>,
}

impl Quorum {
    pub(crate) fn new(hosts: usize) -> Quorum {
        Quorum { promised: vec![(None, Ballot::default()); hosts], led: vec![None; hosts] }
    }

    pub(crate) fn on_start(&mut self, ledger: &Ledger, host: usize) {
        let writer = ledger.writer(host);
        let promised = writer.and_then(|(cluster, node)| ledger.of(cluster, node)).map(|votes| votes.promised);
        self.promised[host] = (writer, promised.unwrap_or_default());
        self.led[host] = None;
    }

    /// A record is ordered: it may not yet be safe, but it shows what the node is about to do.
    pub(crate) fn on_ordered(&mut self, host: usize, record: &Record) -> Result<(), Violation> {
        let (writer, promised) = &mut self.promised[host];
        match record {
            Record::Identity(identity) => {
                let named = Some((identity.cluster, identity.node));
                if *writer != named {
                    (*writer, *promised) = (named, Ballot::default());
                }
            }
            Record::Promised(ballot) | Record::Accepted { ballot, .. } => {
                if *ballot < *promised {
                    let detail = format!("{} promised {promised} and now orders {record:?}", host_name(host));
                    return Err(Violation::of(RULE, detail));
                }
                *promised = *ballot;
            }
            Record::Blank { .. } => (*writer, *promised) = (None, Ballot::default()),
            Record::Learned { .. }
            | Record::Decided(_)
            | Record::Checkpoint(_)
            | Record::Fenced(_)
            | Record::Unreadable
            | Record::Bucket(_) => {}
        }
        Ok(())
    }

    /// A candidate asks for promises: its own must be safe, or another life could ask with the same ballot.
    pub(crate) fn on_prepare(
        ledger: &Ledger,
        host: usize,
        envelope: &Envelope,
        ballot: Ballot,
    ) -> Result<(), Violation> {
        let safe = ledger.of(envelope.cluster, envelope.from).map_or(Ballot::default(), |votes| votes.promised);
        if safe < ballot {
            let name = host_name(host);
            let detail = format!("{name} asks for promises in {ballot}, and only its promise of {safe} is safe");
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }

    pub(crate) fn after_step(&mut self, host: usize, view: &View<'_>) {
        self.led[host] = own_ballot(view);
    }

    /// The first node to say so decided `slot`.
    pub(crate) fn on_decided(
        &self,
        ledger: &Ledger,
        log: &Lineage,
        host: usize,
        view: &View<'_>,
        slot: Slot,
    ) -> Result<(), Violation> {
        let name = host_name(host);
        let Some(ballot) = own_ballot(view).or(self.led[host]) else {
            let detail = format!("{name} knows slot {slot} decided before any leader has decided it");
            return Err(Violation::of(RULE, detail));
        };
        let holds = |node: NodeId| ledger.of(log.cluster, node).is_some_and(|votes| votes.holds(slot, ballot));
        if log.is_recovering_at(slot) || slot == Slot(1) {
            if !holds(ballot.node) {
                return Err(Violation::of(RULE, format!("{name} decided slot {slot} alone, and does not hold it")));
            }
            return Ok(());
        }
        let Some((at, government)) = log.in_force(slot) else {
            return Err(Violation::of(RULE, format!("{name} decided slot {slot} under no government")));
        };
        if !government.is_majority(holds) {
            let holders: Vec<NodeId> = government.voters().filter(|&voter| holds(voter)).collect();
            let voters: Vec<NodeId> = government.voters().collect();
            let detail = format!(
                "{name} decided slot {slot} in ballot {ballot}; it is held by {holders:?} of the voters {voters:?} \
                 (government of slot {at})"
            );
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }
}

/// The ballot that this node leads in, or is establishing itself in.
pub(crate) fn own_ballot(view: &View<'_>) -> Option<Ballot> {
    let me = view.identity?.node;
    view.leading.or_else(|| (view.promised.node == me).then_some(view.promised))
}
