//! `atoll`: the one binary. Exit codes: 0 done, 1 failed, 2 wrong usage.
//!
//! Not here: what a command does (a file each), how inputs and outputs read to a person (`atoll_server::describe`).

mod backup;
mod bench;
mod dev;
mod events;
mod inspect;
mod kv;
mod manual;
mod notify;
mod operate;
#[cfg(feature = "otel")]
mod otel;
mod remote;
mod replay;
mod report;
mod restore;
mod seeds;
mod serve;
mod show;
mod simulate;
mod span;
mod status;
mod stream;
mod top;
mod watching;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "atoll", version, about = "A partitioned, replicated atomic log with a key-value store and streams")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a whole cluster in one process: what `atoll` alone does
    Dev(dev::Arguments),
    /// Runs one node of a cluster
    Serve(Box<serve::Arguments>),
    /// Is the cluster healthy, and if not, why? Exit code 0 only if it is
    Status(status::Arguments),
    /// The cluster at a glance, on a terminal: nodes, hottest buckets, rates, moves, alarms
    Top(top::Arguments),
    /// What happened in the cluster, and what led to what
    Events(events::Arguments),
    /// Keys and values
    Kv(kv::Arguments),
    /// Streams of messages
    Stream(stream::Arguments),
    /// Moves everything off a node, without a failed request; then it departs
    Drain(operate::OfNode),
    /// Removes a node for good, at once
    Remove(operate::OfNode),
    /// Lists a node no longer that departed and that none of its name replaces
    Forget(operate::Forget),
    /// Halves every bucket, or one
    Split(operate::Split),
    /// Levels out again now
    Rebalance(operate::Rebalance),
    /// An operator's last resorts, when a majority or a bucket is gone for good
    Recover(operate::Recover),
    /// Shows and verifies a data directory or a backup
    Inspect(inspect::Arguments),
    /// Writes everything the cluster holds to a directory, while it serves
    Backup(backup::Arguments),
    /// Fills a new cluster, of any size, from a backup
    Restore(restore::Arguments),
    /// Puts load on a cluster and measures
    Bench(bench::Arguments),
    /// Simulates clusters under faults and checks every rule after every step
    Sim(simulate::Arguments),
    /// Runs a node's recording again and compares what comes of each input
    Replay(replay::Arguments),
    /// Prints completions for a shell, to be sourced by it
    Completions { shell: Shell },
    /// Writes manual pages to a folder, one for each command
    Man { folder: PathBuf },
}

/// How a command ended, if nothing kept it from doing its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// It found what it looks for: a violation, a difference. It has told so already.
    Failed,
}

fn main() -> ExitCode {
    // Wrong usage ends here, with exit code 2 and a hint.
    let arguments = Arguments::parse();
    let ended = match arguments.command {
        Some(Command::Dev(arguments)) => dev::run(arguments),
        Some(Command::Serve(arguments)) => serve::run(*arguments),
        Some(Command::Status(arguments)) => status::run(&arguments),
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Events(arguments)) => events::run(&arguments),
        Some(Command::Kv(arguments)) => kv::run(&arguments),
        Some(Command::Stream(arguments)) => stream::run(&arguments),
        Some(Command::Drain(arguments)) => operate::drain(&arguments),
        Some(Command::Remove(arguments)) => operate::remove(&arguments),
        Some(Command::Forget(arguments)) => operate::forget(&arguments),
        Some(Command::Split(arguments)) => operate::split(&arguments),
        Some(Command::Rebalance(arguments)) => operate::rebalance(&arguments),
        Some(Command::Recover(arguments)) => operate::recover(&arguments),
        Some(Command::Inspect(arguments)) => inspect::run(&arguments),
        Some(Command::Backup(arguments)) => backup::run(&arguments),
        Some(Command::Restore(arguments)) => restore::run(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::Sim(arguments)) => simulate::run(&arguments),
        Some(Command::Replay(arguments)) => replay::run(&arguments),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man { folder }) => manual::write(Arguments::command(), &folder),
        None => dev::run(dev::Arguments::default()),
    };
    #[cfg(feature = "otel")]
    otel::finish();
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        // Whoever read our output has seen enough (`atoll sim … | head`): nobody is left to tell.
        Err(error) if is_broken_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// To whoever started this process. One who does not listen misses something, and that is all.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "atoll: {text}");
}

/// What the node does goes to standard error; `ATOLL_LOG` says how much of it.
fn say_what_happens(usually: &str) {
    use tracing_subscriber::prelude::*;
    let filter = std::env::var("ATOLL_LOG").unwrap_or_else(|_| usually.to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(&filter).unwrap_or_default();
    let words = tracing_subscriber::fmt::layer()
        // Logs often stand on the disk that is full. Whether they can be written must make no difference to the node.
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_filter(filter);
    let registry = tracing_subscriber::registry().with(words);
    #[cfg(feature = "otel")]
    let registry = registry.with(otel::start().map(|exporter| {
        let ours = |what: &tracing::Metadata<'_>| what.target().starts_with("atoll_server::http");
        exporter.with_filter(tracing_subscriber::filter::filter_fn(ours))
    }));
    registry.init();
}

fn completions(shell: Shell) -> anyhow::Result<Outcome> {
    // Through a buffer: the generator panics where writing to a closed pipe fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "atoll", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Outcome::Done)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    /// The flags of `serve` have a page of their own.
    #[test]
    fn the_guide_names_every_command_and_flag() {
        let page = include_str!("../../../docs/guide/cli.md");
        let settings = include_str!("../../../docs/guide/configuration.md");
        fn look(command: &clap::Command, name: &str, page: &str) -> Vec<String> {
            let flags = command.get_arguments().filter_map(|argument| argument.get_long());
            let flags = flags.filter(|flag| *flag != "server").map(|flag| format!("`--{flag}"));
            let missing = flags.filter(|flag| !page.contains(flag)).map(|flag| format!("{name}: {flag}"));
            let mut missing: Vec<String> = missing.collect();
            if command.get_subcommands().next().is_none() && !page.contains(&format!("`{name}")) {
                missing.push(name.to_owned());
            }
            for below in command.get_subcommands() {
                missing.extend(look(below, &format!("{name} {}", below.get_name()), page));
            }
            missing
        }
        let command = Arguments::command();
        for below in command.get_subcommands() {
            let is_serve = below.get_name() == "serve";
            let page = if is_serve { format!("{page}{settings}") } else { page.to_owned() };
            assert_eq!(look(below, &format!("atoll {}", below.get_name()), &page), Vec::<String>::new());
        }
    }
}
