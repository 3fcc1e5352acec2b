//! Many seeds run clean, and a seed gives the same run every time.

use atoll_sim::{Options, run};
use std::sync::atomic::{AtomicU64, Ordering};

fn half_a_minute() -> Options {
    Options { minutes: 0.5, ..Options::default() }
}

#[test]
fn seeds_run_clean() {
    let next = AtomicU64::new(1);
    let broken = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut broken = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed > 60 {
                            return broken;
                        }
                        let report = run(seed, &half_a_minute());
                        if let Some(violation) = report.violation {
                            broken.push(format!(
                                "seed {seed} ({}): {} at {:?}: {}\n{}",
                                report.shape,
                                violation.rule,
                                violation.at,
                                violation.detail,
                                violation.last_events.join("\n")
                            ));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in [1, 7, 19, 23, 42] {
        let digests = [(); 2].map(|()| run(seed, &half_a_minute()).digest);
        assert_eq!(digests[0], digests[1], "seed {seed}");
    }
}
