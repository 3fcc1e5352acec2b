//! Rule 8: what was sent by or to an old incarnation, in an older generation or in another cluster has no effect on any
//! copy. Seen from outside: the shards are the same before and after.

use super::broken;
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::{Envelope, Message, Shard};

/// What a message must lead to, by what its receiver knows before it is handled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arriving {
    /// Why it must be without effect, and what the shards are before it.
    void: Option<(&'static str, Vec<u64>)>,
}

impl Arriving {
    pub(crate) fn of(host: &Host, envelope: &Envelope) -> Arriving {
        Arriving { void: why_void(host, envelope).map(|why| (why, digests(host))) }
    }
}

fn digests(host: &Host) -> Vec<u64> {
    host.core().map_or_else(Vec::new, |core| core.shards().iter().map(Shard::digest).collect())
}

fn why_void(host: &Host, envelope: &Envelope) -> Option<&'static str> {
    if !matches!(envelope.message, Message::Shard(_)) {
        return None;
    }
    let view = host.view()?;
    let Some(me) = view.identity else { return Some("its receiver belongs to no cluster") };
    let known = view.state.and_then(|state| state.members.get(&envelope.from));
    if envelope.cluster != me.cluster {
        Some("it is of another cluster")
    } else if envelope.generation < view.generation {
        Some("it is of an older generation")
    } else if envelope.to != me.node || envelope.to_cookie != me.incarnation.cookie {
        Some("it was meant for an earlier life of its receiver, or for another")
    } else if known.is_some_and(|known| known.incarnation.life > envelope.incarnation.life) {
        Some("its sender lives a later life")
    } else {
        None
    }
}

pub(crate) fn after_arrival(host: &Host, index: usize, arriving: &Arriving) -> Result<(), Violation> {
    match &arriving.void {
        Some((why, before)) if *before != digests(host) => {
            let detail = format!("{} took a message for its shards, although {why}", host_name(index));
            Err(broken("old lives", detail))
        }
        Some(_) | None => Ok(()),
    }
}
