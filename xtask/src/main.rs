//! `cargo xtask …`: the chores of this repository. `ci` only looks, `fix` writes.
//!
//! Not here: what a continuous-integration machine runs (`.ci/run`); the rules of `tidy` (`tidy/*.rs`).

mod micro;
mod package;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  ci      formatting, clippy, tidy, all tests; never writes
  fix     lets clippy and rustfmt repair what they can, and writes the scenario transcripts anew
  tidy    checks what no compiler checks: layout, dependency direction, links, names
  bench   runs the simulator's benchmark, and the core's by the clock
  micro   counts the instructions of the core's hot operations, and fails where they are over the baseline by more
          than 5%; `micro --update` writes the baseline anew. Needs valgrind
  deb     builds the Debian package and unpacks it into a folder; needs cargo-deb";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let done = match words.as_slice() {
        ["ci"] => ci(&root),
        ["fix"] => fix(&root),
        ["tidy"] => tidy(&root),
        ["bench"] => bench(&root),
        ["micro"] => micro::run(&root, false),
        ["micro", "--update"] => micro::run(&root, true),
        ["deb"] => package::deb(&root),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        [] => return usage("no command given"),
        [..] => return usage(&format!("no such command: {}", words.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

fn usage(what: &str) -> ExitCode {
    eprintln!("xtask: {what}\n\n{HELP}");
    ExitCode::from(2)
}

/// The root of the repository. Cargo tells at run time where this package lies; a path compiled in would point at the
/// wrong place once the repository or its target directory has moved.
fn root() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(xtask) => Path::new(&xtask).join(".."),
        None => PathBuf::from("."),
    }
}

fn ci(root: &Path) -> Result<(), String> {
    cargo(root, &["fmt", "--all", "--check"], &[])?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    tidy(root)?;
    cargo(root, &["test"], &[])
}

fn fix(root: &Path) -> Result<(), String> {
    let clippy = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"];
    cargo(root, &clippy, &[])?;
    // After clippy, whose repairs are not always formatted.
    cargo(root, &["fmt", "--all"], &[])?;
    cargo(root, &["test", "--package", "atoll-sim", "--test", "scenarios"], &[("UPDATE_TRANSCRIPTS", "1")])
}

fn bench(root: &Path) -> Result<(), String> {
    cargo(root, &["bench", "--package", "atoll-sim"], &[])?;
    cargo(root, &["run", "--release", "--package", "atoll-micro"], &[])
}

fn tidy(root: &Path) -> Result<(), String> {
    let complaints = tidy::run(root).map_err(|error| format!("tidy could not read the repository: {error}"))?;
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => {
            println!("tidy: nothing to complain about");
            Ok(())
        }
        1 => Err("tidy: 1 complaint".to_owned()),
        count => Err(format!("tidy: {count} complaints")),
    }
}

/// Runs cargo at the root and says how long it took.
fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    println!("== {shown}");
    let begun = Instant::now();
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        // Points at this package, which is not what the child works on.
        .env_remove("CARGO_MANIFEST_DIR")
        .current_dir(root)
        .status()
        .map_err(|error| format!("could not start `{shown}`: {error}"))?;
    println!("== {:.1} s", begun.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}")) }
}
