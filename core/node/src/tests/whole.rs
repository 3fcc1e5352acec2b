//! The node as a whole: placement, requests, restarts, operators.

use super::town::Town;
use crate::shard::door::{Ask, Request, RequestId};
use crate::{Event, Input, Order, Output, Rejection};
use atoll_cluster::Standing;
use atoll_types::{
    BucketId, Epoch, HashSlot, Mark, NodeId, Offset, Operation, Payload, Position, Principal, Record, Why,
};

fn is_placed(town: &Town) -> bool {
    let placed = |house: usize| town.node(house).view().distributor.is_some_and(|table| table.buckets().len() == 4);
    (0..town.houses.len()).all(placed)
}

fn answered(town: &Town, house: usize) -> usize {
    town.houses[house].outputs.iter().filter(|output| matches!(output, Output::Answer { .. })).count()
}

fn request(slot: u16) -> Request {
    Request {
        connection: 1,
        slot: HashSlot(slot),
        principal: Principal::ANONYMOUS,
        ask: Ask::Read { query: Payload::default() },
    }
}

#[test]
fn three_founders_place_the_buckets_and_settle_them() {
    let mut town = Town::founded(&["n1", "n2", "n3"], false, None);
    town.give(0, Input::Request { id: RequestId(1), request: request(0) });
    assert_eq!(answered(&town, 0), 1, "there is no table yet");
    assert!(town.run(20, is_placed), "the key space is divided");
    let table = town.node(0).view().distributor.expect("it is a member").clone();
    assert!(table.buckets().values().all(|bucket| bucket.members().len() == 3));
    for (house, slot) in [(0, 0), (1, 5000), (2, 9000), (0, 16_383)] {
        let before = answered(&town, house);
        town.give(house, Input::Request { id: RequestId(2), request: request(slot) });
        assert!(town.run(10, |town| answered(town, house) == before + 1), "every request is answered, on any node");
    }
}

/// A write to slot 0, or a read there that waits for this offset.
fn in_slot_0(ask: Ask) -> Request {
    Request { connection: 1, slot: HashSlot(0), principal: Principal::ANONYMOUS, ask }
}

#[test]
fn a_read_of_a_position_to_come_waits_for_it_on_any_node() {
    let mut town = Town::founded(&["n1", "n2", "n3"], false, None);
    assert!(town.run(20, is_placed), "the key space is divided");
    let mark = Mark { epoch: Epoch::ZERO, offset: Offset(1) };
    let after = Some(Position { bucket: BucketId(0), mark });
    for house in 0..3 {
        let ask = Ask::Stale { query: Payload::default(), after };
        town.give(house, Input::Request { id: RequestId(1), request: in_slot_0(ask) });
        assert!(!town.run(1, |town| answered(town, house) > 0), "nothing was written yet");
    }
    let ask = Ask::Write { usage: None, command: Payload::default() };
    town.give(0, Input::Request { id: RequestId(2), request: in_slot_0(ask) });
    let all = |town: &Town| answered(town, 0) == 2 && answered(town, 1) == 1 && answered(town, 2) == 1;
    assert!(town.run(2, all), "the write and all who waited for it are answered");
}

#[test]
fn a_durable_node_comes_back_with_its_records() {
    let mut town = Town::founded(&["n1", "n2", "n3"], true, None);
    assert!(town.run(20, is_placed), "the key space is divided");
    assert!(town.houses[1].records.iter().any(|record| matches!(record, Record::Bucket(_))));
    town.houses[1].node = None;
    assert!(town.run(5, |town| town.present() == 2), "it is missed");
    town.start(1);
    assert!(town.run(20, |town| town.present() == 3 && town.is_level()), "it is back");
}

#[test]
fn operators_are_answered_by_the_log() {
    let mut town = Town::founded(&["n1", "n2", "n3"], true, None);
    assert!(town.run(20, is_placed), "the key space is divided");
    let revive = Order::Operate(Operation::Revive { bucket: BucketId(0), from: None });
    town.give(1, Input::Operator { ticket: 7, order: revive });
    let rejected = Event::Rejected { ticket: 7, rejection: Rejection::NotPossible };
    assert!(town.run(5, |town| town.events(1).any(|event| *event == rejected)), "it is not lost");
    town.give(1, Input::Operator { ticket: 8, order: Order::Operate(Operation::Rebalance) });
    let taken = |event: &Event| matches!(event, Event::Submitted { ticket: 8, .. });
    assert!(town.run(5, |town| town.events(1).any(taken)), "it is done");
}

#[test]
fn a_leader_that_pauses_hands_over_and_is_absent_until_its_next_life() {
    let mut town = Town::founded(&["n1", "n2", "n3"], true, None);
    assert!(town.run(20, is_placed), "the key space is divided");
    let leader = town.leader().expect("there is one");
    let node = town.node(leader).view().identity.expect("it is a member").node;
    town.give(leader, Input::Operator { ticket: 1, order: Order::Pause });
    let stands = |town: &Town, house: usize| {
        let state = town.node(house).view().state?;
        Some(state.members.get(&node)?.standing)
    };
    assert!(town.run(5, |town| town.leader().is_some_and(|other| other != leader)), "somebody else leads");
    let other = town.leader().expect("there is one");
    assert!(matches!(stands(&town, other), Some(Standing::Absent { why: Why::Stopped, .. })));
    assert!(!town.run(3, |town| stands(town, other) == Some(Standing::Present)), "it does not come back in this life");
    town.houses[leader].node = None;
    town.start(leader);
    assert!(town.run(20, |town| town.present() == 3), "it is there in a new one");
    assert_ne!(node, NodeId::NOBODY);
}
