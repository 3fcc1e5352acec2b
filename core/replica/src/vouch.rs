//! What other nodes vouch for to the copies of a shard: that no later epoch had reached them. One question and one
//! answer between two nodes are enough for all their buckets, and for every read that came before the question.
//!
//! ```text
//!   reads of any bucket ──▶ wanted of each member ──▶ asked, with a number ──▶ given up to that number
//!                                                        │ refused, or silence
//!                                                        ▼
//!                                          each bucket asks by a round of its own
//! ```
//!
//! Few questions to a node are under way at a time. Whoever comes meanwhile shares the next one: the busier a node is,
//! the more reads share one, and alone nobody waits.
//!
//! Not here: what an answer shows (`Latest`, and `atoll-node`, shard), rounds (`primary.rs`).

use atoll_types::{BucketId, Bug, NodeId, Time, planted};
use std::collections::VecDeque;
use std::time::Duration;

/// Questions to one node that are under way.
const UNDER_WAY_MOST: usize = 2;

#[derive(Debug)]
struct Voucher {
    node: NodeId,
    /// Somebody waits for the next answer.
    wanted: bool,
    /// It cannot, in this life.
    unable: bool,
    /// The highest number it has vouched for.
    given: u64,
    /// Questions it has not answered, and when they were sent.
    under_way: VecDeque<(u64, Time)>,
}

/// Of all nodes that have a copy of a bucket that is read here.
#[derive(Debug, Default)]
pub struct Vouchers {
    /// Whoever answers is known in the life it answers in, by all that is known here.
    trusted: bool,
    /// The number of the last question to anybody.
    asked: u64,
    /// By node.
    list: Vec<Voucher>,
    /// Buckets with reads that wait for an answer. In any order, some perhaps more than once or in vain.
    waiting: Vec<BucketId>,
}

impl Vouchers {
    fn place(&self, node: NodeId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&node, |voucher| voucher.node)
    }

    fn find(&mut self, node: NodeId) -> Option<&mut Voucher> {
        self.place(node).ok().map(|place| &mut self.list[place])
    }

    /// Can all of these vouch, and are there any?
    pub(crate) fn can(&self, mut members: impl Iterator<Item = NodeId> + Clone) -> bool {
        let is_unable = |node: NodeId| self.place(node).is_ok_and(|place| self.list[place].unable);
        self.trusted && members.clone().next().is_some() && !members.any(is_unable)
    }

    /// The number that a read which comes now has to wait for, if all of these can vouch and there are any.
    pub(crate) fn want(&mut self, members: impl Iterator<Item = NodeId> + Clone) -> Option<u64> {
        if !self.can(members.clone()) {
            return None;
        }
        for node in members {
            match self.place(node) {
                Ok(place) => self.list[place].wanted = true,
                Err(place) => {
                    let under_way = VecDeque::new();
                    self.list.insert(place, Voucher { node, wanted: true, unable: false, given: 0, under_way });
                }
            }
        }
        Some(if planted(Bug::VouchedBefore) { self.asked } else { self.asked + 1 })
    }

    pub(crate) fn waits(&mut self, bucket: BucketId) {
        self.waiting.push(bucket);
    }

    /// The highest number this node has vouched for.
    pub(crate) fn given(&self, node: NodeId) -> u64 {
        self.place(node).map_or(0, |place| self.list[place].given)
    }

    /// Whom to ask now, and the number to ask with. Everything that came before this is answered by the answers.
    pub fn ask(&mut self, now: Time) -> Option<(u64, Vec<NodeId>)> {
        let may_be_asked = |voucher: &Voucher| voucher.wanted && voucher.under_way.len() < UNDER_WAY_MOST;
        if !self.list.iter().any(may_be_asked) {
            return None;
        }
        self.asked += 1;
        let mut nodes = Vec::new();
        for voucher in self.list.iter_mut().filter(|voucher| may_be_asked(voucher)) {
            voucher.wanted = false;
            voucher.under_way.push_back((self.asked, now));
            nodes.push(voucher.node);
        }
        Some((self.asked, nodes))
    }

    /// An answer came. False where nobody asked for it, or it came twice.
    pub fn on_answer(&mut self, node: NodeId, number: u64, vouches: bool) -> bool {
        let trusted = self.trusted;
        let Some(voucher) = self.find(node) else { return false };
        if !voucher.under_way.iter().any(|(asked, _)| *asked == number) {
            return false;
        }
        voucher.under_way.retain(|(asked, _)| *asked > number);
        if vouches && trusted {
            voucher.given = voucher.given.max(number);
        }
        true
    }

    /// It cannot.
    pub fn set_unable(&mut self, node: NodeId) {
        if let Some(voucher) = self.find(node) {
            voucher.unable = true;
        }
    }

    /// These are gone, or in another life. Nobody's word is taken until all is known that was decided before that.
    pub fn distrust(&mut self, changed: &[NodeId]) {
        self.trusted = false;
        self.list.retain(|voucher| !changed.contains(&voucher.node));
    }

    pub fn trust(&mut self) {
        self.trusted = true;
    }

    /// Buckets whose reads may go on, or have to ask by themselves. They come back by `waits` if they still wait.
    pub fn take_waiting(&mut self) -> Vec<BucketId> {
        std::mem::take(&mut self.waiting)
    }

    /// When a question has been under way for too long.
    pub fn due(&self, patience: Duration) -> Time {
        let oldest = self.list.iter().filter_map(|voucher| voucher.under_way.front());
        oldest.map(|(_, since)| *since + patience).min().unwrap_or(Time::NEVER)
    }

    /// Gives up what has been under way for too long. Tells whether there was any.
    pub fn give_up(&mut self, now: Time, patience: Duration) -> bool {
        let mut any = false;
        for voucher in &mut self.list {
            let before = voucher.under_way.len();
            voucher.under_way.retain(|(_, since)| *since + patience > now);
            any |= voucher.under_way.len() < before;
        }
        any
    }

    /// A new life begins: nothing that was asked in the one before is answered in this one.
    pub fn forget(&mut self) {
        *self = Vouchers { asked: self.asked, ..Vouchers::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: NodeId = NodeId(2);
    const Q: NodeId = NodeId(3);
    const PATIENCE: Duration = Duration::from_millis(50);

    fn trusted() -> Vouchers {
        Vouchers { trusted: true, ..Vouchers::default() }
    }

    fn want(vouchers: &mut Vouchers) -> Option<u64> {
        vouchers.want([P, Q].into_iter())
    }

    #[test]
    fn reads_share_a_question_and_those_that_come_later_the_next_one() {
        let mut vouchers = trusted();
        assert_eq!((want(&mut vouchers), want(&mut vouchers)), (Some(1), Some(1)));
        assert_eq!(vouchers.ask(Time(0)), Some((1, vec![P, Q])));
        assert_eq!((vouchers.ask(Time(0)), want(&mut vouchers)), (None, Some(2)), "asked before it came");
        assert_eq!(vouchers.ask(Time(1)), Some((2, vec![P, Q])));
        assert_eq!((want(&mut vouchers), vouchers.ask(Time(2))), (Some(3), None), "two are under way");
        assert!(vouchers.on_answer(P, 2, true));
        assert!(!vouchers.on_answer(P, 1, true), "the later one answered both");
        assert_eq!((vouchers.given(P), vouchers.given(Q)), (2, 0));
        assert_eq!(vouchers.ask(Time(3)), Some((3, vec![P])), "as soon as there is room");
        assert!(vouchers.on_answer(Q, 1, false));
        assert_eq!((vouchers.given(Q), vouchers.ask(Time(4))), (0, Some((4, vec![Q]))));
    }

    #[test]
    fn who_is_silent_is_given_up_and_who_is_unable_is_not_asked() {
        let mut vouchers = trusted();
        assert_eq!(vouchers.want([].into_iter()), None, "there is nobody to ask");
        want(&mut vouchers);
        vouchers.ask(Time(0));
        assert_eq!(vouchers.due(PATIENCE), Time(50_000));
        assert!(!vouchers.give_up(Time(49_999), PATIENCE));
        assert!(vouchers.on_answer(P, 1, true) && vouchers.give_up(Time(50_000), PATIENCE));
        assert_eq!(vouchers.due(PATIENCE), Time::NEVER);
        assert!(!vouchers.on_answer(Q, 1, true), "too late");
        vouchers.set_unable(Q);
        assert_eq!(want(&mut vouchers), None);
        vouchers.distrust(&[Q]);
        assert_eq!(want(&mut vouchers), None, "nobody knows what its life before had heard of");
        vouchers.trust();
        assert_eq!(want(&mut vouchers), Some(2), "in its new life it may be able");
        vouchers.ask(Time(0));
        vouchers.distrust(&[]);
        assert!(vouchers.on_answer(P, 2, true));
        assert_eq!(vouchers.given(P), 1, "asked before, and answered by whom?");
    }
}
