//! What `atoll sim` says: a line per seed, a violation, the summary.

use atoll_sim::{Buckets, Report, Violation};
use std::any::Any;
use std::fmt::Write;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What came of one seed.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) ended: Ended,
    /// On the clock on the wall.
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) enum Ended {
    /// With or without a violation.
    Finished(Box<Report>),
    /// An assertion failed, in the core or in the simulator.
    Panicked(String),
}

impl Run {
    pub(crate) fn is_violation(&self) -> bool {
        match &self.ended {
            Ended::Finished(report) => report.violation.is_some(),
            Ended::Panicked(_) => true,
        }
    }
}

/// Over all seeds, in their order.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) seeds: u64,
    pub(crate) violations: u64,
    simulated: Duration,
    /// The time all workers took, together.
    took: Duration,
    digest: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, run: &Run) {
        self.seeds += 1;
        self.violations += u64::from(run.is_violation());
        self.took += run.took;
        let digest = match &run.ended {
            Ended::Finished(report) => {
                self.simulated += report.simulated;
                report.digest
            }
            Ended::Panicked(_) => 0,
        };
        let words = [run.seed.to_le_bytes(), digest.to_le_bytes()];
        // Each on top of the one before: two runs that swap their digests must not look the same.
        self.digest = xxh3_64_with_seed(words.as_flattened(), self.digest);
    }
}

/// The line of a seed and, below it, its violation.
pub(crate) fn run(run: &Run, minutes: f64, verbose: bool) -> String {
    match &run.ended {
        Ended::Finished(report) => {
            let mut text = line(report);
            if verbose {
                text += &format!("  {}; {} messages, {} faults\n", report.shape, report.messages, report.faults);
                let Buckets { done, unknown, not_applied, moves, splits } = report.buckets;
                text += &format!("  operations: {done} done, {unknown} unknown, {not_applied} not applied; ");
                text += &format!("{moves} moves, {splits} splits\n");
            }
            if let Some(violation) = &report.violation {
                text += &violated(violation, run.seed, minutes);
            }
            text
        }
        Ended::Panicked(message) => {
            let mut text = format!("seed {}  VIOLATION\n", run.seed);
            text += "  rule    no assertion fails\n";
            text += &format!("  what    {}\n", indented(message));
            text += &repeat(run.seed, minutes);
            text
        }
    }
}

fn line(report: &Report) -> String {
    let Report { seed, digest, decided, simulated, violation, .. } = report;
    let verdict = if violation.is_some() { "VIOLATION" } else { "ok" };
    format!("seed {seed}  digest {digest:016x}  decided {decided}  {:.1} s  {verdict}\n", simulated.as_secs_f64())
}

fn violated(violation: &Violation, seed: u64, minutes: f64) -> String {
    let mut text = format!("  rule    {}\n", violation.rule);
    text += &format!("  what    {}\n", indented(&violation.detail));
    text += &format!("  at      {:.6} s\n", violation.at.as_secs_f64());
    if !violation.last_events.is_empty() {
        text += "  last events\n";
        for event in &violation.last_events {
            text += &format!("    {event}\n");
        }
    }
    text += &repeat(seed, minutes);
    text
}

/// Rust prints a floating-point number with as many digits as it takes to read the same number back.
fn repeat(seed: u64, minutes: f64) -> String {
    format!("  repeat  atoll sim --seed {seed} --minutes {minutes}\n")
}

/// Further lines of a text stand below the first.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n          ")
}

pub(crate) fn summary(totals: &Totals, wall: Duration, jobs: usize, left: u64) -> String {
    let simulated = totals.simulated.as_secs_f64();
    let speed = simulated / totals.took.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut text = String::new();
    let mut say = |what: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:<12}{value}");
    };
    say("seeds", totals.seeds.to_string());
    say("simulated", format!("{simulated:.1} s"));
    say("took", format!("{:.1} s, jobs: {jobs}", wall.as_secs_f64()));
    say("speed", format!("{speed:.0} simulated seconds per second and core"));
    say("violations", totals.violations.to_string());
    say("digest", format!("{:016x}", totals.digest));
    if left > 0 {
        say("not run", format!("{left} seeds, after {} violations", totals.violations));
    }
    text
}

/// What an assertion said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it did not say").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(seed: u64, violation: Option<Violation>) -> Run {
        let report = Report {
            seed,
            digest: 0x3f,
            simulated: Duration::from_secs(60),
            decided: 812,
            messages: 9,
            faults: 3,
            buckets: Buckets { done: 5, unknown: 1, not_applied: 2, moves: 4, splits: 1 },
            shape: "5 nodes, durable, lossy".to_owned(),
            violation,
        };
        Run { seed, ended: Ended::Finished(Box::new(report)), took: Duration::from_millis(100) }
    }

    #[test]
    fn a_seed_is_a_line() {
        assert_eq!(run(&finished(17, None), 1.0, false), "seed 17  digest 000000000000003f  decided 812  60.0 s  ok\n");
        let verbose = run(&finished(17, None), 1.0, true);
        assert!(verbose.contains("\n  5 nodes, durable, lossy; 9 messages, 3 faults\n"), "{verbose}");
        let operations = "\n  operations: 5 done, 1 unknown, 2 not applied; 4 moves, 1 splits\n";
        assert!(verbose.ends_with(operations), "{verbose}");
    }

    #[test]
    fn a_violation_tells_the_rule_the_events_and_how_to_repeat_it() {
        let violation = Violation {
            rule: "agreement".to_owned(),
            detail: "slot 9:\none thing\nanother".to_owned(),
            at: Duration::from_millis(31_204),
            last_events: vec!["n1 decided 9".to_owned(), "n2 decided 9".to_owned()],
        };
        let text = run(&finished(17, Some(violation)), 0.1, false);
        assert_eq!(
            text,
            "seed 17  digest 000000000000003f  decided 812  60.0 s  VIOLATION\n  rule    agreement\n  \
             what    slot 9:\n          one thing\n          another\n  at      31.204000 s\n  last events\n    \
             n1 decided 9\n    n2 decided 9\n  repeat  atoll sim --seed 17 --minutes 0.1\n"
        );
    }

    #[test]
    fn a_failed_assertion_is_a_violation() {
        let failed = Run { seed: 4, ended: Ended::Panicked("a ≤ b".to_owned()), took: Duration::ZERO };
        assert!(failed.is_violation());
        let text = run(&failed, 1.0, false);
        assert!(text.contains("a ≤ b") && text.contains("atoll sim --seed 4 --minutes 1\n"), "{text}");
    }

    #[test]
    fn the_digest_of_all_depends_on_each_and_on_their_order() {
        let digest = |seeds: &[u64]| {
            let mut totals = Totals::default();
            seeds.iter().for_each(|&seed| totals.add(&finished(seed, None)));
            totals.digest
        };
        assert_eq!(digest(&[1, 2]), digest(&[1, 2]));
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_ne!(digest(&[1]), digest(&[1, 2]));
    }

    #[test]
    fn the_summary_counts() {
        let mut totals = Totals::default();
        totals.add(&finished(1, None));
        let text = summary(&totals, Duration::from_secs(2), 1, 0);
        assert!(text.contains("600 simulated seconds per second and core"), "{text}");
        assert!(!text.contains("not run"), "{text}");
        assert!(summary(&totals, Duration::from_secs(2), 1, 5).contains("not run     5 seeds"));
    }
}
