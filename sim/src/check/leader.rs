//! Rule: one leader per ballot, one value per slot and ballot. A leader serves only after its own government is
//! decided. Nothing is proposed beyond a government until that one is in effect: decided, held by all of its own
//! majority if this leader proposed it first, and a majority of its voters promised to this leader.

use super::ledger::Ledger;
use super::logs::{Lineage, Logs};
use crate::Violation;
use crate::plan::host_name;
use atoll_types::{Ballot, Body, ClusterId, Entry, Government, NodeId, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

const RULE: &str = "leader";
/// Slots below a leader's decided mark that are looked at each time it is told.
const MARKED: u64 = 3;

/// An entry that a leader has put into its own log.
#[derive(Clone, Debug)]
struct Proposal {
    host: usize,
    ballot: Ballot,
    slot: Slot,
    entry: Arc<Entry>,
}

/// A value, with the lowest and the highest ballot it was seen in.
type Value = (Ballot, Ballot, Arc<Entry>);

#[derive(Debug, Default)]
pub(crate) struct Leaders {
    /// Who said that it leads in a ballot.
    leading: BTreeMap<(ClusterId, Ballot), usize>,
    /// The values that were voted for at a slot.
    values: BTreeMap<(ClusterId, Slot), Vec<Value>>,
    /// The last government that each leader proposed in its ballot.
    governments: BTreeMap<(ClusterId, Ballot), Slot>,
    /// Proposals of the step under way: what they need may be told later in the same step.
    proposed: Vec<(Proposal, bool, Option<Slot>)>,
    claims: Vec<(usize, Ballot, Slot)>,
}

impl Leaders {
    pub(crate) fn on_leading(
        &mut self,
        cluster: ClusterId,
        host: usize,
        node: NodeId,
        ballot: Ballot,
        slot: Slot,
    ) -> Result<(), Violation> {
        let name = host_name(host);
        if ballot.node != node {
            return Err(Violation::of(RULE, format!("{name} is {node} and leads in {ballot}")));
        }
        if let Some(other) = self.leading.insert((cluster, ballot), host) {
            return Err(Violation::of(RULE, format!("{name} leads in {ballot}, as {} did", host_name(other))));
        }
        self.claims.push((host, ballot, slot));
        Ok(())
    }

    /// A vote is ordered, by the leader itself or by another.
    pub(crate) fn on_vote(
        &mut self,
        writer: (ClusterId, NodeId),
        host: usize,
        ballot: Ballot,
        first: Slot,
        entries: &[Arc<Entry>],
    ) -> Result<(), Violation> {
        let (cluster, node) = writer;
        for (offset, entry) in entries.iter().enumerate() {
            let slot = Slot(first.0 + offset as u64);
            let fresh = self.see(cluster, host, ballot, slot, entry)?;
            if ballot.node != node {
                continue;
            }
            let before = self.governments.get(&(cluster, ballot)).copied().filter(|&government| government < slot);
            let proposal = Proposal { host, ballot, slot, entry: entry.clone() };
            self.proposed.push((proposal, fresh, before));
            if matches!(entry.body, Body::Government(_)) {
                self.governments.insert((cluster, ballot), slot);
            }
        }
        Ok(())
    }

    /// Gives whether nobody has voted for this value in a lower ballot.
    fn see(
        &mut self,
        cluster: ClusterId,
        host: usize,
        ballot: Ballot,
        slot: Slot,
        entry: &Arc<Entry>,
    ) -> Result<bool, Violation> {
        let values = self.values.entry((cluster, slot)).or_default();
        for (first, last, value) in values.iter_mut() {
            if Arc::ptr_eq(value, entry) || value == entry {
                let fresh = *first >= ballot;
                (*first, *last) = ((*first).min(ballot), (*last).max(ballot));
                return Ok(fresh);
            }
            if *first == ballot || *last == ballot {
                let name = host_name(host);
                let detail = format!("{name} votes in {ballot} at slot {slot} for {entry:?}, others for {value:?}");
                return Err(Violation::of(RULE, detail));
            }
        }
        values.push((ballot, ballot, entry.clone()));
        Ok(true)
    }

    /// What is decided everywhere that matters needs no watching any more.
    /// A leader tells how far it has decided: it vouches for what it proposed below.
    pub(crate) fn on_mark(&self, log: &Lineage, host: usize, ballot: Ballot, mark: Slot) -> Result<(), Violation> {
        for slot in (mark.0.saturating_sub(MARKED)..=mark.0).map(Slot) {
            let Some(decided) = log.entry(slot) else { continue };
            let values = self.values.get(&(log.cluster, slot)).map_or(&[][..], Vec::as_slice);
            let own = values.iter().find(|(low, high, _)| *low == ballot || *high == ballot);
            if let Some((_, _, proposed)) = own.filter(|(_, _, proposed)| proposed != decided) {
                let name = host_name(host);
                let detail = format!(
                    "{name} tells in ballot {ballot} that slot {slot} is decided, where it proposed {proposed:?} and \
                     the log has {decided:?}"
                );
                return Err(Violation::of(RULE, detail));
            }
        }
        Ok(())
    }

    pub(crate) fn forget_below(&mut self, cluster: ClusterId, slot: Slot) {
        if slot.0.is_multiple_of(64) {
            let low = Slot(slot.0.saturating_sub(2048));
            self.values.retain(|&(other, at), _| other != cluster || at >= low);
        }
    }

    pub(crate) fn after_step(
        &mut self,
        logs: &Logs,
        ledger: &Ledger,
        cluster: ClusterId,
        lineage: Option<usize>,
    ) -> Result<(), Violation> {
        if self.proposed.is_empty() && self.claims.is_empty() {
            return Ok(());
        }
        let claims = std::mem::take(&mut self.claims);
        let proposed = std::mem::take(&mut self.proposed);
        let Some(lineage) = lineage else { return Ok(()) };
        for (host, ballot, slot) in claims {
            let led = logs.get(lineage).government_at(slot).map(Government::leader);
            if led != Some(ballot.node) {
                let name = host_name(host);
                let detail = format!("{name} leads in {ballot} from slot {slot} on, where the leader is {led:?}");
                return Err(Violation::of(RULE, detail));
            }
        }
        for (proposal, fresh, government) in proposed {
            let serves = matches!(proposal.entry.body, Body::Submission(_));
            if fresh && serves && !self.leading.contains_key(&(cluster, proposal.ballot)) {
                return Err(Violation::of(RULE, format!("served before its own government is decided: {proposal:?}")));
            }
            if let Some(government) = government {
                self.in_effect(logs, ledger, lineage, &proposal, government)?;
            }
        }
        Ok(())
    }

    fn in_effect(
        &self,
        logs: &Logs,
        ledger: &Ledger,
        lineage: usize,
        proposal: &Proposal,
        at: Slot,
    ) -> Result<(), Violation> {
        let log = logs.get(lineage);
        let own = log.generation == proposal.ballot.generation;
        if !own || log.is_recovering_at(proposal.slot) {
            return Ok(()); // An operator's recovery asks nobody.
        }
        let broken = |what: &str| {
            let (name, slot, ballot) = (host_name(proposal.host), proposal.slot, proposal.ballot);
            Violation::of(RULE, format!("{name} proposes slot {slot} in {ballot}; the government of slot {at} {what}"))
        };
        let Some(government) = log.government_at(at) else { return Err(broken("is not decided")) };
        let votes = |node: NodeId| ledger.of(log.cluster, node);
        let first = self.values.get(&(log.cluster, at)).and_then(|values| {
            values.iter().find(|(_, _, value)| matches!(&value.body, Body::Government(g) if g == government))
        });
        if first.is_some_and(|(first, _, _)| *first == proposal.ballot) {
            let lacking = government
                .majority
                .iter()
                .find(|node| !votes(**node).is_some_and(|votes| votes.holds(at, Ballot::default())));
            if let Some(lacking) = lacking {
                return Err(broken(&format!("is not held by {lacking} of its majority")));
            }
        }
        let promised = |node: NodeId| votes(node).is_some_and(|votes| votes.promised >= proposal.ballot);
        if !government.is_majority(promised) {
            return Err(broken("has no majority of voters that promised this ballot"));
        }
        Ok(())
    }
}
