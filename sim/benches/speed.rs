//! How fast the simulator runs: simulated cluster-seconds per second of one core, five nodes, every fault, every
//! checker.
//!
//! `cargo bench --package atoll-sim`. The goal is 500.

use atoll_sim::{Options, Shape, run_shaped};
use std::time::{Duration, Instant};

const SEEDS: u64 = 20;

fn main() {
    let options = Options { minutes: 2.0, ..Options::default() };
    let began = Instant::now();
    let mut simulated = Duration::ZERO;
    let (mut messages, mut decided, mut faults) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let report = run_shaped(seed, &options, Shape::FiveNodesAllFaults);
        if let Some(violation) = &report.violation {
            println!("seed {seed}: {}: {}", violation.rule, violation.detail);
        }
        simulated += report.simulated;
        messages += report.messages;
        decided += report.decided;
        faults += report.faults;
    }
    let spent = began.elapsed().as_secs_f64();
    println!("{SEEDS} seeds: {:.0} simulated seconds in {spent:.2} s", simulated.as_secs_f64());
    println!("{messages} messages, {decided} entries decided, {faults} faults");
    println!("{:.0} simulated cluster-seconds per second", simulated.as_secs_f64() / spent);
}
