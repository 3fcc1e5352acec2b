//! The larger parts, by the clock: a usurp of many buckets, memory of empty ones, the move of a large one.

use crate::rig::{Post, Rig, put};
use atoll_node::shard::door::Answer;
use atoll_types::{HashSlot, Report};
use std::time::{Duration, Instant};

/// A node that was primary of 1,000 buckets is gone: how long until all of them serve again.
pub(crate) fn usurp() {
    let mut rig = Rig::new(3, Duration::ZERO);
    let all: Vec<Post<'_>> = (0..1000).map(|bucket| (bucket * 16, 1, &[1, 2, 3][..], &[][..], false)).collect();
    rig.appoint(16, &all);
    rig.run_flying();
    for id in 0..20_000 {
        let key = format!("key:{id:08}").into_bytes();
        if HashSlot::of(&key).0 < 16_000 {
            rig.request(0, id, &key, &put(&key, &[7; 100]));
        }
    }
    rig.drain(0);
    rig.run_flying();
    let began = Instant::now();
    let next: Vec<Post<'_>> = (0..1000).map(|bucket| (bucket * 16, 2, &[2, 3][..], &[][..], false)).collect();
    rig.appoint(16, &next);
    rig.run_flying();
    let spent = began.elapsed();
    let serving = rig.shards[1].replicas().values().filter(|replica| replica.is_serving()).count();
    assert_eq!(serving, 1000);
    println!("usurp   1,000 buckets serve again after {:.1} ms of one core for all nodes", spent.as_secs_f64() * 1e3);
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// What 16,384 empty buckets cost on one node.
pub(crate) fn memory() {
    let before = resident();
    let mut rig = Rig::new(1, Duration::ZERO);
    let all: Vec<Post<'_>> = (0..16_384).map(|bucket| (bucket, 1, &[1][..], &[][..], false)).collect();
    rig.appoint(1, &all);
    rig.run_flying();
    let cost = resident().saturating_sub(before);
    assert_eq!(rig.shards[0].replicas().len(), 16_384);
    println!("memory  16,384 empty buckets: {:.1} MB, {} bytes each", cost as f64 / 1e6, cost / 16_384);
}

/// A bucket of 100,000 keys moves to another node while it is written to: the longest pause between two answers.
pub(crate) fn move_a_large_bucket() {
    const LATENCY: Duration = Duration::from_micros(500);
    const PACE: Duration = Duration::from_micros(250);
    let mut rig = Rig::new(4, LATENCY);
    let width = 16_384;
    rig.appoint(width, &[(0, 1, &[1, 2, 3], &[], false)]);
    rig.pass_until(rig.now + Duration::from_millis(10));
    let mut id = 0;
    for _ in 0..100_000 {
        id += 1;
        let key = format!("key:{id:08}").into_bytes();
        rig.request(0, id, &key, &put(&key, &[7; 100]));
        if id % 500 == 0 {
            rig.drain(0);
            rig.pass_until(rig.now + LATENCY * 3);
        }
    }
    rig.pass_until(rig.now + Duration::from_millis(20));
    rig.answers.clear();
    rig.reports.clear();
    let began = (rig.now, Instant::now());
    let mut longest = (Duration::ZERO, rig.now);
    let mut last = rig.now;
    let mut step = 0u32;
    // Each step is taken when the one before has been reported done, and a round of the cluster log later.
    let mut due = rig.now;
    let mut took = Vec::new();
    while step < 5 || rig.now.since(due) < Duration::from_millis(20) {
        id += 1;
        let key = format!("key:{:08}", id % 100_000).into_bytes();
        rig.request(3, id, &key, &put(&key, &[8; 100]));
        rig.drain(3);
        rig.pass_until(rig.now + PACE);
        for (at, _, answer) in rig.answers.drain(..) {
            assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
            if at.since(last) > longest.0 {
                longest = (at.since(last), last);
            }
            last = at;
        }
        let ready = rig.reports.iter().any(|report| matches!(report, Report::Ready { .. }));
        let next = match step {
            0 => true,
            1 => ready,
            2.. => rig.now.since(due) > Duration::from_millis(5),
        };
        if next && step < 5 {
            rig.reports.clear();
            rig.pass_until(rig.now + LATENCY * 2);
            match step {
                0 => rig.appoint(width, &[(0, 1, &[1, 2, 3], &[4], true)]),
                1 => rig.appoint(width, &[(0, 1, &[1, 2, 3, 4], &[], false)]),
                2 => rig.appoint(width, &[(0, 4, &[1, 2, 3, 4], &[], false)]),
                3 => rig.appoint(width, &[(0, 4, &[2, 3, 4], &[], false)]),
                _done => {}
            }
            took.push(rig.now.since(began.0));
            due = rig.now;
            step += 1;
        }
    }
    println!(
        "move    100,000 keys: {:.0} simulated ms in all, longest pause of writes {:.2} ms, {:.0} ms of one core",
        took.last().copied().unwrap_or_default().as_secs_f64() * 1e3,
        longest.0.as_secs_f64() * 1e3,
        began.1.elapsed().as_secs_f64() * 1e3,
    );
}
