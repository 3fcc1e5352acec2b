//! The last test of health: when all else is well, every client finishes what it has begun, and then writes to every
//! bucket and reads from it.

use super::act::Act;
use super::draw;
use crate::world::World;
use atoll_types::{BucketId, HashSlot, SlotRange};

/// The same probe, with another value.
pub(super) fn again(act: &Act, number: u64) -> Act {
    match act {
        Act::Put { key, ttl, .. } => Act::Put { key: key.clone(), value: format!("again{number}"), ttl: *ttl },
        Act::Publish { stream, .. } => Act::Publish { stream: stream.clone(), message: format!("again{number}") },
        Act::Swap { .. }
        | Act::Increment { .. }
        | Act::Append { .. }
        | Act::Delete { .. }
        | Act::Exchange { .. }
        | Act::Expire { .. }
        | Act::Trim { .. }
        | Act::Both { .. }
        | Act::Get { .. }
        | Act::Scan { .. }
        | Act::Fetch { .. } => act.clone(),
    }
}

impl World {
    /// What the clients still have to do before all is well. Called again and again.
    pub(crate) fn unfinished_clients(&mut self, buckets: &[SlotRange]) -> Option<String> {
        self.clients.winding_down = true;
        let busy = self.clients.clients.iter().position(|client| {
            let lists = (&client.outstanding, &client.todo);
            !lists.0.is_empty() || !lists.1.is_empty()
        });
        if let Some(client) = busy {
            let Some(&number) = self.clients.clients[client].outstanding.first() else {
                return Some(format!("client {client} has probes to send"));
            };
            return Some(format!("client {client} waits for {number}: {:?}", self.clients.operations[number]));
        }
        let now: std::collections::BTreeSet<BucketId> = buckets.iter().map(SlotRange::bucket).collect();
        if self.clients.probed.as_ref() == Some(&now) {
            return self.checks.audit.callers.waiting();
        }
        self.clients.probed = Some(now);
        for client in 0..self.clients.clients.len() {
            let own = self.clients.clients[client].kind.tag().map(str::to_owned);
            for range in buckets {
                let tag = match &own {
                    Some(tag) if range.contains(HashSlot::of(tag.as_bytes())) => tag.clone(),
                    Some(_) => continue,
                    None => draw::tag_within(range.first.0.into(), range.last.0.into()),
                };
                self.clients.probes += 1;
                let (key, value) = (draw::key("p", 0, &tag), format!("probe{}", self.clients.probes));
                let put = Act::Put { key: key.clone(), value, ttl: None };
                self.clients.clients[client].todo.extend([put, Act::Get { key }]);
            }
        }
        Some("the probes of the clients".to_owned())
    }
}
