//! A bucket is halved: the lower half keeps the name, the upper half is a new bucket. No data moves.
//!
//! ```text
//!  settled ──Split──▶ splitting ──Divided──▶ two buckets, same members, new epoch
//!                         └── any new epoch: whole again; the wish remains
//! ```

use crate::bucket::Bucket;
use crate::load::Primaries;
use crate::state::{Decided, Distributor};
use atoll_types::{BucketId, Bug, Epoch, NodeId, planted};

impl Distributor {
    pub(crate) fn on_divided(
        &mut self,
        at: Decided,
        from: NodeId,
        id: BucketId,
        epoch: Epoch,
        primaries: &mut Primaries,
    ) {
        let Some(whole) = self.buckets.get_mut(&id) else { return };
        let counts = whole.epoch() == epoch && whole.primary() == from && whole.splitting;
        let Some((lower, upper)) = whole.range.halves().filter(|_| counts) else { return };
        let members = whole.members().to_vec();
        let primary = whole.primary();
        // The upper half goes to another member if that one leads fewer.
        let spare = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.may_lead());
        let leaders: Vec<NodeId> = members.iter().copied().filter(spare).collect();
        let upper_primary = if leaders.is_empty() { primary } else { primaries.fewest(&leaders) };
        primaries.moved(NodeId::NOBODY, upper_primary);
        whole.appoint(at, primary, members.clone());
        whole.range = lower;
        whole.split_wanted = false;
        whole.divided = Some((id, epoch));
        // Every member holds the split, so both halves have the eligible of the whole: its members.
        let mut half = Bucket { range: upper, ..whole.clone() };
        if planted(Bug::UpperHalfForgetsMember) {
            half.eligible.retain(|&node| node == upper_primary);
        }
        half.set_primary(upper_primary);
        let upper = half.id();
        self.buckets.insert(upper, half);
        self.touch(at, id);
        self.touch(at, upper);
    }
}
