//! The binary as a user meets it: what it prints, and how it exits.

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn atoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll")).args(arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A folder of its own for one test, empty at first, removed at the end unless the test fails.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// The largest recording of a short run.
fn record(folder: &Folder) -> PathBuf {
    let recordings = folder.join("recordings");
    let output = atoll(&["sim", "--seed", "1", "--minutes", "0.1", "--record", &recordings]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    let files = fs::read_dir(&recordings).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|file| fs::metadata(file).unwrap().len()).expect("the run wrote a recording")
}

fn replay(file: &Path, more: &[&str]) -> Output {
    atoll(&[&["replay", file.to_str().unwrap()], more].concat())
}

/// The number before `steps` in the replay's last words.
fn steps(output: &Output) -> u64 {
    let text = stdout(output);
    let (_, rest) = text.split_once("replayed ").unwrap_or_else(|| panic!("{text}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn help_is_printed_on_request() {
    for arguments in [&["--help"][..], &["help"]] {
        let output = atoll(arguments);
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("replay"), "{}", stdout(&output));
    }
    let sim = stdout(&atoll(&["sim", "--help"]));
    assert!(sim.contains("1..2000 is 2000 seeds"), "{sim}");
}

#[test]
fn wrong_usage_exits_with_two() {
    for arguments in [
        &["simulate"][..],
        &["sim", "--seed", "many"],
        &["sim", "--seed", "1", "--seeds", "1..2"],
        &["sim", "--seeds", "2..1"],
        &["sim", "--minutes", "0"],
        &["sim", "--jobs", "0"],
        &["replay"],
        &["replay", "a.rec", "--until", "noon"],
        &["completions", "abacus"],
    ] {
        let output = atoll(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(stdout(&output).is_empty(), "{arguments:?}");
        assert!(stderr(&output).contains("--help"), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn completions_are_a_script() {
    let output = atoll(&["completions", "bash"]);
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("_atoll"));
}

#[test]
fn the_same_seed_gives_the_same_digest() {
    let run = || {
        let output = atoll(&["sim", "--seed", "1", "--minutes", "0.1"]);
        assert_eq!(code(&output), 0, "{}", stdout(&output));
        stdout(&output).lines().next().unwrap().to_owned()
    };
    let line = run();
    assert!(line.starts_with("seed 1  digest ") && line.ends_with("  ok"), "{line}");
    assert_eq!(line, run());
}

#[test]
fn seeds_are_told_in_order_whatever_the_number_of_jobs() {
    let run = |jobs: &str| {
        let output = atoll(&["sim", "--seeds", "1..4", "--minutes", "0.05", "--jobs", jobs]);
        assert_eq!(code(&output), 0, "{}", stdout(&output));
        let text = stdout(&output);
        let of_seeds = |line: &&str| line.starts_with("seed ") || line.starts_with("digest ");
        text.lines().filter(of_seeds).map(str::to_owned).collect::<Vec<String>>()
    };
    let lines = run("1");
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[3].starts_with("seed 4  "), "{lines:?}");
    assert_eq!(lines, run("4"));
}

#[test]
fn a_drawn_seed_is_told() {
    let output = atoll(&["sim", "--minutes", "0.01"]);
    let text = stdout(&output);
    let drawn = text.lines().next().unwrap().strip_prefix("no --seed given: drew ").unwrap();
    assert!(text.contains(&format!("seed {drawn}  digest ")), "{text}");
}

#[test]
fn a_recording_is_replayed_without_a_difference() {
    let folder = Folder::new("replay");
    let file = record(&folder);
    let whole = replay(&file, &[]);
    assert_eq!(code(&whole), 0, "{}{}", stdout(&whole), stderr(&whole));
    assert!(stdout(&whole).ends_with("no difference\n"), "{}", stdout(&whole));
    assert!(steps(&whole) > 10, "{}", stdout(&whole));

    let stepped = stdout(&replay(&file, &["--step"]));
    assert!(stepped.contains("\nstep 0  "), "{stepped}");
    assert!(stepped.contains("send to "), "{stepped}");

    let begun = stdout(&whole).split_once("begun at ").unwrap().1.split(',').next().unwrap().to_owned();
    let stopped = replay(&file, &["--until", &begun]);
    assert_eq!(code(&stopped), 0);
    assert!(steps(&stopped) < steps(&whole) && stdout(&stopped).contains("the recording goes on"));
}

#[test]
fn a_flipped_byte_is_reported() {
    let folder = Folder::new("flipped");
    let file = record(&folder);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let output = replay(&file, &[]);
    assert_eq!(code(&output), 1, "{}", stdout(&output));
    assert!(stderr(&output).contains("cannot be replayed"), "{}", stderr(&output));
}

#[test]
fn a_recording_cut_off_in_the_middle_is_replayed_up_to_the_cut() {
    let folder = Folder::new("cut");
    let file = record(&folder);
    let whole = steps(&replay(&file, &[]));
    let bytes = fs::read(&file).unwrap();
    // One of three cuts in a row is inside a frame: no frame is that small.
    let cuts = [0, 1, 2].map(|more| {
        fs::write(&file, &bytes[..bytes.len() / 2 + more]).unwrap();
        let output = replay(&file, &[]);
        assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
        assert!(steps(&output) > 0 && steps(&output) < whole, "{}", stdout(&output));
        stdout(&output).contains("cut off at byte")
    });
    assert!(cuts.contains(&true));
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = Folder::new("foreign");
    let file = folder.join("notes.txt");
    fs::write(&file, "not a recording").unwrap();
    for file in [file, folder.join("absent.rec")] {
        let output = atoll(&["replay", &file]);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains(&file), "{}", stderr(&output));
    }
}
