//! Rules about Rust files, and about names and blanks in every file.
//!
//! Not here: the rules about Markdown (`prose`), about manifests (`crates`).

use super::Complaint;
use super::mask::{is_word, mask};

const LINES_MOST: usize = 600;
pub(super) const COLUMNS_MOST: usize = 120;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helpers", "misc"];

const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// What the core may not touch: it is the same machine in a simulation, in a replay and for real only because time,
/// randomness and IO come in through its door.
const WALLED_OFF: &[&str] =
    &["tokio", "std::fs", "std::net", "std::thread", "std::time::Instant", "std::time::SystemTime"];

/// The mark behind a `_ =>` that is meant, before the reason.
const EXCUSE: &str = "// tidy: ";

pub(super) fn check_name(path: &str) -> Vec<Complaint> {
    let is_empty_name = |part: &str| {
        let stem = part.split_once('.').map_or(part, |(stem, _)| stem);
        EMPTY_NAMES.contains(&stem)
    };
    match path.split('/').find(|part| is_empty_name(part)) {
        Some(part) => vec![Complaint::new(path, 1, format!("`{part}` says nothing: name it for what it does"))],
        None => Vec::new(),
    }
}

pub(super) fn check_blanks(path: &str, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (line, content) in numbered(text) {
        if content.contains('\t') {
            complaints.push(Complaint::new(path, line, "a tab: use spaces"));
        }
        if content.ends_with([' ', '\r']) {
            complaints.push(Complaint::new(path, line, "blanks at the end of the line"));
        }
    }
    complaints
}

pub(super) fn check(path: &str, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push(Complaint::new(path, 1, "open with a `//!` line that says what this file is"));
    }
    let count = text.lines().count();
    if count > LINES_MOST {
        let what = format!("{count} lines; no file has more than {LINES_MOST}: split it by what its parts do");
        complaints.push(Complaint::new(path, LINES_MOST + 1, what));
    }
    for (line, content) in numbered(text) {
        let columns = content.chars().count();
        if columns > COLUMNS_MOST {
            complaints.push(Complaint::new(path, line, format!("{columns} columns, more than {COLUMNS_MOST}")));
        }
    }
    let code = mask(text);
    for (line, content) in numbered(&code) {
        for name in UNFINISHED {
            if occurs(content, name) {
                complaints.push(Complaint::new(path, line, format!("`{name}` is for work in progress")));
            }
        }
    }
    if path.starts_with("core/") {
        // A benchmark of the core runs outside of it, and needs a clock.
        if !path.contains("/benches/") {
            complaints.extend(check_wall(path, &code));
        }
        complaints.extend(check_arms(path, text, &code));
    }
    complaints
}

/// The core stays pure, however the path is written.
fn check_wall(path: &str, code: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (line, used) in paths(code) {
        let is_beneath = |wall: &&&str| used == **wall || used.starts_with(&format!("{wall}::"));
        if let Some(wall) = WALLED_OFF.iter().find(is_beneath) {
            complaints.push(Complaint::new(path, line, format!("`{wall}` has no place in the core")));
        }
    }
    complaints
}

/// A `_ =>` swallows the message that somebody adds next year; without it the compiler asks what to do.
fn check_arms(path: &str, text: &str, code: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for ((line, content), original) in numbered(code).zip(text.lines()) {
        let excused = original.split_once(EXCUSE).is_some_and(|(_, reason)| !reason.trim().is_empty());
        if has_wildcard_arm(content) && !excused {
            let what = format!("`_ =>` swallows what is added later: list the rest, or say why with `{EXCUSE}…`");
            complaints.push(Complaint::new(path, line, what));
        }
    }
    complaints
}

fn has_wildcard_arm(content: &str) -> bool {
    content.match_indices("=>").any(|(arrow, _)| {
        let pattern = content[..arrow].trim_end();
        pattern.strip_suffix('_').is_some_and(|before| !before.ends_with(is_word))
    })
}

/// Does `name` occur as a whole word?
fn occurs(content: &str, name: &str) -> bool {
    content.match_indices(name).any(|(at, _)| !content[..at].ends_with(is_word))
}

/// Every path of the code, with the line it begins in: `std::{fs, time::{Duration, Instant}}` gives `std::fs`,
/// `std::time::Duration` and `std::time::Instant`. A rule that compared lines would miss those.
fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // What stands before each open brace that belongs to a path; nothing for any other brace.
    let mut prefixes: Vec<String> = Vec::new();
    let mut path = String::new();
    let mut line = 1;
    for character in code.chars() {
        if is_word(character) || character == ':' {
            path.push(character);
            continue;
        }
        let is_prefix = character == '{' && path.ends_with("::");
        if is_prefix {
            let outer = prefixes.last().map_or("", String::as_str);
            prefixes.push(format!("{outer}{}", path.trim_start_matches(':')));
        } else {
            let outer = prefixes.last().map_or("", String::as_str);
            let whole = format!("{outer}{}", path.trim_matches(':'));
            if !path.is_empty() {
                found.push((line, whole));
            }
            if character == '{' {
                prefixes.push(String::new());
            }
        }
        path.clear();
        if character == '}' {
            prefixes.pop();
        }
        if character == '\n' {
            line += 1;
        }
    }
    if !path.is_empty() {
        found.push((line, path));
    }
    found
}

/// Lines, counted from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.split('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(complaints: &[Complaint]) -> Vec<usize> {
        complaints.iter().map(|complaint| complaint.line).collect()
    }

    #[test]
    fn a_file_says_what_it_is() {
        assert_eq!(lines(&check("sim/a.rs", "fn a() {}\n")), [1]);
        assert_eq!(check("sim/a.rs", "//! A.\n"), []);
    }

    #[test]
    fn long_files_and_long_lines_are_named() {
        assert_eq!(lines(&check("sim/a.rs", &format!("//! A.\n{}", "\n".repeat(600)))), [601]);
        assert_eq!(check("sim/a.rs", &format!("//! A.\n{}", "\n".repeat(599))), []);
        assert_eq!(lines(&check("sim/a.rs", &format!("//! A.\n\n//{}\n", "é".repeat(119)))), [3]);
        assert_eq!(check("sim/a.rs", &format!("//! A.\n\n//{}\n", "é".repeat(118))), []);
    }

    #[test]
    fn unfinished_work_is_named_and_talk_of_it_is_not() {
        let text =
            "//! A todo!() in words.\nfn a() {\n    todo!()\n}\nfn b() { dbg!(\"unimplemented!\"); }\nmy_todo!();";
        assert_eq!(lines(&check("sim/a.rs", text)), [3, 5]);
    }

    #[test]
    fn blanks_are_named() {
        assert_eq!(lines(&check_blanks("a.md", "a\n\tb\nc \nd\r\n")), [2, 3, 4]);
        assert_eq!(check_blanks("a.md", "a\nb\n"), []);
    }

    #[test]
    fn names_that_say_nothing_are_named() {
        assert_eq!(check_name("core/node/src/utils.rs").len(), 1);
        assert_eq!(check_name("core/misc/src/lib.rs").len(), 1);
        assert_eq!(check_name("core/node/src/utility.rs"), []);
    }

    #[test]
    fn the_core_has_no_io_however_it_is_written() {
        for line in [
            "use std::fs;",
            "use std::{fmt, fs};",
            "use std::{fmt, time::{Duration, Instant}};",
            "use std::time::{Duration, SystemTime as Clock};",
            "let socket = ::std::net::TcpStream::connect(a);",
            "use tokio::sync::mpsc;",
            "std::thread::spawn(f);",
            "pub use std::{\n    net::{\n  TcpStream}};",
        ] {
            let complaints = check("core/node/src/a.rs", &format!("//! A.\n{line}\n"));
            assert_eq!(complaints.len(), 1, "{line}: {complaints:?}");
            assert_eq!(check("sim/src/a.rs", &format!("//! A.\n{line}\n")), [], "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_io_is_allowed() {
        for line in [
            "use std::time::Duration;",
            "use std::{fmt, time::Duration};\nstruct Instant;",
            "thread_local! { static A: u8 = 0; }",
            "// std::fs is not used",
            "let a = \"tokio::spawn\";",
            "use crate::{fs, net};",
            "fn fs() { std::mem::drop(net::a) }",
        ] {
            assert_eq!(check("core/node/src/a.rs", &format!("//! A.\n{line}\n")), [], "{line}");
        }
    }

    #[test]
    fn a_catch_all_in_the_core_needs_its_reason() {
        let arm = |arm: &str| check("core/paxos/src/a.rs", &format!("//! A.\n    {arm}\n")).len();
        assert_eq!(arm("_ => {}"), 1);
        assert_eq!(arm("A | _ => {}"), 1);
        assert_eq!(arm("_ => {} // tidy:  "), 1);
        assert_eq!(arm("_ => {} // tidy: a byte has too many values to list"), 0);
        assert_eq!(arm("Some(_) => {}"), 0);
        assert_eq!(arm("name_ => {}"), 0);
        assert_eq!(arm("\"_ =>\" => {}"), 0);
        assert_eq!(check("shell/cli/src/a.rs", "//! A.\n_ => {}\n"), []);
    }
}
