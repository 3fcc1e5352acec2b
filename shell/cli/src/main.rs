//! `atoll`: the one binary. Exit codes: 0 done, 1 failed, 2 wrong usage.
//!
//! Not here: what a command does (a file each), how inputs and outputs read to a person (`atoll_server::describe`).

mod replay;
mod report;
mod seeds;
mod simulate;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::io;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "atoll", version, about = "A partitioned, replicated atomic log")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
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
        Some(Command::Sim(arguments)) => simulate::run(&arguments),
        Some(Command::Replay(arguments)) => replay::run(&arguments),
        Some(Command::Completions { shell }) => completions(shell),
        None => Arguments::command().print_help().map(|()| Outcome::Done).map_err(anyhow::Error::from),
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
