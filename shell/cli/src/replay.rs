//! `atoll replay`: runs a recording again and tells the first step that had another result.
//!
//! Not here: the comparison (`atoll_wire::replay`), how inputs and outputs read to a person (`atoll_server::describe`).

use crate::Outcome;
use crate::report::panic_message;
use crate::watching;
use anyhow::Context;
use atoll_server::describe;
use atoll_types::Time;
use atoll_wire::{Came, Difference, End, Replay, Step};
use clap::Args;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A recording that `atoll serve --record DIR` or `atoll sim --record DIR` wrote, or the folder: then all in it
    file: PathBuf,
    /// Stops before the first input after this time, in seconds of the node's own clock, as --step prints them
    #[arg(long, value_name = "SECONDS", value_parser = time)]
    until: Option<Time>,
    /// Prints each input and what came of it
    #[arg(long)]
    step: bool,
    /// Shows it in a browser, moment by moment, at this address [default: 127.0.0.1:8090]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = watching::ADDRESS)]
    #[arg(conflicts_with = "step")]
    serve: Option<String>,
}

/// Digit by digit: a time of today has more digits than a floating-point number holds exactly.
fn time(text: &str) -> Result<Time, String> {
    let wrong = || format!("`{text}` is not a time in seconds, for example 31.2");
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 6 {
        return Err(wrong());
    }
    let micros: u64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000).and_then(|whole| whole.checked_add(micros)).map(Time).ok_or_else(wrong)
}

/// What was done so far.
#[derive(Debug, Default)]
struct Progress {
    steps: u64,
    compared: u64,
    last: Time,
    /// The last step of the recording does not tell what came of it.
    unfinished: bool,
    /// `--until` ended the replay before the recording's end.
    stopped: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if !arguments.file.is_dir() {
        return replay(&arguments.file, arguments);
    }
    let folder = arguments.file.display();
    if arguments.serve.is_some() {
        anyhow::bail!("{folder} is a folder: --serve shows one recording, so name one of those in it");
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&arguments.file).with_context(|| format!("could not read {folder}"))? {
        files.extend(Some(entry?.path()).filter(|path| path.extension().is_some_and(|extension| extension == "rec")));
    }
    files.sort();
    if files.is_empty() {
        anyhow::bail!("there is no recording (*.rec) in {folder}");
    }
    let mut failed = false;
    for file in &files {
        println!("{}", file.display());
        match replay(file, arguments) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Failed) => failed = true,
            // The others are worth a look all the same.
            Err(error) => {
                failed = true;
                println!("{error:#}");
            }
        }
        println!();
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

fn replay(path: &Path, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let file = path.display();
    let bytes = fs::read(path).with_context(|| format!("could not read {file}"))?;
    let mut replay = Replay::open(&bytes).with_context(|| format!("{file} cannot be replayed"))?;
    let mut out = BufWriter::new(io::stdout().lock());
    let header = replay.header();
    let (name, address, build, machine) =
        (&header.config.name, &header.config.address, &header.build, describe::machine(header.machine));
    writeln!(out, "recording of {machine}{name} at {address}, begun at {}, by version {build}", header.now)?;
    if build != env!("CARGO_PKG_VERSION") {
        writeln!(out, "this is version {}: it may behave differently, rightly so", env!("CARGO_PKG_VERSION"))?;
    }
    if let Some(address) = &arguments.serve {
        out.flush()?;
        drop(out);
        watching::show(address, watching::recording(&mut replay, arguments.until))?;
        return Ok(Outcome::Done);
    }
    let mut progress = Progress { last: header.now, ..Progress::default() };
    let outcome = go(&mut replay, arguments, &mut progress, &mut out)?;
    conclude(&replay, &progress, outcome, &mut out)?;
    out.flush()?;
    Ok(outcome)
}

/// Steps until the end, `--until`, or the first difference.
fn go(
    replay: &mut Replay<'_>,
    arguments: &Arguments,
    progress: &mut Progress,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    while let Some((now, input)) = replay.ahead() {
        if arguments.until.is_some_and(|until| now > until) {
            progress.stopped = true;
            break;
        }
        let (index, input) = (progress.steps, input.cloned());
        let heading = || format!("step {index}  {now}  {}", describe::step(index, input.as_ref()));
        if arguments.step {
            writeln!(out, "{}", heading())?;
            // Before the step: a node that fails in it must not take with it what it failed at.
            out.flush()?;
        }
        match panic::catch_unwind(AssertUnwindSafe(|| replay.step())) {
            Ok(Ok(Some(Step { now, outputs, compared, .. }))) => {
                progress.steps += 1;
                progress.compared += u64::from(compared);
                progress.last = now;
                progress.unfinished = !compared;
                if arguments.step {
                    tell_outputs(&outputs, out)?;
                }
            }
            Ok(Ok(None)) => break,
            Ok(Err(difference)) => {
                tell_difference(&difference, heading, arguments.step, out)?;
                return Ok(Outcome::Failed);
            }
            Err(payload) => {
                let message = panic_message(&*payload);
                writeln!(out, "FAILED in step {}, at {now}: {message}", progress.steps)?;
                if !arguments.step {
                    writeln!(out, "{}", heading())?;
                }
                return Ok(Outcome::Failed);
            }
        }
    }
    Ok(Outcome::Done)
}

fn tell_outputs(outputs: &[Came], out: &mut impl Write) -> io::Result<()> {
    for output in outputs {
        writeln!(out, "    {}", describe::came(output))?;
    }
    Ok(())
}

fn tell_difference(
    difference: &Difference,
    heading: impl Fn() -> String,
    told: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "DIFFERENCE in {difference}")?;
    if !told {
        writeln!(out, "{}", heading())?;
    }
    writeln!(out, "  the replay gave {} outputs:", difference.outputs.len())?;
    tell_outputs(&difference.outputs, out)
}

fn conclude(replay: &Replay<'_>, progress: &Progress, outcome: Outcome, out: &mut impl Write) -> io::Result<()> {
    let Progress { steps, compared, last, unfinished, stopped } = progress;
    writeln!(out, "replayed {steps} steps, up to {last}; compared the digests of {compared}")?;
    match outcome {
        Outcome::Failed => return Ok(()),
        Outcome::Done => {}
    }
    if *stopped {
        return writeln!(out, "stopped there: the recording goes on");
    }
    match replay.end() {
        Some(End::Stopped) => writeln!(out, "the recording ends there: the node was stopped")?,
        Some(End::Limit { bytes }) => {
            writeln!(
                out,
                "the recording ends there, since it had reached its limit of {bytes} bytes; the node went on"
            )?;
        }
        Some(End::Behind) => {
            writeln!(out, "the recording ends there, since it could not be written in time; the node went on")?;
        }
        None => {}
    }
    if let Some(byte) = replay.cut() {
        writeln!(out, "the recording is cut off at byte {byte}: what followed is not known")?;
    }
    if *unfinished {
        writeln!(out, "the recording does not tell what came of its last step, so that was not compared")?;
    }
    writeln!(out, "no difference")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_to_the_microsecond() {
        assert_eq!(time("31"), Ok(Time(31_000_000)));
        assert_eq!(time("31.2"), Ok(Time(31_200_000)));
        assert_eq!(time("1763251234.204117"), Ok(Time(1_763_251_234_204_117)));
        for text in ["", ".5", "1.", "-1", "1.2345678", "1e3", "99999999999999999999"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
