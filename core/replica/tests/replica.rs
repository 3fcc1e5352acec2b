//! The rules of the bucket log, each in a story of a few messages.

mod common;

use atoll_replica::message::Body;
use atoll_replica::{Event, Outcome};
use atoll_types::{Duty, NodeId, Report, Series, SessionId, SessionUse, Time};
use common::{BUCKET, Trio, epoch};
use std::time::Duration;

fn three() -> Trio {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    trio
}

fn done(trio: &Trio, ticket: u64) -> Option<(u64, bool)> {
    let outcome = trio.outcome(ticket)?;
    let Outcome::Done { position, duplicate, .. } = outcome else { panic!("ticket {ticket} came to {outcome:?}") };
    Some((position.mark.offset.0, *duplicate))
}

fn settled(duty: Duty) -> Duty {
    Duty { settled: true, ..duty }
}

#[test]
fn a_write_is_done_when_every_member_holds_it() {
    let mut trio = three();
    assert!(trio.write(1, 1, None, "a"));
    trio.run_without(&[3]);
    assert_eq!(trio.outcome(1), None, "one member has not answered");
    trio.pass(Duration::from_millis(60));
    trio.run();
    assert_eq!(done(&trio, 1), Some((1, false)));
    trio.pass(Duration::from_millis(5));
    trio.run();
    assert_eq!(trio.replica(2).committed(), trio.replica(1).committed(), "the commit index came by itself");
}

#[test]
fn an_epoch_serves_only_after_every_member_has_acknowledged_it() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    assert!(!trio.write(1, 1, None, "a"));
    trio.run();
    assert!(trio.replica(1).is_serving());
    assert!(trio.reports.contains(&(NodeId(1), Report::Settled { bucket: BUCKET, epoch: epoch(10) })));
}

#[test]
fn a_usurper_keeps_all_it_holds_and_the_others_are_cut_or_filled() {
    let mut trio = three();
    for ticket in 1..=3 {
        trio.write(1, ticket, None, "kept");
    }
    // Node 2 gets all of it, node 3 nothing; then node 1 is gone, and node 2 usurps.
    trio.run_without(&[3]);
    assert_eq!((trio.last(2), trio.last(3)), (3, 0));
    let next = Trio::duty(20, 2, &[2, 3], &[]);
    trio.appoint(2, &next);
    trio.appoint(3, &next);
    trio.run_without(&[1]);
    assert_eq!((trio.last(2), trio.last(3)), (3, 3));
    assert_eq!(trio.replica(2).committed().0, 3, "what was written is committed by the usurper");
}

#[test]
fn what_the_new_primary_lacks_is_cut_and_its_caller_told_once_the_epoch_serves() {
    let mut trio = three();
    trio.write(1, 1, None, "lost");
    trio.flying.clear();
    let next = Trio::duty(20, 2, &[1, 2, 3], &[]);
    trio.appoint_all(&next);
    assert_eq!(trio.outcome(1), None);
    trio.run();
    trio.pass(Duration::from_millis(5));
    trio.run();
    assert_eq!(trio.outcome(1), Some(&Outcome::Cut));
    assert_eq!(trio.last(1), 0);
    assert!(trio.write(2, 2, None, "next"));
    trio.run();
    assert_eq!(done(&trio, 2), Some((1, false)));
}

#[test]
fn a_write_under_way_at_an_abdication_is_answered_by_its_fate() {
    let mut trio = three();
    trio.write(1, 1, None, "kept");
    trio.run_without(&[3]);
    trio.appoint_all(&Trio::duty(20, 2, &[1, 2, 3], &[]));
    trio.run();
    trio.pass(Duration::from_millis(5));
    trio.run();
    assert_eq!(done(&trio, 1), Some((1, false)), "the old primary learns it as a member");
}

#[test]
fn a_removed_primary_cannot_say_what_became_of_its_writes() {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    trio.appoint(1, &Trio::duty(20, 2, &[2, 3], &[]));
    assert_eq!(trio.outcome(1), Some(&Outcome::Unknown));
}

/// A primary hands over and is let go before the next one tells what is committed. What becomes of a write that had
/// reached the others, and of one that had not?
fn fates_of_a_primary_that_leaves(has_settled: bool, may_commit: bool, leases: bool) -> [Option<Outcome>; 2] {
    let mut trio = three();
    trio.sides.values_mut().for_each(|side| side.sink.leases = leases);
    trio.write(1, 1, None, "kept");
    trio.run_without(&[3]);
    trio.write(1, 2, None, "cut");
    trio.flying.clear();
    let next = Duty { may_commit, ..Trio::duty(20, 2, &[1, 2, 3], &[]) };
    trio.appoint_all(&next);
    trio.run();
    assert_eq!((trio.outcome(1), trio.outcome(2)), (None, None), "it is not told yet");
    if has_settled {
        trio.appoint_all(&settled(next));
    }
    trio.flying.clear();
    trio.appoint_all(&Trio::duty(30, 2, &[2, 3], &[]));
    assert_eq!(trio.replica(1).committed().0, u64::from(has_settled && may_commit && !leases));
    [trio.outcome(1).cloned(), trio.outcome(2).cloned()]
}

#[test]
fn a_primary_that_hands_over_and_leaves_tells_its_callers_what_a_settled_epoch_shows() {
    let [kept, cut] = fates_of_a_primary_that_leaves(true, true, false);
    assert!(matches!(kept, Some(Outcome::Done { duplicate: false, .. })), "{kept:?}");
    assert_eq!(cut, Some(Outcome::Cut));
    let unknown = Some(Outcome::Unknown);
    let [kept, cut] = fates_of_a_primary_that_leaves(true, true, true);
    assert_eq!((kept, cut), (unknown.clone(), Some(Outcome::Cut)), "its successor may be waiting for a lease");
    let neither = [unknown.clone(), unknown];
    assert_eq!(
        fates_of_a_primary_that_leaves(false, true, false),
        neither,
        "another may lead next, with other entries"
    );
    assert_eq!(fates_of_a_primary_that_leaves(true, false, false), neither, "too few copies, or an eligible one more");
}

#[test]
fn a_read_needs_a_round_that_began_after_it() {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    // The acknowledgements of this write were sent before the read came.
    trio.read(1, 2);
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for flying in trio.flying.drain(..) {
        let of_the_read = matches!(&flying.2.body, Body::Write(write) if write.confirm);
        if of_the_read { late.push(flying) } else { early.push(flying) }
    }
    assert_eq!(late.len(), 2, "the read has a round of its own");
    trio.flying.extend(early);
    trio.run();
    assert!(done(&trio, 1).is_some());
    assert_eq!(trio.outcome(2), None);
    trio.flying.extend(late);
    trio.run();
    assert_eq!(done(&trio, 2), Some((1, false)), "and it sees the write before it");
}

#[test]
fn one_round_serves_all_waiting_reads() {
    let mut trio = three();
    let now = trio.now;
    let side = trio.sides.get_mut(&NodeId(1)).expect("the node is there");
    for ticket in 1..=5 {
        assert!(side.replica.read(now, &mut side.sink, atoll_replica::Ticket(ticket), Default::default()));
    }
    trio.flush(NodeId(1));
    assert_eq!(trio.flying.len(), 2, "one message to each member");
    trio.run();
    assert!((1..=5).all(|ticket| done(&trio, ticket) == Some((0, false))));
}

#[test]
fn a_member_that_has_seen_a_later_epoch_refuses_the_old_primary() {
    let mut trio = three();
    trio.appoint(2, &Trio::duty(20, 2, &[2, 3], &[]));
    trio.flying.clear();
    trio.write(1, 1, None, "a");
    trio.read(1, 2);
    trio.run_without(&[3]);
    assert!(!trio.replica(1).is_serving(), "it was told of the later epoch");
    assert_eq!((trio.outcome(1), trio.outcome(2)), (None, None));
    assert_eq!(trio.replica(1).seen(), epoch(20));
}

#[test]
fn a_message_of_an_epoch_that_is_not_known_yet_waits_for_it() {
    let mut trio = three();
    let next = Trio::duty(20, 2, &[1, 2, 3], &[]);
    trio.appoint(2, &next);
    trio.run();
    assert!(!trio.replica(2).is_serving());
    trio.appoint(1, &next);
    trio.appoint(3, &next);
    trio.run();
    assert!(trio.replica(2).is_serving(), "what was held is answered now");
}

#[test]
fn one_that_catches_up_gets_a_snapshot_in_pieces_then_the_log_and_is_ready() {
    let mut trio = Trio::new(4, false);
    let duty = Trio::duty(10, 1, &[1, 2, 3], &[]);
    (1..=3).for_each(|node| trio.appoint(node, &duty));
    trio.run();
    for ticket in 1..=100 {
        trio.write(1, ticket, None, &format!("command {ticket}"));
        trio.run();
    }
    assert!(trio.replica(1).log().base().offset.0 > 0, "the beginning is trimmed");
    let duty = settled(Trio::duty(10, 1, &[1, 2, 3], &[4]));
    trio.appoint_all(&duty);
    let mut pieces = 0;
    for _ in 0..2000 {
        let Some((from, to, message)) = trio.flying.pop_front() else { break };
        pieces += usize::from(matches!(message.body, Body::Piece(_)));
        if pieces == 20 {
            trio.write(1, 500, None, "while it is copied");
        }
        trio.deliver(from, to, message);
    }
    assert!(pieces > 20, "{pieces} pieces");
    trio.pass(Duration::from_millis(5));
    trio.run();
    assert!(trio.reports.contains(&(NodeId(1), Report::Ready { bucket: BUCKET, epoch: epoch(10), node: NodeId(4) })));
    assert_eq!(trio.replica(4).copy().digest(), trio.replica(1).copy().digest());
    assert!(trio.events.iter().any(|(node, event)| *node == NodeId(4) && matches!(event, Event::Installed { .. })));
}

#[test]
fn a_transfer_goes_on_where_it_stopped_when_pieces_are_lost() {
    let mut trio = Trio::new(4, false);
    let duty = Trio::duty(10, 1, &[1, 2, 3], &[]);
    (1..=3).for_each(|node| trio.appoint(node, &duty));
    trio.run();
    for ticket in 1..=50 {
        trio.write(1, ticket, None, &format!("command {ticket}"));
        trio.run();
    }
    trio.appoint_all(&settled(Trio::duty(10, 1, &[1, 2, 3], &[4])));
    let mut seen = 0;
    for _ in 0..5000 {
        match trio.flying.pop_front() {
            Some((from, to, message)) => {
                seen += 1;
                if seen % 3 != 0 {
                    trio.deliver(from, to, message);
                }
            }
            None if trio.replica(4).copy().applied.offset.0 == 50 => break,
            None => trio.pass(Duration::from_millis(60)),
        }
    }
    assert_eq!(trio.replica(4).copy().digest(), trio.replica(1).copy().digest());
}

#[test]
fn a_node_that_returns_with_its_own_copy_gets_only_what_it_lacks() {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    trio.run();
    trio.appoint_all(&Trio::duty(20, 1, &[1, 2], &[]));
    trio.run();
    trio.write(1, 2, None, "b");
    trio.run();
    trio.appoint_all(&settled(Trio::duty(20, 1, &[1, 2], &[3])));
    trio.run();
    assert_eq!(trio.last(3), 2);
    assert!(!trio.events.iter().any(|(_, event)| matches!(event, Event::Installed { .. })), "no snapshot was needed");
}

/// Whether one that missed so many entries, which is more than a log keeps otherwise, needs a snapshot.
fn is_copied_after_an_absence(short: bool) -> bool {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    trio.run();
    trio.appoint_all(&settled(Duty { short, ..Trio::duty(20, 1, &[1, 2], &[]) }));
    trio.run();
    for ticket in 2..=50 {
        trio.write(1, ticket, None, "b");
        trio.run();
    }
    trio.appoint_all(&settled(Duty { short, ..Trio::duty(20, 1, &[1, 2], &[3]) }));
    trio.run();
    assert_eq!(trio.last(3), 50);
    trio.events.iter().any(|(_, event)| matches!(event, Event::Installed { .. }))
}

#[test]
fn while_copies_are_missing_the_log_is_kept_longer_for_whoever_returns() {
    assert!(!is_copied_after_an_absence(true));
    assert!(is_copied_after_an_absence(false));
}

#[test]
fn below_the_least_number_of_copies_nothing_commits_and_nothing_is_read() {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    trio.flying.clear();
    trio.appoint_all(&Trio::duty(20, 1, &[1], &[]));
    trio.run();
    assert!(!trio.replica(1).is_serving());
    assert_eq!((trio.replica(1).committed().0, trio.last(1)), (0, 1), "not even what was inherited");
}

#[test]
fn a_session_makes_a_write_count_once_also_at_the_next_primary() {
    let usage = |series| {
        let session = SessionId { opened: Time(1_000_000), token: 7, counter: Default::default() };
        Some(SessionUse { session, series: Series(series), floor: Series(1), attempt: 0 })
    };
    let mut trio = three();
    trio.write(1, 1, usage(1), "once");
    trio.write(1, 2, usage(1), "once");
    trio.run();
    assert_eq!((done(&trio, 1), done(&trio, 2)), (Some((1, false)), Some((1, true))));
    trio.pass(Duration::from_millis(5));
    trio.run();
    trio.appoint_all(&Trio::duty(20, 2, &[2, 3], &[]));
    trio.run_without(&[1]);
    trio.write(2, 3, usage(1), "once");
    trio.run_without(&[1]);
    assert_eq!(done(&trio, 3), Some((1, true)), "the answer is the first, with its place");
}

#[test]
fn on_a_disk_nothing_is_acknowledged_before_it_is_safe() {
    let mut trio = Trio::new(3, true);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    trio.write(1, 1, None, "a");
    while let Some((from, to, message)) = trio.flying.pop_front() {
        trio.deliver(from, to, message);
    }
    trio.sync(2);
    trio.sync(3);
    while let Some((from, to, message)) = trio.flying.pop_front() {
        trio.deliver(from, to, message);
    }
    assert_eq!(trio.outcome(1), None, "the primary's own disk counts");
    trio.sync(1);
    assert_eq!(done(&trio, 1), Some((1, false)));
}

#[test]
fn a_member_that_does_not_answer_is_complained_of() {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    trio.run_without(&[3]);
    for _ in 0..30 {
        trio.pass(Duration::from_millis(50));
        trio.run_without(&[3]);
    }
    let complaint = Report::Complain { bucket: BUCKET, epoch: epoch(10), about: NodeId(3) };
    assert!(trio.reports.contains(&(NodeId(1), complaint)));
}

#[test]
fn a_quiet_bucket_says_nothing() {
    let mut trio = three();
    trio.write(1, 1, None, "a");
    trio.run();
    trio.appoint_all(&settled(Trio::duty(10, 1, &[1, 2, 3], &[])));
    trio.pass(Duration::from_millis(5));
    trio.run();
    for node in 1..=3 {
        let settings = common::settings(false);
        assert_eq!(trio.replica(node).due(&settings), Time::NEVER, "node {node} has nothing to wait for");
    }
}
