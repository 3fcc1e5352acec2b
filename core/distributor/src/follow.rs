//! Primaries go where requests come in: a client that knows one node has everything passed on that this node does not
//! lead, and each of them pays a round trip and the work of two nodes for it.
//!
//! ```text
//!            sought at X, a member            sought at nobody, or X leads no more
//!  led by H ─────────────────────▶ lent to X ─────────────────────────────────────▶ led by H
//! ```
//!
//! Who it was lent by still counts as its leader where leads are levelled out. So a node that many buckets are lent to
//! is not relieved of others for it, and what comes back needs no leveling.
//!
//! Not here: when a bucket counts as sought somewhere (`atoll-node`, `shard/sought.rs`).

use crate::orders::Survey;
use atoll_types::{Bug, NodeId, Step, planted};

/// So many buckets pause at a time, each for a moment.
const WIDTH: usize = 16;

impl Survey<'_> {
    /// Buckets that should be led elsewhere: where they are sought, or at home again.
    pub(crate) fn follow(&self) -> Vec<Step> {
        let steps = self.idle.iter().filter_map(|bucket| {
            let to = if bucket.sought_at.is_nobody() { bucket.home } else { bucket.sought_at };
            let wanted = !to.is_nobody() && to != bucket.primary();
            let keeps = planted(Bug::LentForEver) && to == bucket.home;
            if !wanted || keeps || !bucket.settled || bucket.splitting || bucket.split_wanted {
                return None;
            }
            let may = self.may_take_over(to) && bucket.is_eligible(to) && !self.is_cut_off(to, bucket.members());
            may.then(|| Step::Abdicate { bucket: bucket.id(), epoch: bucket.epoch(), to })
        });
        steps.take(WIDTH).collect()
    }

    fn may_take_over(&self, node: NodeId) -> bool {
        self.sites.find(node).is_some_and(|place| self.sites.list[place].may_lead)
    }
}
