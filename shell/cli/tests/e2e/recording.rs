//! Nodes that record what they are told, under load, while one is killed; and what a replay makes of the files.

use crate::cluster::{Cluster, holds_in_time};
use crate::load::Load;
use std::path::{Path, PathBuf};
use std::process::Command;

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Whether a replay found no difference, and what it said.
fn replay(path: &Path, more: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_atoll")).arg("replay").arg(path).args(more).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), told)
}

/// Records with one node killed and started again, and all stopped in the end. Of three nodes, four lives.
fn record(durable: bool) -> PathBuf {
    let folder = Cluster::scratch();
    let flags = ["--log-bytes", "1048576", "--shards", "2", "--record", folder.to_str().unwrap()];
    let mut cluster = Cluster::prepare(3, &flags);
    if durable {
        cluster.keep_data();
    }
    cluster.start_all();
    cluster.wait_until_healthy();
    let load = Load::start("recorded", cluster.http());
    cluster.kill(1);
    load.run_for_a_while();
    cluster.start_node(1);
    cluster.wait_until_healthy();
    load.end();
    (0..3).for_each(|node| cluster.stop(node));
    folder
}

fn check(folder: &Path) {
    let files = recordings(folder);
    assert_eq!(files.len(), 4 * 3, "of four lives, the cluster machine and two shards: {files:?}");
    let (mut stopped, mut compared) = (0, 0);
    for file in &files {
        let (clean, told) = replay(file, &[]);
        assert!(clean && told.contains("no difference"), "{}: {told}", file.display());
        stopped += usize::from(told.contains("the node was stopped"));
        let digests = told.split("compared the digests of ").nth(1).and_then(|rest| rest.split_whitespace().next());
        compared += digests.unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(stopped, 3 * 3, "all but the one that was killed");
    assert!(compared > 1000, "{compared} digests");
}

#[test]
fn what_nodes_in_memory_recorded_replays() {
    let folder = record(false);
    check(&folder);
    let (clean, told) = replay(&folder, &[]);
    assert!(clean, "the folder as a whole: {told}");
    // A frame in the middle that was damaged is told, and not replayed.
    let longest = recordings(&folder).into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&longest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&longest, bytes).unwrap();
    let (clean, told) = replay(&longest, &[]);
    assert!(!clean && told.contains("damaged at byte"), "{told}");
    let (clean, told) = replay(&folder, &[]);
    assert!(!clean && told.contains("damaged at byte") && told.contains("no difference"), "{told}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_nodes_with_disks_recorded_replays() {
    let folder = record(true);
    check(&folder);
    let shard = recordings(&folder).into_iter().find(|path| path.to_string_lossy().contains("shard-0")).unwrap();
    let (clean, told) = replay(&shard, &["--step"]);
    assert!(clean && told.contains("from the cluster machine: this is") && told.contains("write record"), "{told}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_recording_ends_at_its_limit_and_the_node_goes_on() {
    let folder = Cluster::scratch();
    let flags = ["--record", folder.to_str().unwrap(), "--record-bytes", "200000"];
    let mut cluster = Cluster::prepare(1, &flags);
    cluster.start_all();
    cluster.wait_until_healthy();
    let load = Load::start("limited", cluster.http());
    let all_end = || {
        load.run_for_a_while();
        recordings(&folder).iter().all(|file| replay(file, &[]).1.contains("its limit of 200000 bytes"))
    };
    assert!(holds_in_time(all_end), "{:?}", recordings(&folder));
    load.end();
    let bytes: u64 = recordings(&folder).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes < 600_000, "{bytes} bytes");
    for file in recordings(&folder) {
        let (clean, told) = replay(&file, &[]);
        assert!(clean && told.contains("no difference"), "{told}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
