//! `atoll`: the one binary. Exit codes: 0 done, 1 failed, 2 wrong usage.
//!
//! Not here: what a command does (a file each), how inputs and outputs read to a person (`atoll_server::describe`).

mod bench;
mod dev;
mod kv;
mod operate;
mod remote;
mod replay;
mod report;
mod seeds;
mod serve;
mod show;
mod simulate;
mod span;
mod status;
mod stream;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::io::{self, IsTerminal};
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
    /// Runs a whole cluster in one process, in memory: what `atoll` alone does
    Dev(dev::Arguments),
    /// Runs one node of a cluster
    Serve(Box<serve::Arguments>),
    /// Is the cluster healthy, and if not, why? Exit code 0 only if it is
    Status(status::Arguments),
    /// Keys and values
    Kv(kv::Arguments),
    /// Streams of messages
    Stream(stream::Arguments),
    /// Moves everything off a node, without a failed request; then it departs
    Drain(operate::OfNode),
    /// Removes a node for good, at once
    Remove(operate::OfNode),
    /// Halves every bucket, or one
    Split(operate::Split),
    /// Levels out again now
    Rebalance(operate::Rebalance),
    /// An operator's last resorts, when a majority or a bucket is gone for good
    Recover(operate::Recover),
    /// Puts load on a cluster and measures
    Bench(bench::Arguments),
    /// Simulates clusters under faults and checks every rule after every step
    Sim(simulate::Arguments),
    /// Runs a node's recording again and compares what comes of each input
    Replay(replay::Arguments),
    /// Prints completions for a shell, to be sourced by it
    Completions { shell: Shell },
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
        Some(Command::Kv(arguments)) => kv::run(&arguments),
        Some(Command::Stream(arguments)) => stream::run(&arguments),
        Some(Command::Drain(arguments)) => operate::drain(&arguments),
        Some(Command::Remove(arguments)) => operate::remove(&arguments),
        Some(Command::Split(arguments)) => operate::split(&arguments),
        Some(Command::Rebalance(arguments)) => operate::rebalance(&arguments),
        Some(Command::Recover(arguments)) => operate::recover(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::Sim(arguments)) => simulate::run(&arguments),
        Some(Command::Replay(arguments)) => replay::run(&arguments),
        Some(Command::Completions { shell }) => completions(shell),
        None => dev::run(dev::Arguments::default()),
    };
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        // Whoever read our output has seen enough (`atoll sim … | head`): nobody is left to tell.
        Err(error) if is_broken_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("atoll: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What the node does goes to standard error; `ATOLL_LOG` says how much of it.
fn say_what_happens(usually: &str) {
    let filter = std::env::var("ATOLL_LOG").unwrap_or_else(|_| usually.to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(&filter).unwrap_or_default();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
}

fn completions(shell: Shell) -> anyhow::Result<Outcome> {
    // Through a buffer: the generator panics where writing to a closed pipe fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "atoll", &mut script);
    io::Write::write_all(&mut io::stdout(), &script)?;
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
}
