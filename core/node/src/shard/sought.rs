//! At which node the requests for a bucket come in, as its primary counts them: it may be led from there.
//!
//! ```text
//!   window │ n2 n2 n1 n2 n2 n2 │ n2 n2 n2 n2 n1 n2 │ …     nearly all at n2, twice in a row: sought at n2
//! ```
//!
//! A request that is equal to the one that leads the count adds to its lead, any other takes from it: so a lead of
//! three quarters of all shows that at least as many came in there, whatever the order, and nothing is kept but one
//! name and one number. To stay where it is lent a bucket needs less than to go there, and stays for a while in any
//! case: clients that come by turns must not drag it along.
//!
//! Not here: what follows from it (`atoll-distributor`, `follow.rs`).

use super::Shard;
use super::bucket_map::BucketMap;
use super::lane::Caller;
use atoll_types::{BucketId, Epoch, NodeId, Report, Time};
use std::time::Duration;

/// A window with too few requests says nothing, however long it is: after so many times its length a new one begins.
const WINDOWS_MOST: u32 = 10;
/// For so many windows a bucket stays where it was lent.
const STAY: u32 = 10;

/// Of a bucket that is led here.
#[derive(Clone, Copy, Debug)]
struct Count {
    epoch: Epoch,
    /// When the first request in this epoch came.
    begun: Time,
    /// When this window began.
    since: Time,
    requests: u32,
    /// lead ≤ requests.
    lead: u32,
    leads: NodeId,
    /// What the window before this one said.
    before: Option<NodeId>,
}

impl Count {
    fn begin(now: Time, epoch: Epoch) -> Count {
        Count { epoch, begun: now, since: now, requests: 0, lead: 0, leads: NodeId::NOBODY, before: None }
    }

    fn begin_window(&mut self, now: Time, before: Option<NodeId>) {
        (self.since, self.requests, self.lead, self.before) = (now, 0, 0, before);
    }

    fn add(&mut self, node: NodeId) {
        self.requests += 1;
        if self.lead == 0 {
            self.leads = node;
        }
        if self.leads == node {
            self.lead += 1;
        } else {
            self.lead -= 1;
        }
    }

    /// Where nearly all came in; nobody where they came from all over. It `stays` with less.
    fn verdict(&self, stays: NodeId) -> NodeId {
        let (lead, requests) = (u64::from(self.lead), u64::from(self.requests));
        let needed = if self.leads == stays { requests } else { 3 * requests };
        if 4 * lead >= needed { self.leads } else { NodeId::NOBODY }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sought {
    counts: BucketMap<Count>,
}

impl Sought {
    pub(super) fn forget(&mut self) {
        self.counts.clear();
    }

    /// A request came in at `node`. Where a window ends with it that says the same as the one before: what they say.
    fn count(
        &mut self,
        now: Time,
        window: Duration,
        enough: u32,
        of: (BucketId, Epoch),
        at: Sighting,
    ) -> Option<NodeId> {
        let (bucket, epoch) = of;
        if self.counts.get(&bucket).is_none_or(|count| count.epoch != epoch) {
            self.counts.insert(bucket, Count::begin(now, epoch));
        }
        let count = self.counts.get_mut(&bucket)?;
        count.add(at.node);
        let lasted = now.since(count.since);
        if lasted < window {
            return None;
        }
        if count.requests < enough {
            if lasted >= window * WINDOWS_MOST {
                count.begin_window(now, None);
            }
            return None;
        }
        let verdict = count.verdict(at.stays);
        let again = count.before == Some(verdict);
        count.begin_window(now, Some(verdict));
        let settled = at.stays.is_nobody() || now.since(count.begun) >= window * STAY;
        (again && settled).then_some(verdict)
    }
}

/// Where a request came in, and where the bucket is lent, if it is.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    node: NodeId,
    stays: NodeId,
}

impl Shard {
    /// The copy here took a request. Counts it if it is the primary's.
    pub(super) fn note_request(&mut self, bucket: BucketId, caller: Caller) {
        let (window, enough) = (self.config.timing.follow, self.config.limits.follow);
        let me = self.me();
        let Some(duty) = self.table.get(&bucket).filter(|duty| duty.appointment.primary == me) else { return };
        let node = match caller {
            Caller::Here(_) => me,
            Caller::Hop { origin, .. } => origin,
        };
        let (epoch, known) = (duty.appointment.epoch, duty.sought_at);
        let stays = if known == me { me } else { NodeId::NOBODY };
        let of = (bucket, epoch);
        let Some(at) = self.sought.count(self.now, window, enough, of, Sighting { node, stays }) else { return };
        // Requests that come in here need nobody to follow them, and one that is no member cannot lead.
        let leads = at != me || stays == me;
        let at = if leads && duty.appointment.is_member(at) { at } else { NodeId::NOBODY };
        if at != known {
            self.reports.push(Report::Sought { bucket, epoch, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Slot;

    const WINDOW: Duration = Duration::from_micros(100);
    const HERE: NodeId = NodeId(1);

    /// Requests one after another, ten in each window, from these nodes by turns; what was said, and in which window.
    fn said(sought: &mut Sought, windows: std::ops::Range<u64>, from: &[u32], stays: NodeId) -> Vec<(u64, NodeId)> {
        let epoch = Epoch { slot: Slot(1), ..Epoch::ZERO };
        let mut said = Vec::new();
        for step in windows.start * 10..windows.end * 10 {
            let node = NodeId(from[step as usize % from.len()]);
            let of = (BucketId(0), epoch);
            let verdict = sought.count(Time(step * 10), WINDOW, 5, of, Sighting { node, stays });
            said.extend(verdict.map(|verdict| (step / 10, verdict)));
        }
        said
    }

    #[test]
    fn it_is_sought_where_nearly_all_requests_come_in_twice_in_a_row() {
        let mut sought = Sought::default();
        let many = [2; 10];
        assert_eq!(said(&mut sought, 0..3, &many, NodeId::NOBODY).first(), Some(&(2, NodeId(2))));
        let most = [2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2];
        assert!(said(&mut Sought::default(), 0..20, &most, NodeId::NOBODY).iter().all(|(_, at)| *at == NodeId(2)));
        for mixed in [&[1, 2][..], &[1, 2, 3], &[2, 2, 2, 1], &[3, 3, 2]] {
            let said = said(&mut Sought::default(), 0..20, mixed, NodeId::NOBODY);
            assert!(!said.is_empty() && said.iter().all(|(_, at)| at.is_nobody()), "{mixed:?}: {said:?}");
        }
    }

    #[test]
    fn it_stays_with_less_and_for_a_while_in_any_case() {
        let most = [1, 1, 1, 2];
        let stayed = said(&mut Sought::default(), 0..30, &most, HERE);
        assert!(stayed.iter().all(|(_, at)| *at == HERE), "{stayed:?}");
        let gone = said(&mut Sought::default(), 0..30, &[2], HERE);
        assert_eq!(gone.first(), Some(&(u64::from(STAY), NodeId(2))), "{gone:?}");
    }

    #[test]
    fn windows_with_few_requests_say_nothing_and_another_epoch_begins_anew() {
        let mut sought = Sought::default();
        let mut count = |time: u64, slot: u64| {
            let epoch = Epoch { slot: Slot(slot), ..Epoch::ZERO };
            let sighting = Sighting { node: NodeId(2), stays: NodeId::NOBODY };
            sought.count(Time(time), WINDOW, 3, (BucketId(0), epoch), sighting)
        };
        assert!((0..50).all(|step| count(step * 500, 1).is_none()), "two in ten windows are too few");
        let begun = 50 * 500;
        let all: Vec<Option<NodeId>> = (0..40).map(|step| count(begun + step * 10, 2)).collect();
        assert_eq!(all.iter().position(Option::is_some), Some(20), "the second window of the new epoch: {all:?}");
    }
}
