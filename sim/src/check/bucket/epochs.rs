//! Rules 1, 2 and 8: nobody acts in an epoch lower than the highest it has seen, nor, with a disk, before the disk
//! knows that epoch; only the primary of an epoch, in the life that was appointed, speaks for it, commits and serves in
//! it; only those whom it names answer; and nobody acknowledges what it does not hold.

use super::copies::{Copies, replica};
use super::edicts::{Edicts, Office};
use super::{Actor, broken};
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::Envelope;
use atoll_replica::Message;
use atoll_replica::message::Body;
use atoll_types::{BucketId, ClusterId, Epoch, Offset};
use std::collections::BTreeMap;

const RULE: &str = "epoch";

/// A replica is about to do something that counts in this epoch.
pub(crate) fn may_act(
    copies: &Copies,
    hosts: &[Host],
    host: usize,
    bucket: BucketId,
    epoch: Epoch,
    what: &str,
) -> Result<(), Violation> {
    let name = host_name(host);
    if !hosts[host].config.durable {
        let seen = copies.last(host, bucket).seen;
        if epoch < seen {
            let detail = format!("{name} {what} in epoch {epoch} of bucket {bucket}, and has seen {seen}");
            return Err(broken(RULE, detail));
        }
        return Ok(());
    }
    let seen = copies.safely_seen(host, bucket);
    if epoch != seen {
        let detail = format!("{name} {what} in epoch {epoch} of bucket {bucket}, and its disk knows {seen}");
        return Err(broken(RULE, detail));
    }
    Ok(())
}

pub(crate) fn on_send(
    edicts: &Edicts,
    copies: &mut Copies,
    hosts: &[Host],
    host: usize,
    envelope: &Envelope,
    message: &Message,
) -> Result<(), Violation> {
    let Message { bucket, epoch, body } = message;
    let (bucket, epoch) = (*bucket, *epoch);
    let from_primary = match body {
        Body::Open(_) | Body::Write(_) | Body::Piece(_) => true,
        Body::Opened(_) | Body::Ack(_) | Body::Got(_) => false,
        Body::Refused(_) => return Ok(()), // That there is a later epoch is true whoever says it.
    };
    may_act(copies, hosts, host, bucket, epoch, "speaks")?;
    let office = edicts.get(envelope.cluster, bucket, epoch);
    let Some(office) = office else {
        let detail = format!("{} speaks in epoch {epoch} of bucket {bucket}, which no edict began", host_name(host));
        return Err(broken(RULE, detail));
    };
    if from_primary != (office.primary == envelope.from) {
        let detail = format!("{} says {message:?} as {}, and it is {office:?}", host_name(host), envelope.from);
        return Err(broken("one primary", detail));
    }
    if let Body::Ack(ack) = body {
        let holds = how_far(copies, hosts, host, bucket);
        if ack.held > holds {
            let name = host_name(host);
            let detail =
                format!("{name} acknowledges {} in bucket {bucket} epoch {epoch}, and holds {holds}", ack.held);
            return Err(broken("acknowledged", detail));
        }
        // What an earlier or later life says than the one that was appointed counts for nothing.
        if office.members.get(&envelope.from) == Some(&envelope.incarnation) {
            copies.on_ack(envelope.cluster, bucket, epoch, envelope.from, ack);
        }
    }
    Ok(())
}

/// How far the copy on this host goes, on its disk where it has one.
fn how_far(copies: &Copies, hosts: &[Host], host: usize, bucket: BucketId) -> Offset {
    if hosts[host].config.durable {
        copies.safely_held(host, bucket).map_or(Offset::ZERO, |held| held.last())
    } else {
        replica(&hosts[host], bucket).map_or(Offset::ZERO, |replica| replica.log().last_offset())
    }
}

/// Beside the primary only a member answers reads, in the life that was appointed, and once the epoch serves.
pub(crate) fn may_answer_beside(
    actor: &Actor,
    office: &Office,
    (bucket, epoch): (BucketId, Epoch),
    serves: bool,
) -> Result<(), Violation> {
    let is_member = office.members.get(&actor.node) == Some(&actor.incarnation);
    if is_member && serves {
        return Ok(());
    }
    let name = host_name(actor.host);
    let detail =
        format!("{name} answers a read of bucket {bucket} in {epoch}, serving {serves}, as {actor:?}: {office:?}");
    Err(broken("beside", detail))
}

/// Who has served or committed in an epoch, and in which life.
#[derive(Debug, Default)]
pub(crate) struct Primaries {
    first: BTreeMap<(ClusterId, BucketId, Epoch), (usize, u32)>,
}

impl Primaries {
    /// The one that serves or commits is the one that was appointed.
    pub(crate) fn on_act<'a>(
        &mut self,
        edicts: &'a Edicts,
        hosts: &[Host],
        actor: &Actor,
        bucket: BucketId,
        epoch: Epoch,
    ) -> Result<&'a Office, Violation> {
        let (host, name) = (actor.host, host_name(actor.host));
        let Some(office) = edicts.get(actor.cluster, bucket, epoch) else {
            let detail = format!("{name} serves bucket {bucket} in epoch {epoch}, which no edict began");
            return Err(broken("one primary", detail));
        };
        let appointed = office.primary == actor.node && office.members.get(&actor.node) == Some(&actor.incarnation);
        if !appointed {
            let detail = format!("{name} serves bucket {bucket} in epoch {epoch} as {actor:?}, of {office:?}");
            return Err(broken("one primary", detail));
        }
        let life = (host, hosts[host].lives);
        let first = *self.first.entry((actor.cluster, bucket, epoch)).or_insert(life);
        if first != life {
            let (other, lives) = (host_name(first.0), first.1);
            let detail = format!("{name} serves bucket {bucket} in epoch {epoch}, and {other} did in its life {lives}");
            return Err(broken("one primary", detail));
        }
        Ok(office)
    }
}
