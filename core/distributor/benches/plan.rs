//! How long planning takes in a large cluster: 300 nodes, 16,384 buckets. Run with `cargo bench -p atoll-distributor`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // A stopwatch; the crate itself never sees a clock.

use atoll_distributor::{Decided, Distributor, Hypothesis, Roster, Settings, Standing};
use atoll_types::{Cookie, Generation, Incarnation, Name, NodeId, Slot, Step, Time};
use std::time::Duration;
use std::time::Instant;

const NODES: u32 = 300;
const BUCKETS: u16 = 16_384;
const TURNS: u32 = 20;

fn standing(zones: u32, number: u32) -> Standing {
    let zone = Name::from(format!("zone {}", number % zones).as_str());
    let incarnation = Incarnation { life: 1, cookie: Cookie(u64::from(number)) };
    Standing {
        present: true,
        incarnation,
        zone,
        weight: 1,
        durable: true,
        leaving: false,
        stopped: false,
        skewed: false,
    }
}

fn at(slot: u64) -> Decided {
    Decided { slot: Slot(slot), generation: Generation::default(), time: Time(1_000_000_000 + slot) }
}

fn measure<T>(what: &str, mut run: impl FnMut() -> T) {
    run();
    let begun = Instant::now();
    for _ in 0..TURNS {
        std::hint::black_box(run());
    }
    println!("{what:<44} {:>9.3} ms", begun.elapsed().as_secs_f64() * 1000.0 / f64::from(TURNS));
}

fn main() {
    for zones in [1, 3, 300] {
        println!("{NODES} nodes in {zones} zones, {BUCKETS} buckets");
        let roster: Roster = (1..=NODES).map(|number| (NodeId(number), standing(zones, number))).collect();
        let mut distributor = Distributor::new();
        distributor.on_roster(at(1), &roster);
        let order =
            distributor.order(vec![Step::Place { buckets: BUCKETS, copies: 3, min_copies: 2, lease: Duration::ZERO }]);
        let begun = Instant::now();
        distributor.on_order(at(2_000_000), &order);
        println!("{:<44} {:>9.3} ms", "first placement", begun.elapsed().as_secs_f64() * 1000.0);
        distributor.take_changed();
        let settings = Settings::default();
        let now = at(3_000_000);
        let bytes = postcard::to_allocvec(&distributor).unwrap_or_default().len();
        println!("{:<44} {:>9.1} KB", "serialized", bytes as f64 / 1000.0);

        let clone = distributor.clone();
        measure("clone (counts in the next two)", || clone.clone());
        let mut more = roster.clone();
        more.insert(NodeId(NODES + 1), standing(zones, NODES + 1));
        measure("arrival: on_roster and next_order", || {
            let mut changed = distributor.clone();
            changed.on_roster(now, &more);
            changed.next_order(now.time, &settings).expect("there is something to do")
        });
        let mut fewer = roster.clone();
        fewer.remove(&NodeId(7));
        measure("departure: on_roster and next_order", || {
            let mut changed = distributor.clone();
            changed.on_roster(now, &fewer);
            changed.next_order(now.time, &settings).expect("there is something to do")
        });
        measure("next_order, as it was placed", || distributor.next_order(now.time, &settings));
        let begun = Instant::now();
        let plan = distributor.plan(&Hypothesis::Arrival { zone: Name::from("zone 0"), weight: 1 });
        let spent = begun.elapsed().as_secs_f64() * 1000.0;
        println!("{:<44} {spent:>9.3} ms, {} moves", "plan of an arrival", plan.moves.len());
    }
}
