//! `cargo xtask micro`: how many instructions the core's hot operations take, held against a committed baseline.
//!
//! Counts hardly depend on the machine or on what else it does, so a few percent show. Each operation is run twice
//! under valgrind, the second time twice as often: the difference is free of what starting costs.

use super::cargo;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const BASELINE: &str = "bench/micro/baseline.txt";
/// An operation that takes this much more than its baseline, in percent, fails.
const MORE_MOST: f64 = 5.0;

const HEAD: &str = "\
# Instructions of one operation, all nodes together. Written by `cargo xtask micro --update`; see docs/performance.md.
";

/// Compares, or with `update` writes the baseline anew.
pub(crate) fn run(root: &Path, update: bool) -> Result<(), String> {
    cargo(root, &["build", "--release", "--package", "atoll-micro"], &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target").into());
    let program = Path::new(&target).join("release/atoll-micro");
    let known = baseline(&std::fs::read_to_string(root.join(BASELINE)).unwrap_or_default());
    let mut text = HEAD.to_owned();
    let mut worse = Vec::new();
    println!("{:<16} {:>12} {:>12}", "", "baseline", "now");
    for name in names(&program)? {
        let count = count(&program, &name)?;
        let before = known.get(&name).copied();
        let change = before.map(|before| (count as f64 / before.max(1) as f64 - 1.0) * 100.0);
        let shown = change.map_or("new".to_owned(), |change| format!("{change:+.1}%"));
        println!("{name:<16} {:>12} {count:>12}  {shown}", before.unwrap_or_default());
        if change.is_none_or(|change| change > MORE_MOST) {
            worse.push(name.clone());
        }
        text.push_str(&format!("{name} {count}\n"));
    }
    if update {
        return std::fs::write(root.join(BASELINE), text).map_err(|error| format!("{BASELINE}: {error}"));
    }
    if worse.is_empty() {
        return Ok(());
    }
    let worse = worse.join(", ");
    Err(format!("more than {MORE_MOST}% above {BASELINE}: {worse}. If that is meant: cargo xtask micro --update"))
}

fn baseline(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
        .collect()
}

fn names(program: &Path) -> Result<Vec<String>, String> {
    let output =
        Command::new(program).arg("list").output().map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Instructions of one operation.
fn count(program: &Path, name: &str) -> Result<u64, String> {
    // Whole batches of 256, and enough of them that the first, which finds everything empty, does not count.
    let times = if name.starts_with("frame") || name.starts_with("ack") { 128 } else { 2560 };
    let (once, twice) = (collected(program, name, times)?, collected(program, name, times * 2)?);
    Ok(twice.saturating_sub(once) / times)
}

fn collected(program: &Path, name: &str, times: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([name, &times.to_string()])
        .output()
        .map_err(|error| format!("valgrind could not be started ({error}): install the package `valgrind`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    count.filter(|_| output.status.success()).ok_or_else(|| format!("`{name}` could not be counted:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_names_and_numbers() {
        let known = baseline(&format!("{HEAD}write-1 22000\nread-1 17\nnonsense\nmore x\n"));
        assert_eq!(known.into_iter().collect::<Vec<_>>(), [("read-1".to_owned(), 17), ("write-1".to_owned(), 22_000)]);
    }
}
