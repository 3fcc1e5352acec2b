//! Rules 3 and 6: an entry is committed, a bucket served and a read confirmed only when every member of the epoch has
//! acknowledged it in that epoch and really holds it, when there are at least `min_copies` of them, and when nobody
//! else is eligible.

use super::Actor;
use super::broken;
use super::copies::{Copies, is_known_damaged, replica};
use super::edicts::Office;
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::View;
use atoll_types::{BucketId, Entries, Epoch, Offset};

const RULE: &str = "all members";

/// Every member has acknowledged, in this epoch, all up to `offset`.
/// A read is confirmed by a round that every member has acknowledged.
pub(crate) fn all_saw_round(
    copies: &Copies,
    actor: &Actor,
    office: &Office,
    (bucket, epoch): (BucketId, Epoch),
    round: u64,
) -> Result<(), Violation> {
    for &member in office.members.keys().filter(|&&member| member != office.primary) {
        let seen = copies.round(actor.cluster, bucket, epoch, member);
        if seen < round {
            let name = host_name(actor.host);
            let detail = format!("{name} answers a read of bucket {bucket} by round {round}; {member} saw {seen}");
            return Err(broken(RULE, detail));
        }
    }
    Ok(())
}

pub(crate) fn all_acknowledged(
    copies: &Copies,
    hosts: &[Host],
    actor: &Actor,
    office: &Office,
    (bucket, epoch): (BucketId, Epoch),
    offset: Offset,
) -> Result<(), Violation> {
    let name = host_name(actor.host);
    if office.members.len() < office.min_copies {
        let detail = format!("{name} serves bucket {bucket} in epoch {epoch} with too few members: {office:?}");
        return Err(broken("min copies", detail));
    }
    // In the step in which a node begins its next life, a shard may still carry out what it was told in the one before.
    let is_of = |view: &View<'_>| view.identity.is_some_and(|identity| identity.incarnation == actor.incarnation);
    let decided = hosts[actor.host].view().filter(is_of).map(|view| view.decided);
    if office.may_commit.is_none_or(|since| decided.is_some_and(|decided| decided < since)) {
        let detail = format!("{name} serves bucket {bucket} in epoch {epoch}, and others are eligible: {office:?}");
        return Err(broken("min copies", detail));
    }
    for &member in office.members.keys().filter(|&&member| member != office.primary) {
        let acked = copies.acked(actor.cluster, bucket, epoch, member);
        if acked.is_none_or(|acked| acked < offset) {
            let detail =
                format!("{name} takes {offset} of bucket {bucket} as held by all in {epoch}; {member} said {acked:?}");
            return Err(broken(RULE, detail));
        }
    }
    Ok(())
}

/// Every member that is still in this epoch holds the entry.
pub(crate) fn all_hold(
    copies: &Copies,
    hosts: &[Host],
    actor: &Actor,
    office: &Office,
    (bucket, epoch): (BucketId, Epoch),
    (offset, entry): (Offset, &Entries),
) -> Result<(), Violation> {
    for &member in office.members.keys() {
        let Some(bearer) = hosts.iter().position(|host| host.identity() == Some((actor.cluster, member))) else {
            continue; // It is gone for good; it has acknowledged.
        };
        if lacks(copies, hosts, bearer, (bucket, epoch), (offset, entry)) {
            let (name, other) = (host_name(actor.host), host_name(bearer));
            let held = copies.safely_held(bearer, bucket);
            let held = held.map_or("nothing".to_owned(), |held| format!("all up to {}", held.last()));
            let detail = format!(
                "{name} commits {offset} of bucket {bucket} in {epoch}; {other} ({member}) lacks it and has {held}"
            );
            return Err(broken(RULE, detail));
        }
    }
    Ok(())
}

/// In a later epoch a copy may have been purged or replaced: what it held then no longer matters.
fn lacks(
    copies: &Copies,
    hosts: &[Host],
    bearer: usize,
    (bucket, epoch): (BucketId, Epoch),
    (offset, entry): (Offset, &Entries),
) -> bool {
    if hosts[bearer].config.durable {
        // What was acknowledged and then damaged on the disk does not take the acknowledgement back. The copy says so
        // through the cluster log, which makes a new epoch.
        let held = copies.safely_held(bearer, bucket);
        return copies.safely_seen(bearer, bucket) == epoch
            && !held.is_some_and(|held| held.holds(offset, entry))
            && !is_known_damaged(&hosts[bearer], bucket);
    }
    let present = replica(&hosts[bearer], bucket).filter(|replica| replica.seen() == epoch);
    present.is_some_and(|replica| match replica.log().get(offset) {
        Some(held) => Some(held) != entry.first(),
        None => replica.log().base().offset < offset,
    })
}
