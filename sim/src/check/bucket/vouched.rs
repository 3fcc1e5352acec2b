//! A read that is answered because its members vouched: each of them had not seen a later epoch of the bucket, in this
//! life or one before, when it answered a question that was asked after the read came. That the question was later,
//! `positions.rs` sees.

use super::edicts::Office;
use super::{Actor, broken};
use crate::Violation;
use crate::plan::host_name;
use atoll_node::Envelope;
use atoll_node::shard::message::Vouched as Answer;
use atoll_types::{BucketId, ClusterId, Cookie, Epoch, Generation, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Answers of one node to a shard of another that are remembered. No read waits for so many.
const ANSWERS_MOST: usize = 64;

/// The highest epoch of each bucket.
type Seen = BTreeMap<BucketId, Epoch>;
/// Whoever this id means: where two operators recovered a cluster, not knowing of each other, it means two nodes.
type Member = (ClusterId, Generation, NodeId);
/// Who answered whom, in which life of the asker, and for which of its shards.
type Pair = (Member, (NodeId, Cookie), u16);

#[derive(Debug, Default)]
pub(crate) struct Vouched {
    /// What each node has ever seen, as of the end of its last step.
    seen: BTreeMap<Member, Seen>,
    /// By number, and what had been seen by then.
    answers: BTreeMap<Pair, VecDeque<(u64, Seen)>>,
}

impl Vouched {
    pub(crate) fn note(&mut self, actor: &Actor, generation: Generation, bucket: BucketId, epoch: Epoch) {
        let known = self.seen.entry((actor.cluster, generation, actor.node)).or_default().entry(bucket).or_default();
        *known = (*known).max(epoch);
    }

    pub(crate) fn on_send(&mut self, envelope: &Envelope, answer: &Answer) {
        let member = (envelope.cluster, envelope.generation, envelope.from);
        let seen = self.seen.get(&member).cloned().unwrap_or_default();
        let asker = (envelope.to, envelope.to_cookie);
        let answers = self.answers.entry((member, asker, answer.shard)).or_default();
        answers.push_back((answer.number, seen));
        if answers.len() > ANSWERS_MOST {
            answers.pop_front();
        }
    }

    /// Every member but the one that answers has shown that it had seen nothing later.
    pub(crate) fn all_had_seen_nothing_later(
        &self,
        (actor, generation): (&Actor, Generation),
        office: &Office,
        (bucket, epoch): (BucketId, Epoch),
        (shard, number): (u16, u64),
    ) -> Result<(), Violation> {
        for &member in office.members.keys().filter(|&&member| member != actor.node) {
            let asker = (actor.node, actor.incarnation.cookie);
            let member = (actor.cluster, generation, member);
            let answers = self.answers.get(&(member, asker, shard));
            let had_not = |seen: &Seen| seen.get(&bucket).is_none_or(|seen| *seen <= epoch);
            let mut counts = answers.into_iter().flatten().filter(|(answered, _)| *answered >= number);
            if !counts.any(|(_, seen)| had_not(seen)) {
                let name = host_name(actor.host);
                let detail = format!(
                    "{name} answers a read of {bucket} in {epoch} by number {number}, which {} did not vouch for",
                    member.2
                );
                return Err(broken("all members", detail));
            }
        }
        Ok(())
    }
}
