//! How old a state is that a copy shows, and who vouches for it.

mod common;

use atoll_replica::message::Body;
use atoll_types::{NodeId, Time};
use common::Trio;
use std::time::Duration;

#[test]
fn a_backup_is_as_fresh_as_what_it_said_last_and_was_answered() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    let begun = trio.now;
    trio.pass(Duration::from_secs(1));
    trio.write(1, 1, None, "a");
    trio.run();
    assert_eq!(trio.replica(2).fresh(), begun, "it acknowledged the opening then");
    // The news that it is committed are long on their way.
    let said = trio.now;
    trio.pass(Duration::from_millis(5));
    let news: Vec<_> = trio.flying.drain(..).collect();
    assert!(news.iter().all(|(_, _, message)| matches!(message.body, Body::Write(_))), "{news:?}");
    trio.pass(Duration::from_secs(3));
    news.into_iter().for_each(|(from, to, message)| trio.deliver(from, to, message));
    assert_eq!(trio.replica(2).committed().0, 1);
    assert_eq!(trio.replica(2).fresh(), said, "not when it heard them");
}

#[test]
fn a_backup_is_not_fresh_before_its_epoch_serves() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    for _ in 0..8 {
        trio.run_without(&[3]);
        trio.pass(Duration::from_millis(100));
    }
    assert!(trio.replica(2).is_following(), "it was opened");
    assert_eq!(trio.replica(2).fresh(), Time::ZERO, "its primary may lack the end of what is committed");
}

#[test]
fn a_lease_answers_without_a_round_and_never_before_the_writes_before_it() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    trio.pass(Duration::from_millis(10));
    trio.run();
    let until = trio.now + Duration::from_secs(1);
    trio.sides.get_mut(&NodeId(1)).expect("it is there").sink.leased_until = until;
    assert!(trio.read(1, 1));
    assert!(trio.outcome(1).is_some() && trio.flying.is_empty(), "nobody was asked");
    trio.write(1, 2, None, "a");
    assert!(trio.read(1, 3));
    assert_eq!(trio.outcome(3), None, "the write before it is not committed");
    trio.run();
    assert!(trio.outcome(3).is_some());
    trio.pass(Duration::from_secs(1));
    trio.run();
    assert!(trio.read(1, 4));
    assert_eq!(trio.outcome(4), None, "the lease is over: it asks");
    trio.run();
    assert!(trio.outcome(4).is_some());
}

#[test]
fn an_epoch_does_not_serve_before_earlier_leases_are_over() {
    let mut trio = Trio::new(3, false);
    let until = trio.now + Duration::from_millis(500);
    trio.sides.get_mut(&NodeId(1)).expect("it is there").replica.wait_for_leases(until);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2, 3], &[]));
    trio.run();
    assert!(!trio.replica(1).is_serving(), "all have acknowledged, and somebody may hold a lease");
    let due = trio.replica(1).due(&common::settings(false));
    assert!(due <= until, "it wakes by itself");
    trio.pass(Duration::from_millis(500));
    trio.run();
    assert!(trio.replica(1).is_serving());
}

#[test]
fn a_read_that_nobody_vouches_for_asks_by_a_round_also_while_somebody_catches_up() {
    let mut trio = Trio::new(3, false);
    trio.appoint_all(&Trio::duty(10, 1, &[1, 2], &[]));
    trio.run();
    trio.write(1, 1, None, "a");
    trio.run();
    // The third is asked what it has, and answers; what it lacks is long on its way.
    trio.appoint_all(&Trio::duty(11, 1, &[1, 2], &[3]));
    while let Some((from, to, message)) = trio.flying.pop_front() {
        if to != NodeId(3) || !matches!(message.body, Body::Write(_)) {
            trio.deliver(from, to, message);
        }
    }
    trio.write(1, 2, None, "b");
    trio.run_without(&[3]);
    let side = trio.sides.get_mut(&NodeId(1)).expect("it is there");
    side.sink.vouchers.trust();
    assert!(trio.read(1, 3));
    let side = trio.sides.get_mut(&NodeId(1)).expect("it is there");
    assert!(side.sink.vouchers.ask(trio.now).is_some(), "it waits for the other member to vouch");
    trio.flying.clear();
    side.replica.on_vouched(trio.now, &mut side.sink, true);
    trio.flush(NodeId(1));
    let asked = |(_, to, message): &(NodeId, NodeId, atoll_replica::Message)| {
        *to == NodeId(2) && matches!(&message.body, Body::Write(write) if write.confirm)
    };
    assert!(trio.flying.iter().any(asked), "{:?}", trio.flying);
    trio.run_without(&[3]);
    assert!(trio.outcome(3).is_some());
}
