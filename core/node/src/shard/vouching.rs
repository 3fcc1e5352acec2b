//! Nodes vouch for each other: one answer of each member confirms the reads of all buckets.
//!
//! A read is confirmed when every member of its bucket has shown, after the read came, that it had not heard of a later
//! epoch. An epoch is an edict, and edicts have slots. So a member tells the slot of the latest edict that its shard
//! has heard of, in its table or from anybody. Where the table here is at least of that slot, every edict that the
//! member can have heard of is known here, and whoever is still primary here has not been replaced by any of them.
//!
//! ```text
//!   primary of some buckets                         member of these buckets
//!     reads come
//!     Vouch 7 ────────────────────────────────────────▶ latest edict heard of: slot 812
//!     table as of slot 812 or later ◀──────────────── Vouched 7, slot 812
//!     all reads that came before Vouch 7 are answered, once all other members have vouched as well
//! ```
//!
//! An earlier life of the member may have heard of more. It counts in its present life only once that stands in the
//! table here, behind everything that the life before can have heard of. So after somebody's life has changed nobody's
//! word is taken before the next table, or the word that there is none.
//!
//! Whoever has heard of more than is known here, or has other shards, or is silent, does not hold up reads for long:
//! their buckets then ask by rounds of their own, which also tell who does not answer.

use super::Shard;
use super::message::{ShardMessage, Vouch, Vouched};
use atoll_types::{Bug, Latest, NodeId, planted};

impl Shard {
    /// Asks whoever some read waits for.
    pub(super) fn send_vouches(&mut self) {
        if let Some((number, nodes)) = self.sink.vouchers.ask(self.now) {
            let (shard, shards) = (self.index as u16, self.config.shards as u16);
            for node in nodes {
                self.send(node, ShardMessage::Vouch(Vouch { number, shard, shards }));
            }
        }
        while let Some(((node, _), vouch)) = self.to_vouch.pop_first() {
            let latest = self.latest().filter(|_| usize::from(vouch.shards) == self.config.shards);
            let vouched = Vouched { number: vouch.number, shard: vouch.shard, latest };
            self.send(node, ShardMessage::Vouched(vouched));
        }
    }

    /// The latest edict that this shard has heard of.
    fn latest(&self) -> Option<Latest> {
        let table = self.table_as_of?;
        Some(if planted(Bug::VouchedUnheard) { Latest::default() } else { table.max(self.sink.latest) })
    }

    /// Answered with all else that goes out: that is later, and so as good.
    pub(super) fn on_vouch(&mut self, from: NodeId, vouch: Vouch) {
        let known = self.to_vouch.entry((from, vouch.shard)).or_insert_with(|| vouch.clone());
        if vouch.number > known.number {
            *known = vouch;
        }
    }

    pub(super) fn on_vouched(&mut self, from: NodeId, vouched: &Vouched) {
        let knows_all =
            |latest| self.table_as_of.is_some_and(|table| latest <= table) || planted(Bug::VouchTakenBehind);
        let vouches = vouched.latest.is_some_and(knows_all);
        if !self.sink.vouchers.on_answer(from, vouched.number, vouches) {
            return;
        }
        if vouched.latest.is_none() {
            self.sink.vouchers.set_unable(from);
        }
        self.confirm_reads(!vouches);
    }

    /// Those whose questions stay unanswered ask by themselves.
    pub(super) fn give_up_vouches(&mut self) {
        if self.sink.vouchers.give_up(self.now, self.config.timing.replica_retry) {
            self.confirm_reads(true);
        }
    }

    /// Whose life has changed, in what is told of the others. What the life before asked is not answered to this one,
    /// which counts its own questions.
    pub(super) fn distrust(&mut self, changed: &[NodeId]) {
        self.sink.vouchers.distrust(changed);
        self.to_vouch.retain(|(node, _), _| !changed.contains(node));
        self.confirm_reads(true);
    }

    fn confirm_reads(&mut self, ask: bool) {
        for bucket in super::sorted_once(self.sink.vouchers.take_waiting()) {
            let Some(replica) = self.replicas.get_mut(&bucket) else { continue };
            replica.on_vouched(self.now, &mut self.sink, ask);
            self.carry_out();
            if ask {
                self.dirty.push(bucket);
            }
            // Those that found no room among the reads that waited.
            self.resume(bucket);
        }
    }
}
