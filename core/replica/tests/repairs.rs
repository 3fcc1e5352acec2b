//! Trouble that a bucket has to get over by itself: steady load, lost news, full memory, copies that were only begun.

mod common;

use atoll_replica::message::Body;
use atoll_replica::{Message, Outcome, restore};
use atoll_types::{Duty, JournalSeq, Mark, NodeId, Report, SlotRange};
use common::{BUCKET, Tally, Trio, epoch};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

fn three(durable: bool) -> Trio {
    let mut trio = Trio::new(3, durable);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    trio.appoint_all(&Duty { settled: true, ..Trio::duty(10, 1, &[1, 2, 3], &[]) });
    trio.run();
    trio.reports.clear();
    trio
}

fn done(trio: &Trio, ticket: u64) -> bool {
    matches!(trio.outcome(ticket), Some(Outcome::Done { .. }))
}

/// Disks that take five milliseconds for a sync, each begun when the one before is done, out of step with each other.
struct Disks {
    syncing: BTreeMap<NodeId, (u64, JournalSeq)>,
}

impl Disks {
    fn turn(&mut self, trio: &mut Trio, moment: u64) {
        for node in trio.sides.keys().copied().collect::<Vec<_>>() {
            let (due, through) = *self.syncing.entry(node).or_insert((u64::from(node.0) * 2, JournalSeq(0)));
            if moment < due {
                continue;
            }
            let now = trio.now;
            let side = trio.sides.get_mut(&node).expect("the node is there");
            side.replica.on_persisted(now, &mut side.sink, through);
            let next = (moment + 5, side.unsafe_through);
            trio.flush(node);
            self.syncing.insert(node, next);
        }
    }
}

#[test]
fn under_steady_load_nobody_who_gets_on_is_complained_of() {
    let mut trio = three(true);
    let mut disks = Disks { syncing: BTreeMap::new() };
    let mut on_their_way: VecDeque<(NodeId, NodeId, Message)> = VecDeque::new();
    for moment in 0..5_000 {
        trio.pass(MILLISECOND);
        assert!(trio.write(1, moment, None, "load"));
        disks.turn(&mut trio, moment);
        // What was sent a millisecond ago arrives.
        for (from, to, message) in std::mem::replace(&mut on_their_way, std::mem::take(&mut trio.flying)) {
            trio.deliver(from, to, message);
        }
        let open = trio.last(1) - trio.replica(1).committed().0;
        assert!(moment < 5 || open > 1, "at {moment} ms all is quiet: the load is not steady");
    }
    assert!(trio.replica(1).committed().0 > 4_900, "it gets on: {:?}", trio.replica(1).committed());
    assert_eq!(trio.reports, [], "everybody is healthy");
}

#[test]
fn a_commit_index_that_was_lost_is_asked_for() {
    let mut trio = three(false);
    trio.write(1, 1, None, "a");
    trio.run();
    assert!(done(&trio, 1));
    assert_eq!(trio.replica(2).committed().0, 0, "the members do not know yet");
    trio.pass(Duration::from_millis(5));
    let news = |message: &Message| matches!(&message.body, Body::Write(write) if write.committed.0 == 1);
    assert_eq!(trio.flying.iter().filter(|(_, _, message)| news(message)).count(), 2, "each is told, without a write");
    trio.flying.clear();
    let committed = |trio: &Trio, node| trio.replica(node).committed().0;
    for passed in [0, 900] {
        trio.pass(Duration::from_millis(passed));
        trio.run();
        assert_eq!((committed(&trio, 2), committed(&trio, 3)), (0, 0), "it is said once");
    }
    // They ask, are told, and so is the next time, if that is lost as well.
    trio.pass(Duration::from_millis(200));
    assert_eq!(trio.flying.len(), 2, "each asks");
    trio.flying.clear();
    trio.pass(Duration::from_millis(1100));
    trio.run();
    trio.pass(Duration::from_millis(5));
    trio.run();
    assert_eq!((committed(&trio, 2), committed(&trio, 3)), (1, 1));
    assert!(trio.reports.is_empty(), "{:?}", trio.reports);
}

#[test]
fn writes_are_taken_again_when_a_member_has_memory_again() {
    let mut trio = three(false);
    let full = |trio: &mut Trio, full| trio.sides.get_mut(&NodeId(2)).expect("the node is there").sink.full = full;
    full(&mut trio, true);
    trio.write(1, 1, None, "the last that is taken");
    trio.run();
    assert!(done(&trio, 1));
    for ticket in 2..10 {
        trio.write(1, ticket, None, "refused");
        trio.run();
        assert_eq!(trio.outcome(ticket), Some(&Outcome::Full), "node 2 has no memory to spare");
    }
    full(&mut trio, false);
    trio.write(1, 10, None, "finds out");
    trio.run();
    trio.write(1, 11, None, "taken again");
    trio.run();
    assert!(done(&trio, 11), "it came to {:?}", trio.outcome(11));
    assert_eq!((trio.last(1), trio.last(2)), (2, 2), "what was refused is nowhere");
}

fn serves_nothing(trio: &mut Trio, node: u32) {
    trio.appoint_all(&Trio::duty(20, node, &[1, 2, 3], &[]));
    trio.run();
    assert!(!trio.replica(node).is_serving());
    assert!(!trio.write(node, 100, None, "nowhere to stand"));
    assert!(!trio.read(node, 101), "what it does not hold may exist elsewhere");
    let damaged = (NodeId(node), Report::Damaged { bucket: BUCKET, epoch: epoch(20) });
    let settled = (NodeId(node), Report::Settled { bucket: BUCKET, epoch: epoch(20) });
    assert!(trio.reports.contains(&damaged), "it says so: {:?}", trio.reports);
    assert!(!trio.reports.contains(&settled), "nobody is made eligible by it");
    // A report may be lost on its way.
    trio.reports.clear();
    trio.pass(Duration::from_millis(1100));
    trio.run();
    assert!(trio.reports.contains(&damaged), "and again: {:?}", trio.reports);
}

fn begin_blank(trio: &mut Trio, node: u32) {
    let side = trio.sides.get_mut(&NodeId(node)).expect("the node is there");
    side.replica.begin(&mut side.sink, SlotRange::ALL, Mark::default(), true);
    trio.flush(NodeId(node));
}

fn restart(trio: &mut Trio, node: u32) {
    let side = trio.sides.get_mut(&NodeId(node)).expect("the node is there");
    let copies = restore(side.records.clone(), &Tally::default(), Duration::from_secs(60));
    side.replica = copies.into_values().next().expect("there is a copy on the disk");
}

#[test]
fn a_copy_that_was_only_begun_serves_nothing_until_it_was_filled() {
    let mut trio = three(true);
    trio.write(1, 1, None, "a");
    trio.run();
    begin_blank(&mut trio, 3);
    serves_nothing(&mut trio, 3);
    assert_eq!((trio.last(1), trio.last(2)), (1, 1), "nobody was cut to what it holds");
    assert!(!trio.replica(3).is_following(), "no stale read is answered from it either");
    // It catches up, and is as good as any.
    begin_blank(&mut trio, 3);
    trio.appoint_all(&Duty { settled: true, ..Trio::duty(30, 1, &[1, 2], &[3]) });
    trio.run();
    trio.appoint_all(&Trio::duty(40, 3, &[1, 2, 3], &[]));
    trio.run();
    assert!(trio.replica(3).is_serving());
    assert_eq!(trio.last(3), 1);
}

#[test]
fn a_copy_that_was_only_begun_serves_nothing_after_a_restart_either() {
    let mut trio = three(true);
    trio.write(1, 1, None, "a");
    trio.run();
    begin_blank(&mut trio, 3);
    trio.sync(3);
    restart(&mut trio, 3);
    serves_nothing(&mut trio, 3);
}

/// Where there is nothing to be filled with, being opened by a primary is as good.
#[test]
fn a_copy_of_an_empty_bucket_is_still_one_after_a_restart() {
    let mut trio = three(true);
    begin_blank(&mut trio, 3);
    trio.sync(3);
    trio.appoint_all(&Trio::duty(20, 1, &[1, 2, 3], &[]));
    trio.run();
    assert!(trio.reports.contains(&(NodeId(1), Report::Settled { bucket: BUCKET, epoch: epoch(20) })));
    restart(&mut trio, 3);
    trio.appoint_all(&Trio::duty(30, 3, &[2, 3], &[]));
    trio.run_without(&[1]);
    assert!(trio.replica(3).is_serving(), "it is eligible, and maybe the last one");
}
