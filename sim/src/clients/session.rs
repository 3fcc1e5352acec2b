//! A client's numbers: which session its writes are in, and their series.
//!
//! A session that a bucket does not take, because it is forgotten there or its opening time is nonsense to it, is given
//! up for a new one, opened by the clock of whoever serves the bucket. What was outstanding stays in the old one.

use crate::plan::ClientsPlan;
use crate::world::World;
use atoll_types::{Counter, HashSlot, Rng, Series, SessionId, SessionUse, Time};
use std::time::Duration;

/// Bits of a device's counter.
const DEVICE_BITS: u8 = 8;

/// How a client numbers its writes.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Not at all.
    Plain,
    /// Its clock is off by this.
    Session { skew: Duration },
    /// With a small counter that wraps, on one slot.
    Device { skew: Duration, tag: String },
}

impl Kind {
    pub(super) fn draw(rng: &mut Rng, tags: &[String], skew: Duration) -> Kind {
        let skew = rng.between(Duration::ZERO, skew + Duration::from_micros(1));
        match rng.below(8) {
            0 | 1 => Kind::Plain,
            2 => Kind::Device { skew, tag: rng.pick(tags).cloned().unwrap_or_default() },
            _session => Kind::Session { skew },
        }
    }

    pub(super) fn is_device(&self) -> bool {
        self.tag().is_some()
    }

    /// The one tag that it may write to.
    pub(super) fn tag(&self) -> Option<&str> {
        match self {
            Kind::Device { tag, .. } => Some(tag),
            Kind::Plain | Kind::Session { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    id: SessionId,
    /// The number of the next write, not wrapped.
    next: u64,
}

/// The number of one write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) session: SessionId,
    /// Not wrapped.
    pub(crate) series: u64,
}

impl World {
    /// The next number of a client's session, which it opens if it has none; None for a client without.
    pub(super) fn number_write(&mut self, client: usize) -> Option<Usage> {
        let skew = match &self.clients.clients[client].kind {
            Kind::Plain => return None,
            Kind::Session { skew } | Kind::Device { skew, .. } => *skew,
        };
        if self.clients.clients[client].session.is_none() {
            let opened = Time(self.now.0 + ClientsPlan::CLOCK) + skew;
            self.open_session(client, opened);
        }
        let session = self.clients.clients[client].session.as_mut()?;
        session.next += 1;
        Some(Usage { session: session.id, series: session.next - 1 })
    }

    fn open_session(&mut self, client: usize, opened: Time) {
        let super::Clients { rng, clients, .. } = &mut self.clients;
        let (counter, next) = match &clients[client].kind {
            Kind::Plain => return,
            Kind::Session { .. } => (Counter::Full, 1),
            Kind::Device { tag, .. } => {
                let slot = HashSlot::of(tag.as_bytes());
                // Anywhere in its range, and above a whole turn of it: a number can be below the first that arrives.
                (Counter::Wrapping { bits: DEVICE_BITS, slot }, 256 + rng.below(256))
            }
        };
        let id = SessionId { opened, token: rng.next(), counter };
        clients[client].session = Some(Session { id, next });
    }

    /// The bucket of this operation does not take its session.
    pub(super) fn renew_session(&mut self, number: usize) {
        let operation = &self.clients.operations[number];
        let (client, slot) = (operation.client, operation.slot);
        let current = self.clients.clients[client].session.map(|session| session.id);
        if current.is_none() || current != operation.usage.map(|usage| usage.session) {
            return; // Given up before.
        }
        let serves = |host: &crate::host::Host| {
            let shards = host.core().map_or(&[][..], |node| node.shards());
            let mut replicas = shards.iter().flat_map(|shard| shard.replicas().values());
            replicas.any(|replica| replica.is_serving() && replica.range().contains(slot))
        };
        let server = self.hosts.iter().find(|host| serves(host));
        let own = Time(self.now.0 + ClientsPlan::CLOCK);
        let opened = server.map_or(own, |host| host.clock.read(self.now));
        self.open_session(client, opened);
    }

    /// What the request for this operation carries.
    pub(super) fn usage_of(&self, number: usize) -> Option<SessionUse> {
        let operation = &self.clients.operations[number];
        let usage = operation.usage?;
        let outstanding = self.clients.clients[operation.client].outstanding.iter();
        let same = outstanding.filter_map(|&other| self.clients.operations[other].usage);
        let floor = same.filter(|other| other.session == usage.session).map(|other| other.series).min();
        let mask = match usage.session.counter {
            Counter::Full => u64::MAX,
            Counter::Wrapping { bits, .. } => (1 << bits) - 1,
        };
        Some(SessionUse {
            session: usage.session,
            series: Series(usage.series & mask),
            floor: Series(floor.unwrap_or(usage.series).min(usage.series) & mask),
            attempt: operation.attempt,
        })
    }
}
