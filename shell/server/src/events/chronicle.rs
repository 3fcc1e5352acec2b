//! The writer of the book: takes the decided entries in their order and looks at the table they led to.
//!
//! Entries are noted as they come; what is written of them is written when somebody looks, since only the table says
//! what they did. A bucket's epoch is the slot of the entry that appointed its members: so it is known which entry a
//! change of the table is due to, also when several came at once.
//!
//! Not here: entries about members (`people`), what a removal did to buckets (`take_over`), what orders did (`moves`).

use super::book::{Book, Draft};
use super::moves::Moves;
use super::take_over::TakeOvers;
use super::{Grade, Kind, count, span};
use atoll_cluster::State;
use atoll_distributor::{Bucket, Distributor};
use atoll_node::View;
use atoll_types::{Body, BucketId, Cookie, Entry, Epoch, NodeId, Sequence, Slot, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Names remembered of nodes that departed.
const NAMES_MOST: usize = 1_024;
/// Submissions remembered, as one may stand in the log twice.
const SUBMISSIONS_MOST: usize = 256;

/// What an entry was, for what the table owes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It took somebody out of sets.
    Removal,
    /// A step of a move.
    Order,
}

/// An entry of this look, and the event that was written of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) class: Class,
    pub(super) time: Time,
    pub(super) event: Option<u64>,
}

/// Requests for so many buckets come in at this node, as this event says.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoughtAt {
    pub(super) at: NodeId,
    pub(super) event: u64,
    pub(super) buckets: usize,
}

/// A bucket as it was last seen.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) epoch: Epoch,
    pub(super) primary: NodeId,
    pub(super) members: Vec<NodeId>,
    pub(super) lost: bool,
}

impl Known {
    fn of(bucket: &Bucket) -> Known {
        let (epoch, primary, members) = (bucket.epoch(), bucket.primary(), bucket.members().to_vec());
        Known { epoch, primary, members, lost: bucket.is_lost() }
    }
}

/// A bucket that changed: as it was, if it was, and as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) id: BucketId,
    pub(super) before: Option<&'a Known>,
    pub(super) now: &'a Bucket,
}

/// Where an entry stands, for what is written of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) slot: Slot,
    pub(super) time: Time,
}

impl Place {
    pub(super) fn draft(self, cause: Option<u64>, kind: Kind, grade: Grade, text: String) -> Draft {
        Draft { cause, slot: self.slot.0, time: self.time.0, kind, grade, text, nodes: Vec::new(), buckets: 0 }
    }
}

#[derive(Debug, Default)]
pub struct Chronicle {
    noted: Vec<(Slot, Arc<Entry>)>,
    /// False until the first look after a snapshot: what is there then has no history here.
    begun: bool,
    pub(super) names: BTreeMap<NodeId, String>,
    pub(super) leader: NodeId,
    pub(super) absent: BTreeSet<NodeId>,
    pub(super) arriving: BTreeSet<NodeId>,
    /// What is told of a node until it is well again, by its name: another node may take its place.
    pub(super) stories: BTreeMap<String, u64>,
    /// What the moves that follow are due to.
    pub(super) trigger: Option<u64>,
    /// The last word on where requests come in.
    pub(super) sought: Option<SoughtAt>,
    submissions: VecDeque<(NodeId, Cookie, Sequence)>,
    table: BTreeMap<BucketId, Known>,
    version: Slot,
    take_overs: TakeOvers,
    moves: Moves,
    /// Not healthy since then.
    ill: Option<Time>,
}

impl Chronicle {
    /// An entry was decided.
    pub fn note(&mut self, slot: Slot, entry: Arc<Entry>) {
        self.noted.push((slot, entry));
    }

    /// What comes next does not follow on what was noted.
    pub fn forget(&mut self) {
        *self = Chronicle::default();
    }

    /// Writes what was noted, now that the table shows what it led to.
    pub fn look(&mut self, view: &View<'_>, healthy: bool, now: Time, book: &Book) {
        let (Some(state), Some(distributor)) = (view.state, view.distributor) else { return };
        self.learn_names(state);
        let noted = std::mem::take(&mut self.noted);
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(&noted, view, state, distributor, book);
        }
        let mut causes = BTreeMap::new();
        for (slot, entry) in &noted {
            let place = Place { slot: *slot, time: entry.time };
            if let Some(noted) = self.tell(place, entry, book) {
                causes.insert(*slot, noted);
            }
        }
        // What had begun before this look, and then what began in it: a bucket may have settled and moved on meanwhile.
        noted.iter().for_each(|(_, entry)| self.take_overs.on_entry(entry, &self.names, book));
        if distributor.version() != self.version {
            self.compare(distributor, &causes, book);
            noted.iter().for_each(|(_, entry)| self.take_overs.on_entry(entry, &self.names, book));
        }
        let slot = view.decided;
        self.health(distributor, healthy, Place { slot, time: now }, book);
    }

    /// From an empty log on, everything is told. After a snapshot, it is said where that begins.
    fn begin(
        &mut self,
        noted: &[(Slot, Arc<Entry>)],
        view: &View<'_>,
        state: &State,
        distributor: &Distributor,
        book: &Book,
    ) {
        let Some(identity) = view.identity else { return };
        if noted.first().is_some_and(|(slot, _)| slot.0 <= 1) {
            return;
        }
        self.leader = state.government.leader();
        self.absent = state.members.iter().filter(|(_, member)| member.is_absent()).map(|(&node, _)| node).collect();
        let known = noted.first().map_or(view.decided, |(slot, _)| *slot);
        // Entries that came with the snapshot, or since, have done what they did before this first look.
        let changed: BTreeSet<Slot> = noted.iter().map(|(slot, _)| *slot).collect();
        let old = distributor.buckets().iter().filter(|(_, bucket)| !changed.contains(&bucket.epoch().slot));
        self.table = old.map(|(&id, bucket)| (id, Known::of(bucket))).collect();
        let text = format!("{} knows what happened from slot {known} on", self.name(identity.node));
        let place = Place { slot: known, time: noted.first().map_or(state.time, |(_, entry)| entry.time) };
        book.write(Draft {
            nodes: vec![self.name(identity.node)],
            ..place.draft(None, Kind::Began, Grade::Plain, text)
        });
    }

    fn learn_names(&mut self, state: &State) {
        for (&node, member) in &state.members {
            self.names.entry(node).or_insert_with(|| member.name.to_string());
        }
        while self.names.len() > NAMES_MOST {
            self.names.pop_first();
        }
    }

    pub(super) fn name(&self, node: NodeId) -> String {
        name(&self.names, node)
    }

    fn tell(&mut self, place: Place, entry: &Entry, book: &Book) -> Option<Noted> {
        let time = entry.time;
        match &entry.body {
            Body::Noop => None,
            Body::Government(government) => self.on_government(place, government, book),
            Body::Edict(edict) => self.on_edict(place, edict, book),
            Body::Order(order) => {
                self.moves.on_order(place, self.trigger, order, book);
                Some(Noted { class: Class::Order, time, event: None })
            }
            Body::Submission(submission) => {
                let key = (submission.node, submission.cookie, submission.sequence);
                if self.submissions.contains(&key) {
                    return None;
                }
                self.submissions.push_back(key);
                if self.submissions.len() > SUBMISSIONS_MOST {
                    self.submissions.pop_front();
                }
                self.on_request(place, submission.node, &submission.request, book)
            }
        }
    }

    /// What became of the buckets since the last look.
    fn compare(&mut self, distributor: &Distributor, causes: &BTreeMap<Slot, Noted>, book: &Book) {
        self.version = distributor.version();
        let mut by_slot: BTreeMap<Slot, Vec<Change<'_>>> = BTreeMap::new();
        for (&id, now) in distributor.buckets() {
            let before = self.table.get(&id);
            if before.is_none_or(|before| before.epoch != now.epoch() || before.lost != now.is_lost()) {
                by_slot.entry(now.epoch().slot).or_default().push(Change { id, before, now });
            }
        }
        for (slot, changes) in &by_slot {
            let Some(noted) = causes.get(slot) else { continue };
            let place = Place { slot: *slot, time: noted.time };
            match noted.class {
                Class::Removal => self.take_overs.on_removal(place, noted.event, changes, &self.names, book),
                Class::Order => {
                    let take_overs = &mut self.take_overs;
                    self.moves.on_changes(place, self.trigger, changes, take_overs, &self.names, book);
                }
            }
        }
        let fresh: Vec<(BucketId, Known)> =
            by_slot.values().flatten().map(|change| (change.id, Known::of(change.now))).collect();
        self.table.extend(fresh);
    }

    fn health(&mut self, distributor: &Distributor, healthy: bool, place: Place, book: &Book) {
        match (self.ill, healthy) {
            (None, false) => self.ill = Some(place.time),
            (Some(since), true) => {
                self.ill = None;
                let buckets = distributor.buckets().len();
                let lasted = span(place.time.since(since).as_micros() as u64);
                let text = format!("healthy after {lasted}: all {} serve", count(buckets, "bucket"));
                let draft = place.draft(self.trigger, Kind::Healthy, Grade::Good, text);
                book.write(Draft { buckets, ..draft });
            }
            (None, true) | (Some(_), false) => {}
        }
    }

    /// Moves from now on are due to this.
    pub(super) fn triggers(&mut self, event: u64) {
        self.trigger = Some(event);
        self.moves.close();
    }
}

pub(super) fn name(names: &BTreeMap<NodeId, String>, node: NodeId) -> String {
    names.get(&node).cloned().unwrap_or_else(|| node.to_string())
}
