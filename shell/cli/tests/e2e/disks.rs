//! Disks that are full, taken, or somebody else's; and how long a log becomes.

use crate::cluster::{Cluster, wait};
use crate::http;
use crate::load::Load;
use crate::ports::free_address;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_node_whose_disk_is_full_stops_and_the_others_go_on() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("full", cluster.http());
    cluster.limit_files(1, 1);
    assert!(!cluster.wait_for_the_end(1), "it ended with an error");
    load.run_for_a_while();
    cluster.start_node(1);
    cluster.wait_until_healthy();
    load.end();
}

/// A file system of so many bytes, as long as this lives.
struct Small(PathBuf);

impl Small {
    /// None where this process may not mount anything.
    fn mount(path: &Path, bytes: u64) -> Option<Small> {
        std::fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(path);
        let output = mount.output().ok()?;
        output.status.success().then(|| Small(path.to_owned()))
    }

    fn resize(&self, bytes: u64) {
        let options = format!("remount,size={bytes}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Not a limit that somebody else sets, as above, but a file system without a free block.
#[test]
fn a_node_without_space_left_stops_and_loses_nothing_that_was_acknowledged() {
    let mut cluster = Cluster::prepare(3, &["--log-bytes", "1048576"]);
    cluster.keep_data();
    let directory = cluster.directory(1);
    let Some(disk) = Small::mount(&directory, 12 << 20) else {
        println!("skipped: this process may not mount a small file system (that needs root)");
        let _ = std::fs::remove_dir_all(directory.parent().unwrap());
        return;
    };
    let told = Cluster::scratch();
    cluster.start_node(0);
    cluster.start_node_telling(1, &told);
    cluster.start_node(2);
    cluster.wait_until_healthy();
    let load = Load::start("space", cluster.http());
    let value = vec![b'v'; 100_000];
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let path = format!("/v1/kv/large-{number}");
        let put = http::send(cluster.nodes[0].http, "PUT", &path, &[], &value);
        if put.is_ok_and(|reply| reply.status == 200 || reply.status == 201) {
            acknowledged.push(path);
        }
        if !cluster.runs(1) {
            break;
        }
        assert!(number < 1000, "100 MB do not fit in 12");
    }
    assert!(!cluster.wait_for_the_end(1), "it ended with an error");
    let words = std::fs::read_to_string(&told).unwrap();
    assert!(words.contains("the disk failed") && words.contains("No space left on device"), "{words}");
    assert!(words.contains("started again, this node goes on from what is safe"), "{words}");
    load.run_for_a_while();
    disk.resize(256 << 20);
    cluster.start_node(1);
    cluster.wait_until_healthy();
    load.end();
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
    for path in &acknowledged {
        let reply = http::get(cluster.nodes[1].http, path).unwrap();
        assert_eq!((reply.status, reply.body.len()), (200, value.len()), "{path}");
    }
    drop(cluster);
    drop(disk);
    std::fs::remove_file(&told).unwrap();
    let _ = std::fs::remove_dir_all(directory.parent().unwrap());
}

/// What a node of this name says that is started with this directory, and does not run.
fn last_words(name: &str, directory: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(["serve", "--name", name, "--bootstrap", name]);
    for port in ["--peer", "--http", "--resp"] {
        command.args([port, &free_address().to_string()]);
    }
    let output = command.arg("--data-dir").arg(directory).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_directory_that_is_in_use_or_another_node_s_is_refused() {
    let mut cluster = Cluster::start_durable(1);
    let directory = cluster.directory(0);
    let told = last_words("n1", &directory);
    assert!(told.contains("another process uses"), "{told}");
    cluster.kill(0);
    let told = last_words("n9", &directory);
    assert!(told.contains("belongs to node n1, and this one is n9"), "{told}");
    let newest = newest_log(&directory);
    let mut bytes = std::fs::read(&newest).unwrap();
    bytes[8] = 77;
    std::fs::write(&newest, bytes).unwrap();
    let told = last_words("n1", &directory);
    assert!(told.contains("later version (format 77)"), "{told}");
}

fn newest_log(directory: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-")).max().unwrap()
}

/// Bytes of all files.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[test]
fn the_log_stays_within_its_bound_however_much_is_written() {
    let cluster = Cluster::start_durable(3);
    let mut client = TcpStream::connect(cluster.nodes[0].resp).unwrap();
    let (mut written, mut longest) = (0, 0);
    let value = "v".repeat(2000);
    while written < 16 << 20 {
        let mut commands = String::new();
        for number in 0..100 {
            commands += &format!("*3\r\n$3\r\nSET\r\n$4\r\nk{number:03}\r\n$2000\r\n{value}\r\n");
        }
        client.write_all(commands.as_bytes()).unwrap();
        let mut answers = [0; 500];
        client.read_exact(&mut answers).unwrap();
        assert!(answers.chunks(5).all(|answer| answer == b"+OK\r\n"), "{}", String::from_utf8_lossy(&answers));
        written += 100 * 2000;
        longest = longest.max((0..3).map(|node| size(&cluster.directory(node))).max().unwrap());
    }
    // A log of 1 MiB, images of 200 KB of values twice, files made ready, and what is written while images are made.
    assert!(longest < 4 << 20, "{longest} bytes for 200 KB of values");
    wait("short again", || (0..3).all(|node| size(&cluster.directory(node)) < 2 << 20));
}
