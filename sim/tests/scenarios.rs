//! Every transcript of `sim/scenarios` says what really happens. With `UPDATE_TRANSCRIPTS=1` they are written anew.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines around a difference.
const AROUND: usize = 3;

fn transcripts() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = fs::read_dir(directory).expect("there is a directory of scenarios");
    let paths = entries.map(|entry| entry.expect("its entries can be read").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    paths.sort();
    paths
}

/// The first place where the two differ, with what stands around it.
fn difference(written: &str, happened: &str) -> Option<String> {
    let (written, happened): (Vec<&str>, Vec<&str>) = (written.lines().collect(), happened.lines().collect());
    let same = written.iter().zip(&happened).take_while(|(one, other)| one == other).count();
    if same == written.len() && same == happened.len() {
        return None;
    }
    // From the end as well, so that one line more or less does not make all that follow look different.
    let rest = written.len().min(happened.len()) - same;
    let backwards = written.iter().rev().zip(happened.iter().rev()).take(rest);
    let end = backwards.take_while(|(one, other)| one == other).count();
    let mut text = format!("line {}:\n", same + 1);
    let mut say = |mark: &str, lines: &[&str]| {
        lines.iter().for_each(|line| text += &format!("  {mark} {line}\n"));
    };
    say(" ", &written[same.saturating_sub(AROUND)..same]);
    say("-", &written[same..written.len() - end]);
    say("+", &happened[same..happened.len() - end]);
    let after = written.len() - end;
    say(" ", &written[after..(after + AROUND).min(written.len())]);
    Some(text)
}

#[test]
fn every_transcript_says_what_happens() {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    let paths = transcripts();
    assert!(!paths.is_empty(), "there are transcripts");
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let written = fs::read_to_string(&path).expect("a transcript can be read");
        match atoll_sim::scenario::run(&written) {
            Err(problem) => wrong.push(format!("{name}, {problem}")),
            Ok(happened) if happened.contains(" still not: ") => {
                wrong.push(format!("{name}: what it waits for never comes"))
            }
            Ok(happened) if update => {
                if happened != written {
                    fs::write(&path, happened).expect("a transcript can be written");
                }
            }
            Ok(happened) => {
                if let Some(difference) = difference(&written, &happened) {
                    wrong.push(format!("{name}, {difference}"));
                }
            }
        }
    }
    let advice = "`UPDATE_TRANSCRIPTS=1 cargo test -p atoll-sim --test scenarios` writes them anew; read the diff";
    assert!(
        wrong.is_empty(),
        "transcripts that differ (- as written, + as it happens):\n{}\n{advice}",
        wrong.join("\n")
    );
}

#[test]
fn a_difference_is_shown_where_it_is() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    let shown = difference("a\nb\nc\n", "a\nx\ny\nc\n").expect("they differ");
    assert_eq!(shown, "line 2:\n    a\n  - b\n  + x\n  + y\n    c\n");
}
