//! Reads that a member answers beside its primary: when it takes them, and what becomes of them.

mod common;

use atoll_replica::Outcome;
use atoll_types::NodeId;
use common::Trio;
use std::time::Duration;

/// Three members, of which the first is primary; all know that `a` is committed.
fn settled() -> Trio {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    trio.write(1, 1, None, "a");
    trio.run();
    trio.pass(Duration::from_millis(10));
    trio.run();
    let second = trio.sides.get_mut(&NodeId(2)).expect("it is there");
    second.sink.vouchers.trust();
    trio
}

/// The second asks, and these answer.
fn vouch(trio: &mut Trio, nodes: &[u32], ask: bool) {
    let now = trio.now;
    let side = trio.sides.get_mut(&NodeId(2)).expect("it is there");
    let asked = side.sink.vouchers.ask(now);
    for &node in nodes {
        let number = asked.as_ref().map_or(1, |(number, _)| *number);
        side.sink.vouchers.on_answer(NodeId(node), number, true);
    }
    side.replica.on_vouched(now, &mut side.sink, ask);
    trio.flush(NodeId(2));
}

#[test]
fn a_member_answers_once_all_others_have_vouched() {
    let mut trio = settled();
    assert!(trio.read(2, 7));
    assert_eq!(trio.outcome(7), None);
    vouch(&mut trio, &[1], false);
    assert_eq!(trio.outcome(7), None, "the third may lead by now, and the first not know");
    vouch(&mut trio, &[3], false);
    let Some(Outcome::Done { position, payload, .. }) = trio.outcome(7) else { panic!("{:?}", trio.answers) };
    assert_eq!((position.mark.offset.0, payload.as_slice()), (1, &[1][..]));
    assert!(trio.flying.is_empty(), "nothing is asked bucket by bucket");
}

#[test]
fn what_may_be_committed_is_for_the_primary_to_say() {
    let mut trio = settled();
    trio.write(1, 2, None, "b");
    trio.run();
    assert_eq!((trio.last(2), trio.replica(2).committed().0), (2, 1));
    assert!(!trio.read(2, 7), "its caller may know that it is committed");
    trio.pass(Duration::from_millis(10));
    trio.run();
    assert!(trio.read(2, 7), "now this one knows as well");
}

#[test]
fn a_read_that_was_taken_does_not_mind_what_is_written_later() {
    let mut trio = settled();
    assert!(trio.read(2, 7));
    trio.write(1, 2, None, "b");
    trio.run();
    vouch(&mut trio, &[1, 3], false);
    assert!(matches!(trio.outcome(7), Some(Outcome::Done { position, .. }) if position.mark.offset.0 == 1));
}

#[test]
fn nothing_is_answered_beside_a_primary_that_does_not_serve_or_may_not_commit() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.sides.get_mut(&NodeId(2)).expect("it is there").sink.vouchers.trust();
    trio.run_without(&[3]);
    assert!(trio.replica(2).is_following() && !trio.read(2, 7), "the third may hold more that is committed");
    for _ in 0..4 {
        trio.pass(Duration::from_millis(100));
        trio.run();
    }
    assert!(trio.read(2, 7), "now all hold what the epoch began with");
    let mut gated = Trio::duty(10, 1, &[1, 2, 3], &[]);
    gated.may_commit = false;
    trio.appoint(2, &gated);
    assert!(!trio.read(2, 8), "somebody who is no member is eligible");
}

#[test]
fn reads_that_cannot_be_answered_here_go_to_the_primary() {
    let mut trio = settled();
    assert!(trio.read(2, 7));
    vouch(&mut trio, &[1], true);
    assert_eq!(trio.outcome(7), Some(&Outcome::Moved), "somebody is silent");
    assert!(trio.read(2, 8));
    trio.appoint(2, &Trio::duty(11, 3, &[1, 2, 3], &[]));
    assert_eq!(trio.outcome(8), Some(&Outcome::Moved), "the epoch is over");
    vouch(&mut trio, &[1, 3], false);
    assert_eq!(trio.answers.iter().filter(|(ticket, _)| ticket.0 >= 7).count(), 2, "each is told once");
}

#[test]
fn one_that_only_catches_up_answers_nothing() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 3], &[2]));
    trio.run();
    trio.pass(Duration::from_millis(10));
    trio.run();
    trio.sides.get_mut(&NodeId(2)).expect("it is there").sink.vouchers.trust();
    assert!(!trio.read(2, 7), "what is committed need not be here");
}
