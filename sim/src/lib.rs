//! The simulator: whole clusters of the real core, on a virtual network, virtual disks and virtual clocks.
//!
//! One seed is one run, the same on every machine: it draws the cluster, its load and its faults, lets them loose for
//! the first two thirds of the time, heals everything, and expects the cluster to become healthy. The checkers watch
//! every step.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | what a seed draws: nodes, limits, network, which faults how often |
//! | `world.rs` | the event loop: what happens next, to which host |
//! | `door.rs` | an input to a core, and what its outputs lead to |
//! | `host.rs` | one machine: the core, its disk, its clock, whether it runs |
//! | `net.rs`, `disk.rs`, `clock.rs` | what a host stands on, and how that fails |
//! | `faults.rs` | the generator of faults |
//! | `clients/` | clients of the buckets: sessions, connections, what they ask for |
//! | `workload.rs` | submissions, broadcasts, answers, and what became of them |
//! | `operator.rs` | the person who recovers a cluster that lost its majority |
//! | `healing.rs` | what must be true in the end |
//! | `check/` | the rules, one file each |
//! | `trace.rs` | the digest of a run and its last events |
//! | `watch.rs` | somebody who looks on, for `atoll sim --serve` |
//! | `quiet.rs` | a panic of the core, as a violation |
//! | `scenario.rs`, `scenario/` | transcripts: what happens to a cluster, line by line |
//! | `large.rs` | clusters of hundreds of nodes, for counting messages |
//!
//! Not here: the bugs that prove the checkers (`atoll_types::bugs`), the command line (`shell/cli`).

mod check;
mod clients;
mod clock;
mod disk;
mod door;
mod faults;
mod healing;
mod host;
mod large;
mod net;
mod operator;
mod plan;
mod quiet;
pub mod scenario;
mod trace;
mod watch;
mod workload;
mod world;

use crate::plan::Plan;
use crate::world::World;
use std::path::PathBuf;
use std::time::Duration;

pub use large::{Census, grow};
pub use watch::{Process, Sight, Watcher, watch};

/// How to run a seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Simulated minutes, of which the last third heals.
    pub minutes: f64,
    /// A directory for one recording per node and life: `n1-1.rec` and so on.
    pub record: Option<PathBuf>,
    /// Print every event as it happens.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { minutes: 1.0, record: None, trace: false }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    /// Over every event delivered and every event raised: equal for equal runs.
    pub digest: u64,
    pub simulated: Duration,
    pub decided: u64,
    pub messages: u64,
    pub faults: u64,
    pub buckets: Buckets,
    /// What the seed drew, and how the run ended, in a line.
    pub shape: String,
    pub violation: Option<Violation>,
}

/// What clients did, and what became of it; and what the distributor did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    pub done: u64,
    pub unknown: u64,
    pub not_applied: u64,
    /// Steps of orders that changed who serves a bucket.
    pub moves: u64,
    pub splits: u64,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: String,
    pub detail: String,
    pub at: Duration,
    pub last_events: Vec<String>,
}

impl Violation {
    /// The world adds when it was and what happened before.
    pub(crate) fn of(rule: &str, detail: String) -> Violation {
        Violation { rule: rule.to_owned(), detail, at: Duration::ZERO, last_events: Vec::new() }
    }
}

/// Which clusters a seed may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anything.
    Drawn,
    /// Five nodes and every kind of fault at once, for measuring.
    FiveNodesAllFaults,
}

/// Runs a seed to its end or to the first violation.
pub fn run(seed: u64, options: &Options) -> Report {
    run_shaped(seed, options, Shape::Drawn)
}

pub fn run_shaped(seed: u64, options: &Options, shape: Shape) -> Report {
    let mut rng = atoll_types::Rng::new(seed);
    let plan = Plan::draw(&mut rng, options.minutes, shape);
    let mut world = World::new(seed, rng, plan, options);
    // An assertion inside the core is a broken rule as well. The world outlives it: it knows what happened before.
    let ended = quiet::catch(|| world.run());
    world.report(ended)
}
