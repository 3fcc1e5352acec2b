//! The load generator against a cluster of Atoll in this process, for a moment. Nobody else is needed.

#[path = "../../../shell/server/tests/common/ports.rs"]
mod ports;

use atoll_server::{Server, Settings};
use std::process::Command;
use std::time::{Duration, Instant};

fn start() -> Vec<Server> {
    let peers: Vec<String> = (0..3).map(|_| ports::free_address().to_string()).collect();
    let names: Vec<String> = (1..=3).map(|node| format!("n{node}")).collect();
    let settings = |node: usize| Settings {
        name: names[node].clone(),
        peer: peers[node].clone(),
        http: "127.0.0.1:0".to_owned(),
        resp: "127.0.0.1:0".to_owned(),
        join: peers.clone(),
        bootstrap: names.clone(),
        ..Settings::default()
    };
    let servers: Vec<Server> = (0..3).map(|node| Server::start(settings(node)).expect("a free port")).collect();
    let begun = Instant::now();
    while !servers.iter().all(|server| server.gateway.board().status().healthy) {
        assert!(begun.elapsed() < Duration::from_secs(60), "never healthy");
        std::thread::sleep(Duration::from_millis(5));
    }
    servers
}

/// The lab puts load on it, and says how much was answered.
fn load(words: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_atoll-lab")).arg("load").args(words).output().expect("the lab runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("\n0 errors"), "{said}");
    said
}

#[test]
fn every_key_is_written_once_and_then_read_over_either_protocol() {
    let servers = start();
    let resp: Vec<String> = servers.iter().map(|server| server.resp.to_string()).collect();
    let http = servers[0].http.to_string();
    // Counted: all of these keys are there in the end, whichever connection wrote them.
    let counted = ["--connections", "7", "--depth", "16", "--count", "1000"];
    assert!(load(&[&["resp", resp.join(",").as_str()], &counted[..]].concat()).starts_with("1000 operations"));
    let short = ["--connections", "4", "--seconds", "0.3"];
    let words = |first: &[&str], rest: &[&str]| load(&[first, rest].concat());
    for said in [
        words(&["resp", &resp[0], "--work", "get", "--depth", "4"], &short),
        words(&["atoll-http", &http], &short),
        // Who asks for a key that is not there is told so, which counts as an error.
        words(&["atoll-http", &http, "--work", "get", "--count", "1000"], &["--connections", "4"]),
    ] {
        assert!(!said.starts_with("0 operations"), "{said}");
    }
    servers.into_iter().for_each(Server::kill);
}

#[test]
fn a_node_that_is_not_there_is_an_error_and_not_a_figure() {
    let nowhere = ports::free_address().to_string();
    let words = ["load", "resp", &nowhere, "--connections", "2", "--seconds", "0.1"];
    let out = Command::new(env!("CARGO_BIN_EXE_atoll-lab")).args(words).output().expect("the lab runs");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.starts_with("0 operations"), "{said}");
    assert!(!out.status.success(), "{said}");
}
