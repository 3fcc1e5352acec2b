//! Every message about the cluster itself. `docs/protocol/cluster.md` tells who sends which to whom.

use crate::skew::Ahead;
use crate::vitals::Vitals;
use atoll_types::{
    Address, ClusterId, Cookie, Generation, Incarnation, Level, Name, Newcomer, NodeId, Payload, Slot, Submission, Time,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Ask(Ask),
    Standing(Standing),
    Welcome(Welcome),
    Fetch(Fetch),
    Chunk(Chunk),
    NoSnapshot(NoSnapshot),
    Offer(Offer),
    Report(Report),
    Confirmed(Confirmed),
    Ping(Ping),
    Pong(Pong),
    Submit(Submit),
    Departed(Departed),
    Refused(Refused),
}

/// "Let me in." Sent by a blank node to the addresses it was configured with, and passed on to the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub newcomer: Newcomer,
    /// The `--bootstrap` list of the asker.
    pub founders: Vec<Name>,
    /// It has belonged to a cluster, and knows that nothing is left of what it kept there: it departed, or its disk is
    /// damaged.
    pub forgot: bool,
}

/// The answer of whoever is asked: what am I?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub name: Name,
    /// `ClusterId::NONE` if the sender is blank.
    pub cluster: ClusterId,
    pub founders: Vec<Name>,
}

/// "This government names you." The first message a newcomer accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub node: NodeId,
    /// Must be the newcomer's own.
    pub cookie: Cookie,
    /// The government's slot, where the newcomer's snapshot is made.
    pub slot: Slot,
    pub holders: Vec<(NodeId, Address)>,
}

/// "Send the snapshot made at `slot`, from `offset` on." Slot 0: any that you have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    pub slot: Slot,
    pub offset: u64,
    /// The sender has no state, and so no vote that anybody could need.
    pub stateless: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub slot: Slot,
    /// Of the whole snapshot.
    pub length: u64,
    /// crc32c of the whole snapshot.
    pub checksum: u32,
    pub offset: u64,
    pub bytes: Payload,
}

/// "I have none to give: ask another."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoSnapshot {
    pub slot: Slot,
}

/// "What you miss is trimmed: fetch a snapshot from me."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub slot: Slot,
}

/// Health, on its way up the relay tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// By the sender's own clock. Comes back as `Confirmed::sent`.
    pub sent: Time,
    pub position: Slot,
    /// The highest feature level the sender understands.
    pub level: Level,
    pub vitals: Vitals,
    /// Whom the sender has heard, itself or through reports, since its last report.
    pub sightings: Vec<Sighting>,
    /// Whose process the sender knows to be gone.
    pub dead: Vec<(NodeId, Incarnation)>,
}

/// The answer to a report: "`age` before I wrote this, all that was decided was in the log up to `position`."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// Of the report.
    pub sent: Time,
    /// How long ago, by the clock of whoever says this, a leader was confirmed by its majority.
    pub age: Duration,
    pub position: Slot,
    /// The clock of whoever says this, now, and by how much it is ahead of the leader's.
    pub at: Time,
    pub ahead: Option<Ahead>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    pub node: NodeId,
    pub incarnation: Incarnation,
    pub position: Slot,
    /// Of a life the log does not know yet: where it is, and the feature level it understands.
    pub returned: Option<(Address, Level)>,
    /// As it last said of itself.
    pub vitals: Option<Vitals>,
}

impl Sighting {
    /// Heard, and nothing more is known.
    pub fn of(node: NodeId, incarnation: Incarnation) -> Sighting {
        Sighting { node, incarnation, position: Slot::ZERO, returned: None, vitals: None }
    }

    /// Adds what a later sighting tells of the same node.
    pub fn merge(&mut self, later: Sighting) {
        if later.incarnation > self.incarnation {
            *self = later;
        } else if later.incarnation == self.incarnation {
            self.position = self.position.max(later.position);
            self.returned = later.returned.or(self.returned.take());
            keep_later(&mut self.vitals, later.vitals);
        }
    }
}

/// Two followers may pass an old sighting back and forth: the clock of whom it is about tells which is newer.
pub(crate) fn keep_later(known: &mut Option<Vitals>, other: Option<Vitals>) {
    if let Some(other) = other
        && known.as_ref().is_none_or(|known| known.clock < other.clock)
    {
        *known = Some(other);
    }
}

/// The leader asks a silent node directly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    pub position: Slot,
    pub vitals: Vitals,
}

/// On its way to the leader. Answered by its decision in the log; sent again until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    pub submission: Submission,
}

/// "You departed at that slot; arrive as a newcomer."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departed {
    pub node: NodeId,
    pub incarnation: Incarnation,
    pub at: Slot,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub refusal: Refusal,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The refuser belongs to another cluster.
    OtherCluster { cluster: ClusterId },
    /// The refuser belongs to a later generation.
    OldGeneration { generation: Generation },
    /// The refuser knows a later life of the sender, or the same life with another cookie.
    OldIncarnation { known: Incarnation },
    /// The message was meant for an earlier life of the refuser.
    NotMe { incarnation: Incarnation },
    /// At this address runs a blank process: whoever was there is gone.
    Blank,
    /// The name belongs to a node that is alive.
    NameTaken { name: Name },
    /// The asker does not understand the cluster's feature level.
    LevelTooLow,
    /// A queue is full: come back later.
    Busy,
}
