//! Every planted bug is caught: the checkers see.

use atoll_sim::{Options, Violation, run};
use atoll_types::Bug;
use atoll_types::bugs::plant;
use std::sync::Mutex;

/// A bug that shows in none of so many seeds is one that the checkers do not see.
const SEEDS: u64 = 2000;

fn violation(seed: u64) -> Option<Violation> {
    run(seed, &Options { minutes: 0.75, ..Options::default() }).violation
}

fn hunt(bug: Bug) -> Result<String, String> {
    for seed in 1..=SEEDS {
        plant(Some(bug));
        let caught = violation(seed);
        plant(None);
        // A seed that fails without the bug says nothing about it.
        if let Some(caught) = caught
            && violation(seed).is_none()
        {
            return Ok(format!("caught {bug:?} by {} at seed {seed} after {seed} seeds", caught.rule));
        }
    }
    Err(format!("{bug:?} was not caught in {SEEDS} seeds: {}", bug.describe()))
}

#[test]
fn every_planted_bug_is_caught() {
    let queue = Mutex::new(Bug::ALL.to_vec());
    let missed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut missed = Vec::new();
                    loop {
                        let Some(bug) = queue.lock().unwrap().pop() else { return missed };
                        match hunt(bug) {
                            Ok(line) => println!("{line}"),
                            Err(line) => missed.push(line),
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
