//! Positions, each a type of its own.

use crate::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in the cluster log. The first entry, the founding government, has slot 1; slot 0 is "before all".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u64);

impl Slot {
    pub const ZERO: Slot = Slot(0);

    /// No log gets so far; a message that speaks of slots beyond is nonsense.
    pub const MOST: Slot = Slot(1 << 56);

    pub fn next(self) -> Slot {
        Slot(self.0.saturating_add(1))
    }

    /// The slot before this one; slot 0 has none and stays.
    pub fn previous(self) -> Slot {
        Slot(self.0.saturating_sub(1))
    }

    /// How many slots lie above `lower`, up to and with this one.
    pub fn above(self, lower: Slot) -> u64 {
        self.0.saturating_sub(lower.0)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Counts the times an operator re-founded a cluster that had lost its majority. Names the node where that was
/// done, so that two operators who do it at once on two nodes make two generations, of which one is higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation {
    pub number: u32,
    pub by: NodeId,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.number == 0 {
            return write!(f, "0");
        }
        write!(f, "{}{}", self.number, self.by)
    }
}

/// Who may propose. Ordered by generation, then round, then node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    pub generation: Generation,
    pub round: u64,
    pub node: NodeId,
}

impl Ballot {
    /// No election gets so far; a message that speaks of rounds beyond is nonsense.
    pub const ROUNDS_MOST: u64 = 1 << 56;
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.generation, self.round, self.node)
    }
}

/// A submitter's own numbering, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);
