//! One node as the cluster log knows it.
//!
//! ```text
//!   (named) ──▶ Arriving ──acclimated──▶ Present ◀──heard again── Absent
//!                  │                      │   └──silent, dead──────▶ │
//!                  │              ordered ▼                          │ too long
//!                  │                   Leaving                       │
//!                  └──unreachable──▶ departed ◀──────────────────────┘
//! ```
//! Departed members are no members: `State::departed` remembers them.

use atoll_types::{Address, Endpoints, Incarnation, Level, Name, Newcomer, Slot, Why};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: Name,
    pub address: Address,
    pub endpoints: Endpoints,
    pub incarnation: Incarnation,
    pub zone: Name,
    pub weight: u32,
    pub level: Level,
    pub durable: bool,
    /// The slot of the government that named it.
    pub arrived: Slot,
    pub standing: Standing,
    /// The life that an operator wants gone. Standing tells how it is until then. Whoever starts it again before it has
    /// departed wants it back: that life departs as well, and then arrives anew.
    pub ordered_out: Option<Incarnation>,
    /// Its clock is off: it should lead no bucket.
    pub skewed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// Named, and not yet in step.
    Arriving,
    /// Acclimated and heard.
    Present,
    /// Out of everything for now; keeps its id and may return.
    Absent { why: Why, at: Slot },
    /// Present, and an operator wants it gone.
    Leaving,
}

impl Member {
    pub fn new(newcomer: &Newcomer, arrived: Slot, standing: Standing) -> Member {
        Member {
            name: newcomer.name.clone(),
            address: newcomer.address.clone(),
            endpoints: newcomer.endpoints.clone(),
            incarnation: newcomer.incarnation,
            zone: newcomer.zone.clone(),
            weight: newcomer.weight,
            level: newcomer.level,
            durable: newcomer.durable,
            arrived,
            standing,
            ordered_out: None,
            skewed: false,
        }
    }

    /// What it is when it is acclimated and heard.
    pub fn once_present(&self) -> Standing {
        if self.is_to_go() { Standing::Leaving } else { Standing::Present }
    }

    /// An operator wants it gone, in this life or the one before.
    pub fn is_to_go(&self) -> bool {
        self.ordered_out.is_some()
    }

    pub fn is_absent(&self) -> bool {
        matches!(self.standing, Standing::Absent { .. })
    }

    /// Absent, and welcome in the life that is known. One that stopped in good order comes back in another.
    pub fn may_return(&self) -> bool {
        matches!(self.standing, Standing::Absent { why, .. } if why != Why::Stopped)
    }

    pub fn is_arriving(&self) -> bool {
        self.standing == Standing::Arriving
    }

    /// Acclimated, and not absent.
    pub fn is_active(&self) -> bool {
        matches!(self.standing, Standing::Present | Standing::Leaving)
    }
}
