//! Rules 4, 6 and 9: who may serve a bucket, worked out from what the log says by code that shares nothing with the
//! distributor's.
//!
//! **Eligible**: the members of the last settled appointment, less those removed since. A member that is removed while
//! too few remain to commit anything stays eligible until a set that is large enough has settled. What a departed, a
//! forgetful or a damaged node held is gone.
//!
//! Checked at every change: a primary is eligible, and its clock right where that of another eligible member is;
//! a voluntary change of the members waits for `settled`; nobody joins
//! the members but by a union, or because he is eligible and nobody serves; a bucket begins with nothing only once, or
//! by an operator's word; and the distributor says the same of who is eligible.
//!
//! Where too few members are left to commit anything, a union and an abdication do not wait for `settled`: there is
//! nothing to lose, and nobody could ever settle.

use super::broken;
use crate::Violation;
use atoll_distributor::{Bucket, Distributor};
use atoll_types::{BucketId, Epoch, NodeId, Operation, Order, Report, Step};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "eligible";

/// Why appointments change. One entry may hold several causes; each is looked at by itself.
#[derive(Clone, Debug)]
pub(crate) enum Cause<'a> {
    /// Nodes came, went or were restarted; what these held is gone.
    Roster {
        forgotten: BTreeSet<NodeId>,
    },
    Order(&'a Order),
    Report {
        from: NodeId,
        report: &'a Report,
    },
    Operation(&'a Operation),
}

#[derive(Clone, Debug)]
struct Place {
    epoch: Epoch,
    primary: NodeId,
    members: BTreeSet<NodeId>,
    eligible: BTreeSet<NodeId>,
    settled: bool,
    splitting: bool,
}

impl Place {
    fn may_commit(&self, min_copies: usize) -> bool {
        self.members.len() >= min_copies && self.eligible.is_subset(&self.members)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Eligible {
    places: BTreeMap<BucketId, Place>,
}

impl Eligible {
    /// May the primary commit anything? With somebody eligible outside of the members it may not: that one could be
    /// the next primary.
    pub(crate) fn may_commit(&self, bucket: BucketId, min_copies: usize) -> bool {
        self.places.get(&bucket).is_some_and(|place| place.may_commit(min_copies))
    }

    pub(crate) fn is_eligible(&self, bucket: BucketId, node: NodeId) -> bool {
        self.places.get(&bucket).is_some_and(|place| place.eligible.contains(&node))
    }

    /// Nobody is left who could serve the bucket.
    pub(crate) fn is_lost(&self, bucket: BucketId) -> bool {
        self.places.get(&bucket).is_some_and(|place| place.eligible.is_empty())
    }

    pub(crate) fn on_change(&mut self, distributor: &Distributor, cause: &Cause<'_>) -> Result<(), Violation> {
        let min_copies = distributor.min_copies();
        let mut places = BTreeMap::new();
        for (&id, after) in distributor.buckets() {
            let place = match self.places.get(&id) {
                Some(before) => follow(before, after, cause, min_copies)?,
                None => self.appear(after, cause)?,
            };
            let says: BTreeSet<NodeId> = after.eligible.iter().copied().collect();
            if place.eligible != says || place.settled != after.settled {
                let detail = format!("bucket {id} after {cause:?}: it should be {place:?}, and is {after:?}");
                return Err(broken(RULE, detail));
            }
            if !place.primary.is_nobody() && !place.eligible.contains(&place.primary) {
                let detail = format!("bucket {id} after {cause:?}: the primary is not eligible in {place:?}");
                return Err(broken(RULE, detail));
            }
            if let Some(before) = self.places.get(&id)
                && let Some(better) = should_lead(before, &place, distributor, cause)
            {
                let detail =
                    format!("bucket {id} after {cause:?}: the clock of its primary is off, not {better}'s: {place:?}");
                return Err(broken(RULE, detail));
            }
            places.insert(id, place);
        }
        if let Some((id, gone)) = self.places.iter().find(|(id, _)| !places.contains_key(id)) {
            return Err(broken(RULE, format!("bucket {id} is no more after {cause:?}; it was {gone:?}")));
        }
        self.places = places;
        Ok(())
    }

    /// A bucket that was not there: by the first placement, or the upper half of one.
    fn appear(&self, after: &Bucket, cause: &Cause<'_>) -> Result<Place, Violation> {
        let members: BTreeSet<NodeId> = after.members().iter().copied().collect();
        let mut place = Place {
            epoch: after.epoch(),
            primary: after.primary(),
            members: members.clone(),
            eligible: members,
            settled: after.begins.is_some(),
            splitting: false,
        };
        let halved = match cause {
            Cause::Report { report: Report::Divided { bucket, .. }, .. } => self.places.get(bucket),
            Cause::Report { .. } | Cause::Roster { .. } | Cause::Order(_) | Cause::Operation(_) => None,
        };
        match halved {
            Some(whole) if whole.splitting && after.begins.is_none() && place.members == whole.members => {
                place.eligible.clone_from(&whole.eligible);
                Ok(place)
            }
            None if self.places.is_empty() && matches!(cause, Cause::Order(_)) && after.begins.is_some() => Ok(place),
            Some(_) | None => Err(broken(RULE, format!("{cause:?} brings about a bucket: {after:?}"))),
        }
    }
}

/// What becomes of a bucket.
fn follow(before: &Place, after: &Bucket, cause: &Cause<'_>, min_copies: usize) -> Result<Place, Violation> {
    let id = after.id();
    let mut place = before.clone();
    let mut revived = None;
    let mut divided = false;
    let mut strange = false;
    match cause {
        Cause::Roster { forgotten } => place.eligible.retain(|node| !forgotten.contains(node)),
        Cause::Order(order) => strange = !order.steps.iter().any(|step| is_meant(step, id, before.epoch)),
        Cause::Report { from, report } => match report {
            Report::Settled { bucket, epoch } => {
                if *bucket == id && *epoch == before.epoch && *from == before.primary {
                    place.settled = true;
                    if place.members.len() >= min_copies {
                        place.eligible.clone_from(&place.members);
                    }
                }
            }
            Report::Damaged { bucket, epoch } => {
                if *bucket == id && *epoch == before.epoch {
                    place.eligible.remove(from);
                }
            }
            Report::Divided { bucket, .. } => divided = *bucket == id,
            Report::Ready { .. } | Report::Complain { .. } | Report::Sought { .. } => {}
        },
        Cause::Operation(Operation::Revive { bucket, from }) => revived = (*bucket == id).then_some(*from),
        Cause::Operation(_) => {}
    }
    (place.primary, place.splitting) = (after.primary(), after.splitting);
    let members: BTreeSet<NodeId> = after.members().iter().copied().collect();
    if after.epoch() == before.epoch {
        let may_split = !after.splitting || before.splitting || place.settled;
        if members != before.members || after.primary() != before.primary || !may_split {
            let detail = format!("bucket {id}: {cause:?} changes {before:?} to {after:?} in the same epoch");
            return Err(broken(RULE, detail));
        }
        return Ok(place);
    }
    let joins = members.difference(&before.members).any(|node| !before.eligible.contains(node));
    place.epoch = after.epoch();
    place.settled = false;
    if let Some(from) = revived {
        place.eligible = from.map_or_else(|| members.clone(), |node| BTreeSet::from([node]));
        place.settled = from.is_none();
    } else if members.len() >= min_copies {
        place.eligible.retain(|node| members.contains(node) || !before.members.contains(node));
    }
    place.members = members;
    let revives = revived.is_some();
    let voluntary = matches!(cause, Cause::Order(_) | Cause::Operation(Operation::HandOver { .. }));
    let too_early = voluntary && !before.settled && before.members.len() >= min_copies;
    let unlawful = [
        (after.epoch() < before.epoch, "goes back"),
        (
            revives != (after.epoch().revival > before.epoch.revival),
            "is revived without a new generation, or has one without",
        ),
        (after.begins.is_some() && revived != Some(None), "begins with nothing, and no operator said so"),
        (strange, "is changed by an order that was thought out for another epoch"),
        (too_early, "changes before the present epoch has settled"),
        (joins && !voluntary && revived.is_none(), "gets a member by something else than a union"),
        (after.primary().is_nobody() != place.members.is_empty(), "has members without a primary"),
        (divided && !(before.splitting && before.settled), "is divided without a split"),
        (divided && place.members != before.members, "is divided among others than its members"),
    ];
    match unlawful.iter().find(|(broken, _)| *broken) {
        Some((_, what)) => Err(broken(RULE, format!("bucket {id} {what}: {cause:?} makes of {before:?} {after:?}"))),
        None => Ok(place),
    }
}

/// Where somebody has to take over, and its clock is off: somebody else who could have. What the leader plans may go
/// round links that were complained of, and is not looked at here.
fn should_lead(before: &Place, after: &Place, distributor: &Distributor, cause: &Cause<'_>) -> Option<NodeId> {
    let forced = matches!(cause, Cause::Roster { .. } | Cause::Report { .. });
    let skewed = |node: NodeId| distributor.nodes().get(&node).is_some_and(|node| node.standing.skewed);
    if !forced || after.primary == before.primary || !skewed(after.primary) {
        return None;
    }
    let others = after.members.intersection(&after.eligible).copied().filter(|&node| node != before.primary);
    others.into_iter().find(|&node| !skewed(node))
}

/// May this step give the bucket a new epoch, after this one?
fn is_meant(step: &Step, id: BucketId, after: Epoch) -> bool {
    match step {
        Step::Unite { bucket, epoch } | Step::Abdicate { bucket, epoch, .. } | Step::Contract { bucket, epoch, .. } => {
            (*bucket, *epoch) == (id, after)
        }
        Step::Place { .. } | Step::Expand { .. } | Step::Abandon { .. } | Step::Split { .. } => false,
    }
}
