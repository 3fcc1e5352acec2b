//! One bucket as the cluster log knows it: who serves it, who could, and what is under way.
//!
//! ```text
//!            Expand            Ready, Unite            Settled             Contract
//!  members ─────────▶ catching up ─────────▶ members, ─────────▶ members, ─────────▶ nothing
//!                          ▲                 unsettled           eligible
//!                          └──────────────────────┘
//!                           any removal: falls back
//! ```
//!
//! The invariant that everything else serves: **every eligible node holds every committed entry.** Entries commit only
//! with the acknowledgement of all members, and only while everybody eligible is a member (`may_commit`); a node
//! becomes eligible only by a settled epoch of at least `min_copies` members, and every primary is eligible.
//!
//! So a replica that is eligible keeps what it holds until it has agreed with its primary on where their logs part: a
//! snapshot of less than it has, laid over its log while it catches up, would break the invariant.
//!
//! Not here: which steps are legal (`moves`), what a removal does (`removal`), what should be done next (`orders`).

use crate::state::Decided;
use atoll_types::{Appointment, BucketId, Bug, Duty, Epoch, Mark, NodeId, Offset, SlotRange, planted};
use serde::{Deserialize, Serialize};

/// Old copies remembered per bucket. More than that is no help in choosing who catches up fastest.
const FORMER_MOST: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    pub range: SlotRange,
    /// Has a primary exactly if it has members; all of them are present.
    pub appointment: Appointment,
    /// The log has recorded that every member acknowledged this epoch.
    pub settled: bool,
    /// May become primary: holds every committed entry. Sorted. Empty: the bucket is lost.
    pub eligible: Vec<NodeId>,
    /// Of those that catch up: the primary says they hold what a member holds. Sorted.
    pub ready: Vec<NodeId>,
    /// No longer named, and not yet allowed to purge: cheap to bring up to date. Oldest first.
    pub former: Vec<NodeId>,
    /// The primary is writing the split as the last entry of this epoch.
    pub splitting: bool,
    /// Somebody wants it halved.
    pub split_wanted: bool,
    /// It begins with nothing at this epoch, after this offset.
    pub begins: Option<Offset>,
    /// Where it last began with nothing.
    pub beginning: Mark,
    /// It came out of that one, which ended with a split written in this epoch.
    pub divided: Option<(BucketId, Epoch)>,
    /// How often an operator revived it: each time, acknowledged writes may be missing.
    pub revived: u32,
    /// The member at which nearly all requests come in, as its primary says; nobody where there is none.
    pub sought_at: NodeId,
    /// Who led it before it went where it is sought, and counts as its leader where leads are levelled out. Nobody,
    /// unless it was handed over for that.
    pub home: NodeId,
}

impl Bucket {
    /// A bucket with nothing in it. All logs are empty, so there is nothing to settle.
    pub(crate) fn begin(
        range: SlotRange,
        at: Decided,
        revived: u32,
        primary: NodeId,
        mut members: Vec<NodeId>,
        base: Offset,
    ) -> Bucket {
        let epoch = at.epoch(revived);
        members.sort();
        let eligible = members.clone();
        Bucket {
            range,
            appointment: Appointment { epoch, primary, members, catching_up: Vec::new() },
            settled: true,
            eligible,
            ready: Vec::new(),
            former: Vec::new(),
            splitting: false,
            split_wanted: false,
            begins: Some(base),
            beginning: Mark { epoch, offset: base },
            divided: None,
            revived,
            sought_at: NodeId::NOBODY,
            home: NodeId::NOBODY,
        }
    }

    pub fn id(&self) -> BucketId {
        self.range.bucket()
    }

    pub fn epoch(&self) -> Epoch {
        self.appointment.epoch
    }

    pub fn primary(&self) -> NodeId {
        self.appointment.primary
    }

    pub fn members(&self) -> &[NodeId] {
        &self.appointment.members
    }

    pub fn catching_up(&self) -> &[NodeId] {
        &self.appointment.catching_up
    }

    pub fn is_eligible(&self, node: NodeId) -> bool {
        self.eligible.contains(&node)
    }

    /// Nobody is left who may serve it; only an operator can revive it.
    pub fn is_lost(&self) -> bool {
        self.eligible.is_empty()
    }

    /// With an eligible node outside of the members, that node may be the next primary, and would not have what the
    /// members committed without it. So such an epoch commits only once it has settled, which narrows the eligible.
    pub fn may_commit(&self, min_copies: usize) -> bool {
        let enclosed = self.eligible.iter().all(|&node| self.appointment.is_member(node));
        self.members().len() >= min_copies && (enclosed || planted(Bug::CommitBeforeSettledUnion))
    }

    pub fn duty(&self, copies: usize, min_copies: usize) -> Duty {
        Duty {
            range: self.range,
            appointment: self.appointment.clone(),
            may_commit: self.may_commit(min_copies),
            settled: self.settled,
            splitting: self.splitting,
            lost: self.is_lost(),
            short: self.members().len() < copies,
            begins: self.beginning,
            divided: self.divided,
            sought_at: self.sought_at,
        }
    }

    /// The members that may stay when something goes wrong. The others belong to a union that has not settled.
    pub(crate) fn eligible_members(&self) -> Vec<NodeId> {
        self.members().iter().copied().filter(|&node| self.is_eligible(node)).collect()
    }

    /// A new epoch. What was said about the last one counts no more, and a split under way is called off: the wish for
    /// it remains. Members that stay named nowhere are former.
    pub(crate) fn appoint(&mut self, at: Decided, primary: NodeId, mut members: Vec<NodeId>) {
        members.sort();
        let before = std::mem::take(&mut self.appointment.members);
        self.appointment.epoch = at.epoch(self.revived);
        self.set_primary(primary);
        self.appointment.catching_up.retain(|node| !members.contains(node));
        self.appointment.members = members;
        self.settled = false;
        self.ready.clear();
        self.splitting = false;
        self.begins = None;
        for node in before {
            self.remember(node);
        }
        self.former.retain(|&node| !self.appointment.names(node));
    }

    /// Where it is sought is for the next primary to say, unless it was handed over for that; then it is lent.
    pub(crate) fn set_primary(&mut self, primary: NodeId) {
        let before = std::mem::replace(&mut self.appointment.primary, primary);
        if primary == before {
            return;
        }
        if primary != self.sought_at {
            self.sought_at = NodeId::NOBODY;
        }
        self.home = NodeId::NOBODY;
    }

    /// Who counts as its leader where leads are levelled out: who gets it back, while it is lent.
    pub(crate) fn steady_leader(&self) -> NodeId {
        if self.is_eligible(self.home) && self.appointment.is_member(self.home) { self.home } else { self.primary() }
    }

    /// These receive a copy from now on.
    pub(crate) fn catch_up(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        for node in nodes {
            if !self.appointment.names(node) {
                self.appointment.catching_up.push(node);
                self.former.retain(|&former| former != node);
            }
        }
        self.appointment.catching_up.sort();
    }

    /// These no longer receive a copy.
    pub(crate) fn drop_catching_up(&mut self, is_dropped: impl Fn(NodeId) -> bool) -> bool {
        let (dropped, kept) = self.appointment.catching_up.iter().partition(|&&node| is_dropped(node));
        let dropped: Vec<NodeId> = dropped;
        self.appointment.catching_up = kept;
        self.ready.retain(|node| !dropped.contains(node));
        for &node in &dropped {
            self.remember(node);
        }
        !dropped.is_empty()
    }

    /// This node is no longer named and has a copy, or part of one.
    fn remember(&mut self, node: NodeId) {
        if self.appointment.names(node) || self.former.contains(&node) {
            return;
        }
        if self.former.len() == FORMER_MOST {
            self.former.remove(0);
        }
        self.former.push(node);
    }

    /// What these nodes held is gone for good. Tells whether that changes who is eligible.
    pub(crate) fn forget(&mut self, is_forgotten: impl Fn(NodeId) -> bool) -> bool {
        let before = self.eligible.len();
        self.eligible.retain(|&node| !is_forgotten(node));
        self.former.retain(|&node| !is_forgotten(node));
        before != self.eligible.len()
    }

    /// Every member acknowledged this epoch.
    pub(crate) fn settle(&mut self, min_copies: usize, wanted: usize) {
        self.settled = true;
        // Below min_copies nothing commits, so whoever was eligible before still is.
        if self.members().len() >= min_copies {
            self.eligible.clone_from(&self.appointment.members);
        }
        if self.members().len() >= wanted {
            self.former.clear();
        }
    }

    /// Asserts what stands on the fields.
    pub fn check(&self, min_copies: usize) {
        let id = self.id();
        self.appointment.check();
        assert_eq!(self.primary().is_nobody(), self.members().is_empty(), "bucket {id}: members without a primary");
        assert!(self.eligible.is_sorted() && self.ready.is_sorted(), "bucket {id}: sets are sorted");
        let leads = self.primary().is_nobody() || self.is_eligible(self.primary());
        assert!(leads, "bucket {id}: the primary is not eligible");
        let ready_known = self.ready.iter().all(|node| self.catching_up().contains(node));
        assert!(ready_known, "bucket {id}: only those that catch up are ready");
        let settled_knows = !self.settled || self.members().len() < min_copies || self.eligible == self.members();
        assert!(settled_knows, "bucket {id}: settled, and the members are not the eligible");
        let former_gone = self.former.iter().all(|&node| !self.appointment.names(node));
        assert!(former_gone, "bucket {id}: somebody is former and named");
        assert!(!self.splitting || self.settled, "bucket {id}: a split of an unsettled epoch");
        assert!(!self.splitting || self.catching_up().is_empty(), "bucket {id}: somebody catches up during a split");
        assert!(self.former.len() <= FORMER_MOST, "bucket {id}: too many former copies remembered");
        let lent = self.home.is_nobody() || self.home != self.primary();
        assert!(lent, "bucket {id}: lent by its own primary");
    }
}
