//! The client commands against a development cluster, as a user types them.

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]

#[path = "../../server/tests/common/ports.rs"]
mod ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

const ATOLL: &str = env!("CARGO_BIN_EXE_atoll");

/// A cluster in one process, ended with the test.
struct Dev {
    process: Child,
    stdout: BufReader<ChildStdout>,
    server: String,
    banner: String,
}

/// The first of three free ports in a row. Somebody may take one before it is used; then another is tried.
fn free_base() -> u16 {
    let port = || ports::free_address().port();
    loop {
        let base = port();
        if port() == base + 1 && port() == base + 2 {
            return base;
        }
    }
}

fn try_start() -> Option<Dev> {
    let address = || format!("127.0.0.1:{}", free_base());
    let (http, resp, peer) = (address(), address(), address());
    let mut command = Command::new(ATOLL);
    command.args(["dev", "--http", &http, "--resp", &resp, "--peer", &peer, "--buckets", "16"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut banner = String::new();
    // The last line of the banner; or nothing, where a port was taken.
    while !banner.contains("atoll kv get") {
        if stdout.read_line(&mut banner).unwrap() == 0 {
            process.wait().unwrap();
            return None;
        }
    }
    Some(Dev { process, stdout, server: format!("http://{http}"), banner })
}

fn start() -> Dev {
    (0..10).find_map(|_| try_start()).expect("three free ports in a row, three times")
}

impl Dev {
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(ATOLL).args(arguments).env("ATOLL_SERVER", &self.server).output().unwrap()
    }

    /// What it prints, where it succeeds.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it complains of, where it fails.
    fn complains(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn keys_and_values() {
    let dev = start();
    assert!(dev.banner.contains("3 nodes, 16 buckets"), "{}", dev.banner);
    let written = dev.says(&["kv", "put", "greeting", "hello"]);
    let etag = written.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(dev.says(&["kv", "get", "greeting"]), "hello");
    assert_eq!(dev.says(&["kv", "get", "greeting", "--stale"]), "hello");
    assert!(dev.complains(&["kv", "put", "greeting", "again", "--create"]).contains("nothing was written"));
    dev.says(&["kv", "cas", "greeting", &etag, "good day"]);
    assert!(dev.complains(&["kv", "cas", "greeting", &etag, "too late"]).contains("nothing was written"));
    assert_eq!(dev.says(&["kv", "get", "greeting"]), "good day");
    for key in ["fruit/pear", "fruit/apple", "fruit/a b%"] {
        dev.says(&["kv", "put", key, "1"]);
    }
    assert_eq!(dev.says(&["kv", "scan", "fruit/"]), "fruit/a b%\nfruit/apple\nfruit/pear\n");
    assert_eq!(dev.says(&["kv", "scan", "fruit/", "--limit", "1"]), "fruit/a b%\n");
    dev.says(&["kv", "del", "greeting"]);
    assert!(dev.complains(&["kv", "del", "greeting"]).contains("no key `greeting`"));
    assert!(dev.complains(&["kv", "get", "greeting"]).contains("no key `greeting`"));
}

#[test]
fn values_from_standard_input_are_kept_to_the_byte() {
    let dev = start();
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let mut put = Command::new(ATOLL);
    put.args(["kv", "put", "bytes", "-"]).env("ATOLL_SERVER", &dev.server).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut put = put.spawn().unwrap();
    put.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(dev.run(&["kv", "get", "bytes"]).stdout, bytes);
}

#[test]
fn streams_and_watches() {
    let dev = start();
    assert!(dev.says(&["stream", "publish", "news", "one"]).starts_with("offset 1 "));
    let mut tail = Command::new(ATOLL);
    tail.args(["stream", "tail", "news", "--from", "1"]).env("ATOLL_SERVER", &dev.server).stdout(Stdio::piped());
    let mut tail = tail.spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1 one");
    dev.says(&["stream", "publish", "news", "two"]);
    assert_eq!(lines.next().unwrap().unwrap(), "2 two");
    tail.kill().unwrap();
    tail.wait().unwrap();
    assert_eq!(dev.says(&["stream", "read", "news"]), "1 one\n2 two\n");
    assert_eq!(dev.says(&["stream", "read", "news", "--from", "2"]), "2 two\n");
}

#[test]
fn operators_see_and_change_the_cluster() {
    let dev = start();
    let status = dev.says(&["status"]);
    assert!(status.contains("healthy") && status.contains("n3"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&dev.says(&["status", "--json"])).unwrap();
    assert_eq!((&json["healthy"], &json["buckets"]), (&true.into(), &16.into()));
    let plan = dev.says(&["split", "--bucket", "0", "--plan"]);
    assert!(!plan.contains("nothing would move"), "{plan}");
    dev.says(&["split"]);
    let json: serde_json::Value = serde_json::from_str(&dev.says(&["status", "--json"])).unwrap();
    assert_eq!(json["buckets"], 32);
    let told = dev.complains(&["drain", "nobody"]);
    assert!(told.contains("no_such_node"), "{told}");
    let report = dev.says(&["bench", "--seconds", "1", "--warm-up", "0", "--connections", "4", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["operations"].as_u64().unwrap() > 0 && report["errors"] == 0, "{report}");
}

#[test]
fn an_interrupt_ends_it_cleanly() {
    let mut dev = start();
    let id = dev.process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(dev.process.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    dev.stdout.read_to_string(&mut rest).unwrap();
}

#[test]
fn errors_say_what_to_do() {
    let nowhere = |arguments: &[&str]| {
        let output = Command::new(ATOLL).args(arguments).args(["--server", "http://127.0.0.1:1"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(nowhere(&["status"]).contains("is a node running there?"));
    let serve = |arguments: &[&str]| {
        let output = Command::new(ATOLL).arg("serve").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, told) = serve(&["--name", "n1"]);
    assert!(code == Some(1) && told.contains("--join"), "{told}");
    let (code, told) = serve(&["--name", "n1", "--bootstrap", "n1", "--http", "0.0.0.0:0"]);
    assert!(code == Some(1) && told.contains("--insecure-listen"), "{told}");
    let (code, told) = serve(&["--buckets", "many"]);
    assert!(code == Some(2) && told.contains("many"), "{told}");
}
