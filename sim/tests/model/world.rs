//! The world: the nodes, each of which has applied the cluster log up to some entry, and all that was ever said.
//!
//! A message may be delivered any number of times, at any later time, in any order, or never. So nothing is kept of the
//! network but what was sent: per epoch, the primary's log as far as it got, and how far each node acknowledged it.
//!
//! Two kinds of steps are taken as soon as they can be, since waiting with them leads nowhere else: committing, which
//! hinders nothing; and applying an entry before which the node has nothing left to do.
//!
//! The model leaves out what only makes nodes refuse more: that an epoch is remembered before its edict is applied.
//!
//! Not here: what the edicts say (`law.rs`); how worlds are compared and told about (`search.rs`).

use super::law::{Edict, Epoch, NODES, Node, Rules, Set, View};

/// A log: the epochs in which its entries were written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Log {
    entries: [Epoch; LOG_MOST],
    pub(crate) length: usize,
}

const LOG_MOST: usize = 3;

impl Log {
    pub(crate) fn entries(&self) -> &[Epoch] {
        &self.entries[..self.length]
    }

    fn push(&mut self, epoch: Epoch) {
        self.entries[self.length] = epoch;
        self.length += 1;
    }

    fn cut(&mut self, length: usize) {
        self.entries[length..].fill(0);
        self.length = length;
    }
}

#[derive(Clone)]
pub(crate) struct World {
    /// The cluster log, from the oldest entry at which any node still is.
    pub(crate) views: Vec<View>,
    pub(crate) present: Set,
    pub(crate) nodes: [Replica; NODES],
    /// From the oldest epoch at which any node still is: of those before, no message counts, and nobody is left to
    /// commit anything. Ascending.
    pub(crate) sent: Vec<Sent>,
    pub(crate) committed: Vec<Committed>,
    pub(crate) writes_left: u8,
}

/// One node's copy of the bucket.
#[derive(Clone, Copy)]
pub(crate) struct Replica {
    /// The last entry it applied: an index in `views`.
    pub(crate) at: usize,
    pub(crate) log: Log,
}

/// What was said in one epoch. It begins when its primary applies it, with the whole log of that moment.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) view: View,
    /// How much of the log was there at the beginning.
    pub(crate) base: usize,
    pub(crate) log: Log,
    /// How far each node acknowledged; none before its handshake.
    pub(crate) acknowledged: [Option<usize>; NODES],
    /// Every member did, so the primary may serve.
    pub(crate) opened: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Committed {
    pub(crate) value: Epoch,
    /// The lowest epoch that committed it.
    pub(crate) by: Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Append(Edict),
    /// The report of the present epoch's primary is recorded.
    Settle,
    Apply(Node),
    /// The handshake: takes over the primary's log, cuts what it lacks, acknowledges.
    Join(Node),
    /// The primary writes the next entry.
    Write(Node),
    /// Receives the next entry and acknowledges.
    Receive(Node),
    /// Wrong: the handshake once more.
    JoinAgain(Node),
    /// Wrong: an answer in the epoch before, by offset alone.
    AnswerLate(Node),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Two values were committed at this offset.
    TwoValues { offset: usize },
    /// A later primary opened its epoch without what was committed at this offset.
    Missing { offset: usize, epoch: Epoch },
    /// Fewer nodes are eligible than there must be copies: what is acknowledged could be lost with them.
    FewEligible,
    /// Two logs have the same mark and differ below it.
    Unlike { offset: usize },
    /// A member could answer a read that begins now, and lacks what is committed.
    ReadsTooLittle { node: Node, epoch: Epoch },
}

impl World {
    /// The first so many nodes are members, settled; A is primary; everybody knows.
    pub(crate) fn healthy(members: usize, writes: u8) -> World {
        let set = Set::first(members);
        World::begin(set, set, true, writes)
    }

    /// Of two members, A and B, B was removed and is there again; everybody knows. A cannot commit anything alone, so B
    /// is still eligible.
    pub(crate) fn degraded(writes: u8) -> World {
        World::begin(Set::first(1), Set::first(2), false, writes)
    }

    fn begin(members: Set, eligible: Set, settled: bool, writes: u8) -> World {
        let view = View { epoch: 1, primary: Some(0), members, catching_up: Set::NONE, eligible, settled };
        let acknowledged = std::array::from_fn(|node| members.has(node as Node).then_some(0));
        World {
            views: vec![view],
            present: Set::first(NODES),
            nodes: [Replica { at: 0, log: Log::default() }; NODES],
            sent: vec![Sent { view, base: 0, log: Log::default(), acknowledged, opened: true }],
            committed: Vec::new(),
            writes_left: writes,
        }
    }

    pub(crate) fn present_view(&self) -> &View {
        &self.views[self.views.len() - 1]
    }

    /// What the node believes.
    pub(crate) fn view_of(&self, node: Node) -> &View {
        &self.views[self.nodes[node as usize].at]
    }

    fn sent_in(&self, epoch: Epoch) -> Option<usize> {
        self.sent.iter().position(|sent| sent.view.epoch == epoch)
    }

    pub(crate) fn actions(&self, rules: Rules) -> Vec<Action> {
        let mut actions = Vec::new();
        let view = self.present_view();
        actions.extend(view.edicts(self.present, rules).into_iter().map(Action::Append));
        if !view.settled && self.sent_in(view.epoch).is_some_and(|index| self.sent[index].opened) {
            actions.push(Action::Settle);
        }
        for node in 0..NODES as Node {
            let replica = &self.nodes[node as usize];
            if replica.at + 1 < self.views.len() {
                actions.push(Action::Apply(node));
            }
            let view = self.view_of(node);
            if let Some(index) = self.sent_in(view.epoch)
                && self.listens(node, rules)
            {
                let sent = &self.sent[index];
                if view.primary == Some(node) {
                    if sent.opened && self.writes_left > 0 {
                        actions.push(Action::Write(node));
                    }
                } else {
                    match sent.acknowledged[node as usize] {
                        None => actions.push(Action::Join(node)),
                        Some(held) if held < sent.log.length => actions.push(Action::Receive(node)),
                        Some(_) => {}
                    }
                    if !rules.truncate_once && replica.log.length > sent.base {
                        actions.push(Action::JoinAgain(node));
                    }
                }
            }
            if !rules.fence && self.late_answer(node).is_some() {
                actions.push(Action::AnswerLate(node));
            }
        }
        actions
    }

    /// Does it matter what this node receives? What one holds that catches up and is not eligible counts for nothing,
    /// and the handshake of the union that makes it a member replaces it.
    fn listens(&self, node: Node, rules: Rules) -> bool {
        let view = self.view_of(node);
        view.members.has(node) || view.catching_up.has(node) && (view.eligible.has(node) || !rules.members_only)
    }

    /// An older epoch in which the node could still acknowledge something, while its own has committed nothing.
    fn late_answer(&self, node: Node) -> Option<(usize, usize)> {
        let epoch = self.view_of(node).epoch;
        let index = self.sent.iter().position(|sent| {
            let held = sent.acknowledged[node as usize];
            sent.view.epoch < epoch && held.is_some_and(|held| held < sent.log.length)
        })?;
        let held = self.nodes[node as usize].log.length.min(self.sent[index].log.length);
        let committed = self.committed.iter().any(|committed| committed.by >= epoch);
        (!committed && self.sent[index].acknowledged[node as usize] < Some(held)).then_some((index, held))
    }

    /// Takes one step and what follows from it at once.
    pub(crate) fn step(&mut self, action: Action, rules: Rules) -> Option<Violation> {
        match action {
            Action::Append(edict) => self.append(edict, rules),
            Action::Settle => self.views.push(self.present_view().once_settled(rules)),
            Action::Apply(node) => self.apply(node),
            Action::Join(node) | Action::JoinAgain(node) => self.join(node),
            Action::Write(node) => self.write(node),
            Action::Receive(node) => self.receive(node),
            Action::AnswerLate(node) => {
                if let Some((index, held)) = self.late_answer(node) {
                    self.sent[index].acknowledged[node as usize] = Some(held);
                }
            }
        }
        for node in 0..NODES as Node {
            while self.moves_on(node, rules) {
                self.apply(node);
            }
        }
        let violation = self.commit(rules).or_else(|| self.check(rules));
        self.forget();
        violation
    }

    fn append(&mut self, edict: Edict, rules: Rules) {
        match edict {
            Edict::Remove(node, _) => self.present = self.present.less(node),
            Edict::Return(node) => self.present = self.present.with(node),
            Edict::Expand(_) | Edict::Unite | Edict::Abdicate(_) | Edict::Contract(_) | Edict::Depose(_) => {}
        }
        let next = self.present_view().after(edict, self.present, rules);
        if next != *self.present_view() {
            self.views.push(next);
        }
    }

    /// Is there a next entry, and nothing that the node could do before it?
    fn moves_on(&self, node: Node, rules: Rules) -> bool {
        let Some(next) = self.views.get(self.nodes[node as usize].at + 1) else { return false };
        let view = self.view_of(node);
        if view.primary == Some(node) {
            return next.epoch == view.epoch && next.settled == view.settled;
        }
        let over = view.primary.is_none_or(|primary| self.view_of(primary).epoch > view.epoch);
        let heard_all = self.sent_in(view.epoch).is_none_or(|index| {
            let sent = &self.sent[index];
            rules.truncate_once && sent.acknowledged[node as usize] == Some(sent.log.length)
        });
        // Of the entries within an epoch, `settled` means something to the primary only.
        next.epoch == view.epoch || !self.listens(node, rules) || over && heard_all
    }

    /// The node applies the next entry; if that makes it primary, it begins to open its epoch.
    fn apply(&mut self, node: Node) {
        let epoch = self.view_of(node).epoch;
        self.nodes[node as usize].at += 1;
        let view = *self.view_of(node);
        if view.epoch != epoch && view.primary == Some(node) {
            let log = self.nodes[node as usize].log;
            let mut acknowledged = [None; NODES];
            acknowledged[node as usize] = Some(log.length);
            let alone = view.members.len() == 1;
            self.sent.push(Sent { view, base: log.length, log, acknowledged, opened: alone });
            self.sent.sort_by_key(|sent| sent.view.epoch);
        }
    }

    fn join(&mut self, node: Node) {
        let Some(index) = self.sent_in(self.view_of(node).epoch) else { return };
        let leads = self.still_leads(index);
        let sent = &mut self.sent[index];
        let mut log = sent.log;
        log.cut(sent.base);
        sent.acknowledged[node as usize] = sent.acknowledged[node as usize].max(Some(log.length));
        let joined = sent.view.members.iter().all(|member| sent.acknowledged[member as usize].is_some());
        // Nobody opens an epoch that it has left.
        sent.opened |= joined && leads;
        self.nodes[node as usize].log = log;
    }

    fn write(&mut self, node: Node) {
        let epoch = self.view_of(node).epoch;
        let Some(index) = self.sent_in(epoch) else { return };
        let (sent, replica) = (&mut self.sent[index], &mut self.nodes[node as usize]);
        replica.log.push(epoch);
        sent.log = replica.log;
        sent.acknowledged[node as usize] = Some(replica.log.length);
        self.writes_left -= 1;
    }

    fn receive(&mut self, node: Node) {
        let Some(index) = self.sent_in(self.view_of(node).epoch) else { return };
        let (sent, replica) = (&mut self.sent[index], &mut self.nodes[node as usize]);
        // After a wrong second truncation it lacks what it acknowledged; it is not asked about that again.
        if let Some(&entry) = sent.log.entries().get(replica.log.length) {
            replica.log.push(entry);
        }
        sent.acknowledged[node as usize] = sent.acknowledged[node as usize].map(|held| held + 1);
    }

    fn still_leads(&self, index: usize) -> bool {
        let view = &self.sent[index].view;
        view.primary.is_some_and(|primary| self.view_of(primary).epoch == view.epoch)
    }

    /// Rule 3, as the primary of each epoch sees it, if it has not left.
    fn commit(&mut self, rules: Rules) -> Option<Violation> {
        let mut violation = None;
        for index in 0..self.sent.len() {
            let sent = &self.sent[index];
            let Some(primary) = sent.view.primary.filter(|_| self.still_leads(index) && sent.opened) else { continue };
            if !self.view_of(primary).may_commit(rules) {
                continue;
            }
            let members = sent.view.members;
            let held: Vec<usize> = if rules.members_only {
                members.iter().map(|member| sent.acknowledged[member as usize].unwrap_or(0)).collect()
            } else {
                // Wrong: any so many count.
                let mut held: Vec<usize> = sent.acknowledged.iter().map(|held| held.unwrap_or(0)).collect();
                held.sort_by(|a, b| b.cmp(a));
                held.truncate(members.len() as usize);
                held
            };
            let upto = held.into_iter().min().unwrap_or(0);
            for offset in 0..upto {
                let (value, by) = (self.sent[index].log.entries()[offset], self.sent[index].view.epoch);
                match self.committed.get_mut(offset) {
                    Some(committed) if committed.value != value => {
                        violation = Some(Violation::TwoValues { offset: offset + 1 });
                    }
                    Some(committed) => committed.by = committed.by.min(by),
                    None => self.committed.push(Committed { value, by }),
                }
            }
        }
        violation
    }

    fn check(&self, rules: Rules) -> Option<Violation> {
        for sent in self.sent.iter().filter(|sent| sent.opened) {
            for (offset, committed) in self.committed.iter().enumerate() {
                if committed.by < sent.view.epoch && sent.log.entries().get(offset) != Some(&committed.value) {
                    return Some(Violation::Missing { offset: offset + 1, epoch: sent.view.epoch });
                }
            }
        }
        for (index, one) in self.nodes.iter().enumerate() {
            for other in &self.nodes[..index] {
                let common = one.log.length.min(other.log.length);
                let same = (0..common).rev().find(|&offset| one.log.entries[offset] == other.log.entries[offset]);
                if same.is_some_and(|offset| one.log.entries[..offset] != other.log.entries[..offset]) {
                    return Some(Violation::Unlike { offset: common });
                }
            }
        }
        if let Some((node, epoch)) = self.reads_too_little(rules) {
            return Some(Violation::ReadsTooLittle { node, epoch });
        }
        // Last, so that it hides nothing worse.
        (self.present_view().eligible.len() < rules.min_copies).then_some(Violation::FewEligible)
    }

    /// A member, its primary or another, that answers a read which begins now, and lacks something that is committed.
    /// Whatever others say later, they have seen no later epoch now if they have not then.
    fn reads_too_little(&self, rules: Rules) -> Option<(Node, Epoch)> {
        let lacks = |log: &Log| {
            let held = log.entries();
            self.committed.iter().enumerate().any(|(offset, committed)| held.get(offset) != Some(&committed.value))
        };
        for sent in self.sent.iter().filter(|sent| sent.opened) {
            let epoch = sent.view.epoch;
            for node in sent.view.members.iter() {
                let view = self.view_of(node);
                let asked = if rules.all_vouch { view.members } else { view.primary.map_or(Set::NONE, Set::only) };
                let vouched = asked.iter().all(|other| self.view_of(other).epoch <= epoch);
                let may_answer = view.epoch == epoch && vouched && (view.may_commit(rules) || !rules.reads_at_gate);
                if may_answer && lacks(&self.nodes[node as usize].log) {
                    return Some((node, epoch));
                }
            }
        }
        None
    }

    /// Drops what can make no difference any more.
    fn forget(&mut self) {
        let epochs: [Epoch; NODES] = std::array::from_fn(|node| self.view_of(node as Node).epoch);
        let oldest = epochs.into_iter().min().unwrap_or(0);
        self.sent.retain(|sent| sent.view.epoch >= oldest);
        for index in 0..self.sent.len() {
            if !self.still_leads(index) {
                let sent = &mut self.sent[index];
                // Nobody counts these acknowledgements: all they tell is who had its handshake.
                for (held, epoch) in sent.acknowledged.iter_mut().zip(epochs) {
                    *held = held.filter(|_| epoch == sent.view.epoch);
                }
            }
        }
        let oldest = self.nodes.iter().map(|replica| replica.at).min().unwrap_or(0);
        self.views.drain(..oldest);
        self.nodes.iter_mut().for_each(|replica| replica.at -= oldest);
    }
}
