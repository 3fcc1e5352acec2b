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
use atoll_types::{BucketId, NodeId, Report, Time};
use std::time::Duration;

/// A window with too few requests says nothing, however long it is: after so many times its length a new one begins.
const WINDOWS_MOST: u32 = 10;
/// For so many windows a bucket stays where it was lent.
const STAY: u32 = 10;

/// Of a bucket that is led here, in this epoch.
#[derive(Clone, Copy, Debug)]
struct Count {
    requests: u32,
    /// lead ≤ requests.
    lead: u32,
    leads: NodeId,
    /// This window does not end before.
    until: Time,
    /// When the first request in this epoch came.
    begun: Time,
    /// What the window before this one said.
    before: Option<NodeId>,
}

impl Count {
    fn begin(now: Time, window: Duration) -> Count {
        let until = now + window;
        Count { requests: 0, lead: 0, leads: NodeId::NOBODY, until, begun: now, before: None }
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

    /// The window may end. Where it does, and says the same as the one before: what they say. `stays`: where the bucket
    /// is lent, if it is.
    fn look(&mut self, now: Time, window: Duration, enough: u32, stays: NodeId) -> Option<NodeId> {
        let verdict = if self.requests >= enough {
            Some(self.verdict(stays))
        } else if now >= self.until + window * (WINDOWS_MOST - 1) {
            None
        } else {
            return None;
        };
        let again = verdict.filter(|_| self.before == verdict);
        (self.requests, self.lead, self.until, self.before) = (0, 0, now + window, verdict);
        let may_go = stays.is_nobody() || now >= self.begun + window * STAY;
        again.filter(|_| may_go)
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

    /// Another epoch begins: what was counted in the one before says nothing of it.
    pub(super) fn begin(&mut self, bucket: BucketId) {
        self.counts.remove(&bucket);
    }
}

impl Shard {
    /// The copy here took a request. Counts it if it is the primary's.
    #[inline]
    pub(super) fn note_request(&mut self, bucket: BucketId, caller: Caller) {
        let Some(count) = self.sought.counts.get_mut(&bucket) else { return self.begin_to_count(bucket, caller) };
        count.add(match caller {
            Caller::Here(_) => self.signature.as_ref().map_or(NodeId::NOBODY, |signature| signature.node),
            Caller::Hop { origin, .. } => origin,
        });
        if self.now >= count.until {
            self.look_where_sought(bucket);
        }
    }

    fn begin_to_count(&mut self, bucket: BucketId, caller: Caller) {
        let window = self.config.timing.follow;
        let leads = self.table.get(&bucket).is_some_and(|duty| duty.appointment.primary == self.me());
        if leads && !window.is_zero() {
            self.sought.counts.insert(bucket, Count::begin(self.now, window));
            self.note_request(bucket, caller);
        }
    }

    fn look_where_sought(&mut self, bucket: BucketId) {
        let (window, enough, me) = (self.config.timing.follow, self.config.limits.follow, self.me());
        let (Some(duty), Some(count)) = (self.table.get(&bucket), self.sought.counts.get_mut(&bucket)) else { return };
        let (epoch, known) = (duty.appointment.epoch, duty.sought_at);
        let stays = if known == me { me } else { NodeId::NOBODY };
        let Some(at) = count.look(self.now, window, enough, stays) else { return };
        // Requests that come in here need nobody to follow them, and one that is no member cannot lead.
        let may_lead = (at != me || stays == me) && duty.appointment.is_member(at);
        let at = if may_lead { at } else { NodeId::NOBODY };
        if at != known {
            self.reports.push(Report::Sought { bucket, epoch, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(100);
    const HERE: NodeId = NodeId(1);

    /// Requests one after another, ten in each window, from these nodes by turns; what was said, and in which window.
    fn said(windows: u64, from: &[u32], stays: NodeId) -> Vec<(u64, NodeId)> {
        let mut count = Count::begin(Time(0), WINDOW);
        let mut said = Vec::new();
        for step in 0..windows * 10 {
            count.add(NodeId(from[step as usize % from.len()]));
            let now = Time(step * 10);
            let verdict = if now >= count.until { count.look(now, WINDOW, 5, stays) } else { None };
            said.extend(verdict.map(|verdict| (step / 10, verdict)));
        }
        said
    }

    #[test]
    fn it_is_sought_where_nearly_all_requests_come_in_twice_in_a_row() {
        assert_eq!(said(3, &[2], NodeId::NOBODY).first(), Some(&(2, NodeId(2))));
        let most = said(20, &[2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2], NodeId::NOBODY);
        assert!(most.iter().all(|(_, at)| *at == NodeId(2)), "{most:?}");
        for mixed in [&[1, 2][..], &[1, 2, 3], &[2, 2, 2, 1], &[3, 3, 2]] {
            let said = said(20, mixed, NodeId::NOBODY);
            assert!(!said.is_empty() && said.iter().all(|(_, at)| at.is_nobody()), "{mixed:?}: {said:?}");
        }
    }

    #[test]
    fn it_stays_with_less_and_for_a_while_in_any_case() {
        let stayed = said(30, &[1, 1, 1, 2], HERE);
        assert!(!stayed.is_empty() && stayed.iter().all(|(_, at)| *at == HERE), "{stayed:?}");
        let gone = said(30, &[2], HERE);
        assert_eq!(gone.first(), Some(&(u64::from(STAY), NodeId(2))), "{gone:?}");
    }

    #[test]
    fn windows_with_few_requests_say_nothing() {
        let mut count = Count::begin(Time(0), WINDOW);
        for step in 0..50 {
            count.add(NodeId(2));
            assert_eq!(count.look(Time(step * 500), WINDOW, 3, NodeId::NOBODY), None, "two in ten windows are too few");
        }
    }
}
