//! `atoll sim`: runs seeds on all cores and tells what came of each, in the order of the seeds.
//!
//! Workers take the next seed from a counter and send what came of it to the main thread, which holds back whatever
//! finished early. So the output is the same however many workers there are.
//!
//! Not here: the simulation (`atoll-sim`), the words (`report`).

use crate::Outcome;
use crate::report::{self, Ended, Run, Totals};
use crate::seeds::Seeds;
use crate::watching;
use anyhow::Context;
use atoll_sim::Options;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// One violation may have a thousand seeds; the first few tell as much.
const VIOLATIONS_MOST: u64 = 10;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Runs this one seed [default: one that is drawn, and told]
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Runs all seeds from A to B, both included: 1..2000 is 2000 seeds
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,
    /// Simulated minutes per seed
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Seeds that run at the same time [default: one per core]
    #[arg(long, value_name = "J")]
    jobs: Option<NonZeroUsize>,
    /// Writes a recording per life of a node, for `atoll replay`; of several seeds, into a folder each
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Shows the seed in a browser afterwards, moment by moment, at this address [default: 127.0.0.1:8090]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = watching::ADDRESS)]
    #[arg(conflicts_with = "seeds")]
    serve: Option<String>,
    /// Tells more: of each seed its cluster, faults and messages; of a single seed every event
    #[arg(long, short)]
    verbose: bool,
}

/// More would not fit into the simulated clock; a year is enough.
const MINUTES_MOST: f64 = 525_600.0;

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MINUTES_MOST => Ok(minutes),
        Ok(_) | Err(_) => Err(format!("`{text}` is not a number of minutes above 0, up to {MINUTES_MOST}")),
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut out = io::stdout();
    let seeds = match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => Seeds::one(seed),
        (None, Some(seeds)) => seeds,
        (None, None) => {
            let seed = draw();
            writeln!(out, "no --seed given: drew {seed}")?;
            Seeds::one(seed)
        }
    };
    if let Some(address) = &arguments.serve {
        return show(arguments, seeds.first, address);
    }
    let jobs = jobs(arguments.jobs, seeds);
    let begun = Instant::now();
    let mut totals = Totals::default();
    let work = Work { seeds, arguments, next: AtomicU64::new(0), violations: AtomicU64::new(0), stop: false.into() };
    thread::scope(|scope| -> anyhow::Result<()> {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work.take_seeds(&sender));
        }
        drop(sender);
        let told = tell(&receiver, &work, &mut totals, &mut out);
        // After an error in telling, nobody wants the other seeds.
        work.stop.store(true, Ordering::Relaxed);
        told
    })?;
    let left = seeds.count().saturating_sub(totals.seeds);
    write!(out, "{}", report::summary(&totals, begun.elapsed(), jobs, left))?;
    out.flush()?;
    Ok(if totals.violations == 0 { Outcome::Done } else { Outcome::Failed })
}

/// Runs one seed, tells what came of it, and shows it until somebody ends that.
fn show(arguments: &Arguments, seed: u64, address: &str) -> anyhow::Result<Outcome> {
    let options = Options { minutes: arguments.minutes, record: arguments.record.clone(), trace: arguments.verbose };
    let begun = Instant::now();
    let (report, timeline) = watching::simulation(seed, &options);
    let run = Run { seed, ended: Ended::Finished(Box::new(report)), took: begun.elapsed() };
    print!("{}", report::run(&run, arguments.minutes, arguments.verbose));
    watching::show(address, timeline)?;
    Ok(if run.is_violation() { Outcome::Failed } else { Outcome::Done })
}

/// Prints the runs in the order of their seeds.
fn tell(receiver: &Receiver<Told>, work: &Work<'_>, totals: &mut Totals, out: &mut impl Write) -> anyhow::Result<()> {
    let bar = progress_bar(work.seeds.count());
    let mut early: BTreeMap<u64, Run> = BTreeMap::new();
    let mut next = 0;
    for Told { place, run } in receiver {
        bar.inc(1);
        early.insert(place, run?);
        while let Some(run) = early.remove(&next) {
            next += 1;
            totals.add(&run);
            let text = report::run(&run, work.arguments.minutes, work.arguments.verbose);
            // The bar steps aside: on a terminal it would be torn by the line.
            bar.suspend(|| out.write_all(text.as_bytes()))?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Draws on stderr, and only where that is a terminal. One seed is over before a bar says anything.
fn progress_bar(count: u64) -> ProgressBar {
    if count == 1 {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count);
    let template = "{bar:40} {pos}/{len} seeds  {elapsed} gone, {eta} to go";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// What the workers share.
struct Work<'a> {
    seeds: Seeds,
    arguments: &'a Arguments,
    /// The place of the seed to be taken next.
    next: AtomicU64,
    violations: AtomicU64,
    stop: AtomicBool,
}

/// A run on its way to the main thread, with the place of its seed; or why there can be no run.
struct Told {
    place: u64,
    run: anyhow::Result<Run>,
}

impl Work<'_> {
    fn take_seeds(&self, sender: &Sender<Told>) {
        while !self.stop.load(Ordering::Relaxed) && self.violations.load(Ordering::Relaxed) < VIOLATIONS_MOST {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(seed) = self.seeds.at(place) else { return };
            let run = self.run_seed(seed);
            if run.as_ref().is_ok_and(Run::is_violation) {
                self.violations.fetch_add(1, Ordering::Relaxed);
            }
            if sender.send(Told { place, run }).is_err() {
                return;
            }
        }
    }

    fn run_seed(&self, seed: u64) -> anyhow::Result<Run> {
        let Arguments { minutes, verbose, .. } = *self.arguments;
        let record = self.folder(seed);
        if let Some(folder) = &record {
            let what = || format!("could not create {} for recordings; give another --record", folder.display());
            std::fs::create_dir_all(folder).with_context(what)?;
        }
        // The events of two seeds at once would make one unreadable mixture.
        let options = Options { minutes, record, trace: verbose && self.seeds.count() == 1 };
        let begun = Instant::now();
        // An assertion that fails is a violation like any other, and must not take the other seeds with it.
        let ended = match panic::catch_unwind(AssertUnwindSafe(|| atoll_sim::run(seed, &options))) {
            Ok(report) => Ended::Finished(Box::new(report)),
            Err(payload) => Ended::Panicked(report::panic_message(&*payload)),
        };
        Ok(Run { seed, ended, took: begun.elapsed() })
    }

    /// Where the recordings of a seed go. Of several seeds each has its own folder, as their files have the same names.
    fn folder(&self, seed: u64) -> Option<PathBuf> {
        let folder = self.arguments.record.as_ref()?;
        Some(if self.seeds.count() == 1 { folder.clone() } else { folder.join(format!("seed-{seed}")) })
    }
}

/// No more workers than seeds.
fn jobs(wanted: Option<NonZeroUsize>, seeds: Seeds) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = wanted.map_or_else(cores, NonZeroUsize::get);
    usize::try_from(seeds.count()).map_or(jobs, |count| jobs.min(count))
}

/// A seed from the operating system, short enough to be told on the telephone.
fn draw() -> u64 {
    RandomState::new().hash_one(0_u64) % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_a_positive_number() {
        assert_eq!(minutes("0.1"), Ok(0.1));
        for text in ["0", "-1", "NaN", "inf", "1e9", "many", ""] {
            assert!(minutes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn there_are_no_more_workers_than_seeds() {
        assert_eq!(jobs(NonZeroUsize::new(8), Seeds { first: 1, last: 3 }), 3);
        assert_eq!(jobs(NonZeroUsize::new(2), Seeds { first: 1, last: 3 }), 2);
    }
}
