//! Standing for leader: canvass, prepare, fetch what is decided, restore what was accepted, inaugurate.
//!
//! A candidate needs promises of a majority of the voters of the latest government it knows decided. Where the promises
//! show a newer government it first has that one decided by the voters before it, and then needs promises of a majority
//! of *its* voters too, before it proposes anything beyond: they may have decided there what the old ones never saw.

use crate::leader::{Leader, Stage};
use crate::machine::{Forerunner, Paxos, Role, Withheld};
use crate::message::{Canvass, Message, Prepare, Promise, Refusal, Refused, Stand, Support};
use atoll_types::{Ballot, Body, Bug, Cause, Entry, Government, Held, NodeId, Slot, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Promises for one ballot.
#[derive(Debug)]
pub(crate) struct Campaign {
    pub(crate) ballot: Ballot,
    pub(crate) ordered: bool,
    pub(crate) promises: BTreeMap<NodeId, Promise>,
    /// The government whose voters were asked last.
    pub(crate) asked_under: Slot,
    /// The government when the campaign began. Only a planted bug looks at it again.
    pub(crate) began_under: Arc<Government>,
}

impl Paxos {
    /// May this node stand? Also if the government that seats it is held, and not yet known decided.
    fn is_voter(&self) -> bool {
        self.government.is_voter(self.me)
            || self
                .log
                .tail(self.log.decided())
                .iter()
                .any(|held| matches!(&held.entry.body, Body::Government(government) if government.is_voter(self.me)))
    }

    fn next_ballot(&self) -> Ballot {
        let round = self.highest.max(self.promised).round + 1;
        Ballot { generation: self.generation, round, node: self.me }
    }

    pub(crate) fn on_election_due(&mut self) {
        self.postpone_election();
        match &self.role {
            Role::Leader(leader) if leader.is_serving() => return,
            Role::Leader(_) | Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => {}
        }
        if !self.is_voter() {
            return;
        }
        self.become_follower();
        let ballot = self.next_ballot();
        if self.government.is_majority(|voter| voter == self.me) {
            return self.stand(false);
        }
        self.role = Role::Canvassing { ballot, support: BTreeSet::from([self.me]) };
        if !self.leader.node.is_nobody() && self.leader.node != self.me {
            let silent = Forerunner { node: self.leader.node, heard: self.heard, asked: self.now };
            self.forerunner.get_or_insert(silent);
        }
        let canvass = Canvass { ballot, decided: self.log.decided() };
        for voter in self.other_voters() {
            self.send(voter, Message::Canvass(canvass.clone()));
        }
    }

    fn other_voters(&self) -> Vec<NodeId> {
        self.government.voters().filter(|&voter| voter != self.me).collect()
    }

    pub(crate) fn on_support(&mut self, from: NodeId, support: Support) {
        let Role::Canvassing { ballot, support: supporters } = &mut self.role else { return };
        if support.ballot != *ballot {
            return;
        }
        supporters.insert(from);
        if self.government.is_majority(|voter| supporters.contains(&voter)) {
            self.stand(false);
        }
    }

    /// The leader steps down and wants this node to follow it.
    pub(crate) fn on_stand(&mut self, stand: Stand) {
        let idle = matches!(self.role, Role::Follower | Role::Canvassing { .. });
        if stand.ballot == self.leader && idle && self.is_voter() {
            self.stand(true);
        }
    }

    /// Stands with a ballot above all it has heard of.
    pub(crate) fn stand(&mut self, ordered: bool) {
        if !matches!(self.role, Role::Follower) {
            self.become_follower();
        }
        self.elections += 1;
        self.attempts += 1;
        let ballot = self.next_ballot();
        self.postpone_election();
        self.role = Role::Preparing(Campaign {
            ballot,
            ordered,
            promises: BTreeMap::new(),
            asked_under: self.government_slot,
            began_under: self.government.clone(),
        });
        self.promise(ballot);
        let promise = self.own_promise(ballot);
        // Nobody hears of the ballot before its record is safe: another life could stand with it again.
        if planted(Bug::BallotBeforeItsRecord) {
            self.prepare_voters();
        }
        self.withhold(Withheld::OwnPromise { promise });
    }

    pub(crate) fn campaign(&self) -> Option<&Campaign> {
        match &self.role {
            Role::Preparing(campaign) => Some(campaign),
            Role::Leader(leader) if matches!(leader.stage, Stage::Restoring { .. }) => Some(&leader.campaign),
            Role::Leader(_) | Role::Follower | Role::Canvassing { .. } => None,
        }
    }

    /// Asks every voter that has not promised yet.
    fn prepare_voters(&mut self) {
        let Some(campaign) = self.campaign() else { return };
        if !campaign.promises.contains_key(&self.me) && !planted(Bug::BallotBeforeItsRecord) {
            return;
        }
        let prepare = Prepare { ballot: campaign.ballot, decided: self.log.decided(), ordered: campaign.ordered };
        let missing: Vec<NodeId> =
            self.other_voters().into_iter().filter(|voter| !campaign.promises.contains_key(voter)).collect();
        for voter in missing {
            self.send(voter, Message::Prepare(prepare.clone()));
        }
        let asked_under = self.government_slot;
        match &mut self.role {
            Role::Preparing(campaign) => campaign.asked_under = asked_under,
            Role::Leader(leader) => leader.campaign.asked_under = asked_under,
            Role::Follower | Role::Canvassing { .. } => {}
        }
    }

    pub(crate) fn on_campaign_tick(&mut self) {
        self.prepare_voters();
        self.advance();
    }

    pub(crate) fn on_promise(&mut self, from: NodeId, promise: Promise) {
        let campaign = match &mut self.role {
            Role::Preparing(campaign) => campaign,
            // To a leader that restores it may be of a voter it still needs; to one in office it comes late.
            Role::Leader(leader) if matches!(leader.stage, Stage::Restoring { .. }) => {
                if promise.ballot == leader.ballot && from != self.me {
                    leader.propose_to(self.now, from, promise.decided);
                }
                &mut leader.campaign
            }
            Role::Leader(_) | Role::Follower | Role::Canvassing { .. } => return,
        };
        if promise.ballot == campaign.ballot {
            campaign.promises.entry(from).or_insert(promise);
            if from == self.me {
                self.prepare_voters();
            }
            self.advance();
        }
    }

    /// Goes as far with the campaign as the promises allow.
    pub(crate) fn advance(&mut self) {
        if let Role::Leader(leader) = &self.role {
            match leader.stage {
                Stage::Restoring { through } if through <= self.log.decided() => {}
                Stage::Restoring { .. } | Stage::Inaugurating { .. } | Stage::Serving => return,
            }
        }
        let Some(campaign) = self.campaign() else { return };
        // What one of them knows decided is fetched, never guessed: where it has trimmed, a gap is not a free slot.
        let best = campaign.promises.iter().max_by_key(|(_, promise)| promise.decided);
        let best = best.map(|(&node, promise)| (node, promise.decided));
        if let Some((node, decided)) = best
            && decided > self.log.decided()
            && !planted(Bug::PromiseWithoutDecidedMark)
        {
            return self.ask_for_missing(node);
        }
        let voters = if planted(Bug::ElectionUnderOldVoters) { &campaign.began_under } else { &self.government };
        if !voters.is_majority(|voter| campaign.promises.contains_key(&voter)) {
            // There is another government than when the voters were asked: its voters are asked at once.
            if campaign.asked_under != self.government_slot {
                self.prepare_voters();
            }
            return;
        }
        if !self.government.is_voter(self.me) {
            return self.become_follower();
        }
        self.restore();
    }

    /// Proposes again, in the own ballot, whatever may have been decided.
    fn restore(&mut self) {
        let adopted = self.adopt();
        self.take_office();
        let Role::Leader(leader) = &mut self.role else { return };
        let ballot = leader.ballot;
        self.run = (ballot, self.log.decided());
        let ends_with_government = adopted.last().is_some_and(|entry| matches!(entry.body, Body::Government(_)));
        let through = Slot(self.log.decided().0 + adopted.len() as u64);
        if ends_with_government {
            leader.stage = Stage::Restoring { through };
        }
        self.propose_entries(adopted);
        if !ends_with_government {
            self.inaugurate();
        }
    }

    /// The highest-ballot value of each slot above the decided ones, up to and with the first government among them.
    fn adopt(&self) -> Vec<Arc<Entry>> {
        let mut adopted = Vec::new();
        let Some(campaign) = self.campaign() else { return adopted };
        if planted(Bug::ElectionIgnoresAccepted) {
            return adopted;
        }
        let valid = |held: &Held| held.ballot >= self.government.ballot || planted(Bug::VoidVotesAdopted);
        let held = |slot: Slot| -> Option<&Held> {
            let promises = campaign.promises.values();
            let votes = promises
                .filter_map(|promise| promise.held.get(usize::try_from(slot.0.checked_sub(promise.first.0)?).ok()?));
            // Votes from before the present government are void: its leader has seen all that could have been decided.
            votes.filter(|held| valid(held)).max_by_key(|held| held.ballot)
        };
        let ends = campaign.promises.values().map(|promise| {
            let last = promise.held.iter().rposition(valid);
            promise.decided.0 + last.map_or(0, |last| last as u64 + 1)
        });
        let last = ends.max();
        for slot in self.log.decided().0 + 1..=last.unwrap_or(0) {
            let entry = match held(Slot(slot)) {
                Some(held) => held.entry.clone(),
                None => Arc::new(Entry { time: self.log.time(), leader: self.me, body: Body::Noop }),
            };
            let government = matches!(entry.body, Body::Government(_));
            adopted.push(entry);
            if government {
                break;
            }
        }
        adopted
    }

    /// From candidate to leader; a leader that restores stays what it is.
    fn take_office(&mut self) {
        let Role::Preparing(campaign) = &mut self.role else { return };
        let promises = std::mem::take(&mut campaign.promises);
        let campaign = Campaign {
            ballot: campaign.ballot,
            ordered: campaign.ordered,
            promises,
            asked_under: campaign.asked_under,
            began_under: campaign.began_under.clone(),
        };
        self.leader = campaign.ballot;
        self.beat = 0;
        self.role = Role::Leader(Box::new(Leader::new(self.now, self.me, campaign)));
        self.lay_tree();
    }

    /// Proposes this leader's own government: the same voters, those that promised first.
    fn inaugurate(&mut self) {
        let Role::Leader(leader) = &self.role else { return };
        let promised = |voter: &NodeId| leader.campaign.promises.contains_key(voter);
        let mut voters = vec![self.me];
        voters.extend(self.government.voters().filter(|voter| *voter != self.me && promised(voter)));
        voters.extend(self.government.voters().filter(|voter| !promised(voter) && *voter != self.me));
        let government = Government::of(&voters, self.government.nodes(), Cause::Elected);
        self.inaugurate_with(government);
    }

    pub(crate) fn on_refused(&mut self, from: NodeId, refused: Refused) {
        let mine = match &self.role {
            Role::Follower => None,
            Role::Canvassing { ballot, .. } => Some(*ballot),
            Role::Preparing(campaign) => Some(campaign.ballot),
            Role::Leader(leader) => Some(leader.ballot),
        };
        if let Refusal::Promised(ballot) = refused.refusal {
            self.highest = self.highest.max(ballot);
        }
        if mine != Some(refused.ballot) {
            return;
        }
        match refused.refusal {
            Refusal::Promised(_) => self.become_follower(),
            Refusal::LeaderAlive { leader, .. } => {
                if matches!(self.role, Role::Leader(_)) {
                    return; // One voter follows another leader for now; the others decide.
                }
                self.become_follower();
                if leader != self.me {
                    let position = self.log.decided();
                    self.send(leader, Message::Missing(crate::message::Missing { position }));
                }
            }
            Refusal::Gap { through } => self.on_gap(from, through),
        }
    }
}
