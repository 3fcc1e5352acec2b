//! The law: what each entry of the cluster log makes of the bucket's appointment. The five moves, less the split.
//!
//! ```text
//!            Expand            Unite             settled
//!    spare ─────────▶ catching ──────▶ member, ─────────▶ member,
//!      ▲                 up   ◀──────  unsettled          eligible
//!      │ Contract, Remove     fall back                      │
//!      └─────────────────────────────────────────────────────┘ stays eligible if too few remain (rule 6)
//! ```
//!
//! Not here: what the nodes make of it (`world.rs`).

use std::fmt;

pub(crate) const NODES: usize = 4;

pub(crate) type Node = u8;
/// The slot of the edict, as ever. An entry of the bucket's log is told by the epoch it was written in and its offset,
/// since an epoch has one primary; so a log is a list of epochs.
pub(crate) type Epoch = u8;

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Set(u8);

impl Set {
    pub(crate) const NONE: Set = Set(0);

    pub(crate) fn first(count: usize) -> Set {
        Set((1 << count) - 1)
    }
    pub(crate) fn only(node: Node) -> Set {
        Set(1 << node)
    }
    pub(crate) fn has(self, node: Node) -> bool {
        self.0 & (1 << node) != 0
    }
    pub(crate) fn with(self, node: Node) -> Set {
        Set(self.0 | 1 << node)
    }
    pub(crate) fn less(self, node: Node) -> Set {
        Set(self.0 & !(1 << node))
    }
    pub(crate) fn and(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }
    pub(crate) fn in_both(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }
    pub(crate) fn without(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }
    pub(crate) fn is_within(self, other: Set) -> bool {
        self.without(other) == Set::NONE
    }
    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }
    pub(crate) fn iter(self) -> impl Iterator<Item = Node> {
        (0..NODES as Node).filter(move |&node| self.has(node))
    }
}

pub(crate) fn name(node: Node) -> char {
    char::from(b'A' + node)
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.iter().map(name).collect::<String>())
    }
}

/// Which rules are kept. All of them are the protocol; each one missing is a bug to be found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) min_copies: u32,
    /// Rule 4: only the members of a settled appointment are eligible.
    pub(crate) eligible_once_settled: bool,
    /// Rule 4: a voluntary edict needs the present epoch settled.
    pub(crate) move_once_settled: bool,
    /// With rule 6: nothing commits while somebody who is not a member is eligible.
    pub(crate) gate: bool,
    /// Rule 1: who has applied an epoch no longer answers in a lower one.
    pub(crate) fence: bool,
    /// Rule 3: only members' acknowledgements count.
    pub(crate) members_only: bool,
    /// Opening: a repeated truncation does nothing.
    pub(crate) truncate_once: bool,
    /// A read is answered once all other members have vouched; else once the primary has.
    pub(crate) all_vouch: bool,
    /// A read is answered only where the bucket may commit.
    pub(crate) reads_at_gate: bool,
}

pub(crate) const ALL_RULES: Rules = Rules {
    min_copies: 2,
    eligible_once_settled: true,
    move_once_settled: true,
    gate: true,
    fence: true,
    members_only: true,
    truncate_once: true,
    all_vouch: true,
    reads_at_gate: true,
};

/// The bucket after some entry of the cluster log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) epoch: Epoch,
    pub(crate) primary: Option<Node>,
    pub(crate) members: Set,
    pub(crate) catching_up: Set,
    pub(crate) eligible: Set,
    pub(crate) settled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edict {
    Expand(Node),
    Unite,
    Abdicate(Node),
    Contract(Node),
    /// The node is absent; the first of those who may is primary unless this one is.
    Remove(Node, Option<Node>),
    /// The node is there again.
    Return(Node),
    /// A complaint about the primary, where too few would remain without it: another leads the same set.
    Depose(Node),
}

impl View {
    /// The node's part in it, in four bits.
    pub(crate) fn part(&self, node: Node) -> u8 {
        let parts =
            [self.primary == Some(node), self.members.has(node), self.catching_up.has(node), self.eligible.has(node)];
        parts.into_iter().fold(0, |bits, part| bits << 1 | u8::from(part))
    }

    pub(crate) fn may_commit(&self, rules: Rules) -> bool {
        self.members.len() >= rules.min_copies && (!rules.gate || self.eligible.is_within(self.members))
    }

    /// Every edict that the law allows now.
    pub(crate) fn edicts(&self, present: Set, rules: Rules) -> Vec<Edict> {
        let mut edicts: Vec<Edict> = Set::first(NODES).without(present).iter().map(Edict::Return).collect();
        let Some(primary) = self.primary else { return edicts };
        // Those who catch up count for nothing, so there may be any at any time.
        let spare = present.without(self.members).without(self.catching_up);
        edicts.extend(spare.iter().map(Edict::Expand));
        let few = self.members.len() < rules.min_copies;
        let may_move_on = self.settled || !rules.move_once_settled;
        // `ready` is only a hint: the law does not ask for it. A set that cannot commit needs not settle either.
        if self.catching_up != Set::NONE && (may_move_on || few) {
            edicts.push(Edict::Unite);
        }
        let others = self.members.less(primary);
        if may_move_on {
            edicts.extend(others.in_both(self.eligible).iter().map(Edict::Abdicate));
            if others.len() >= rules.min_copies {
                edicts.extend(others.iter().map(Edict::Contract));
            }
        } else if few {
            edicts.extend(self.eligible.in_both(present).less(primary).iter().map(Edict::Abdicate));
        }
        if !self.settled {
            edicts.extend(others.in_both(self.eligible).iter().map(Edict::Depose));
        }
        for node in self.members.and(self.catching_up).iter() {
            let heirs = self.heirs(node, present);
            if node != primary && heirs.has(primary) {
                edicts.push(Edict::Remove(node, Some(primary)));
            } else if heirs == Set::NONE {
                edicts.push(Edict::Remove(node, None));
            } else {
                edicts.extend(heirs.iter().map(|heir| Edict::Remove(node, Some(heir))));
            }
        }
        edicts
    }

    /// Who may be primary once this node is removed: a member that is eligible; without one, anybody eligible who is
    /// there.
    fn heirs(&self, removed: Node, present: Set) -> Set {
        let members = self.members.in_both(self.eligible).less(removed);
        if members == Set::NONE { self.eligible.in_both(present).less(removed) } else { members }
    }

    /// The bucket after an edict; with the same epoch if nobody's part in it changes.
    pub(crate) fn after(&self, edict: Edict, present: Set, rules: Rules) -> View {
        let mut next = View { epoch: self.epoch + 1, settled: false, ..*self };
        match edict {
            Edict::Expand(node) => return View { catching_up: self.catching_up.with(node), ..*self },
            Edict::Unite => {
                next.members = self.members.and(self.catching_up);
                if !rules.eligible_once_settled {
                    next.eligible = self.eligible.and(next.members);
                }
            }
            Edict::Abdicate(to) => {
                next.primary = Some(to);
                if !self.members.has(to) {
                    next.members = Set::NONE.with(to);
                }
            }
            Edict::Contract(node) => {
                next.members = self.members.less(node);
                next.eligible = self.eligible.less(node);
            }
            Edict::Depose(to) => {
                next.primary = Some(to);
                next.fall_back_from(self);
            }
            Edict::Remove(node, _) if !self.members.has(node) => {
                return View { catching_up: self.catching_up.less(node), ..*self };
            }
            Edict::Remove(node, heir) => {
                next.fall_back_from(self);
                next.members = next.members.less(node);
                // Rule 6: too few are left to commit anything without it, so it still has all that was committed.
                if next.members.len() >= rules.min_copies {
                    next.eligible = self.eligible.less(node);
                }
                next.primary = heir;
                if next.members == Set::NONE {
                    next.members = self.heirs(node, present);
                }
            }
            Edict::Return(node) if self.primary.is_none() && self.eligible.has(node) => {
                next.primary = Some(node);
                next.members = Set::NONE.with(node);
            }
            Edict::Return(_) => return *self,
        }
        next.catching_up = next.catching_up.without(next.members);
        next
    }

    /// Before a union has settled: back to the old set, and the others are catching up again.
    fn fall_back_from(&mut self, before: &View) {
        self.members = before.members.in_both(before.eligible);
        self.catching_up = before.catching_up.and(before.members.without(before.eligible));
    }

    /// `settled` is recorded.
    pub(crate) fn once_settled(&self, rules: Rules) -> View {
        // Rule 6: too small a set does not take their eligibility from those removed.
        let lingering = if self.members.len() >= rules.min_copies { Set::NONE } else { self.eligible };
        View { settled: true, eligible: self.members.and(lingering), ..*self }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let primary = self.primary.map_or('-', name);
        write!(f, "epoch {} primary {primary} members {}", self.epoch, self.members)?;
        if self.catching_up != Set::NONE {
            write!(f, " catching up {}", self.catching_up)?;
        }
        write!(f, " eligible {}{}", self.eligible, if self.settled { " settled" } else { "" })
    }
}
