//! Scenarios: what happens to a cluster, line by line, and what comes of it. For people to read, for tests to compare.
//!
//! A transcript is a text of blocks: commands, a line `----`, what came of them, a blank line. Lines that begin with
//! `#` say what is shown and why it matters. The clusters are the real core behind the real wire codec; the network
//! takes a millisecond, loses nothing unless a command says so, and no dice are thrown outside the core.
//!
//! | file | holds |
//! |---|---|
//! | `stage.rs` | the hosts, the queue of what happens next, links and disks |
//! | `script.rs` | the commands, one arm each |
//! | `show.rs` | commands that only look, and the conditions of `until` |
//! | `teller.rs` | the lines of a block, and which messages are worth one |
//! | `buckets.rs` | commands about buckets: clients and operators |
//! | `table.rs` | what can be seen of buckets: the table, copies, alarms, conditions |
//! | `names.rs`, `words.rs` | ids, entries and events in words |
//! | `letters.rs` | messages in words |
//! | `bucket_words.rs` | orders, reports, answers and messages about buckets in words |
//!
//! Not here: random faults and the rules that every run must keep (`world.rs`, `check/`).

mod bucket_words;
mod buckets;
mod letters;
mod names;
mod script;
mod show;
mod stage;
mod table;
mod teller;
mod words;

use crate::scenario::stage::Stage;

const RULER: &str = "----";

/// Runs the commands of a transcript and gives it as it should be: the same commands, and what came of them.
pub fn run(transcript: &str) -> Result<String, String> {
    let mut stage = Stage::new();
    let mut written = String::new();
    let mut lines = (1..).zip(transcript.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        written.push_str(line);
        written.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        stage.perform(line).map_err(|problem| format!("line {number}: {problem}: {line}"))?;
        let ends = lines.peek().is_none_or(|(_, next)| next.is_empty() || *next == RULER);
        if ends {
            written.push_str(RULER);
            written.push('\n');
            for told in stage.teller.take_lines() {
                written.push_str(&told);
                written.push('\n');
            }
            while lines.next_if(|(_, old)| !old.is_empty()).is_some() {}
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn old_outcomes_are_replaced_and_missing_ones_filled_in() {
        let told = run("# One node.\nfound n1\nuntil n1 leads\n").expect("it is a scenario");
        assert!(told.starts_with("# One node.\nfound n1\nuntil n1 leads\n----\nn1  "), "{told}");
        let again = run(&told.replace("n1  ", "n7  ")).expect("it is a scenario");
        assert_eq!(again, told);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        assert_eq!(run("# A\nfond n1\n"), Err("line 2: no such command: fond n1".to_owned()));
    }
}
