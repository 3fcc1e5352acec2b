//! A backup of one cluster fills another, of another size and with other buckets.

use crate::cluster::{Cluster, wait};
use crate::http;
use crate::load::Load;
use std::path::Path;
use std::process::{Command, Output};

fn atoll(cluster: &Cluster, arguments: &[&str], directory: &Path) -> Output {
    let server = format!("http://{}", cluster.nodes[0].http);
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(arguments).arg(directory);
    if arguments[0] != "inspect" {
        command.args(["--server", &server]);
    }
    command.output().unwrap()
}

fn done(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    out.into_owned()
}

fn put(cluster: &Cluster, path: &str, headers: &[(&str, String)], body: &[u8]) -> serde_json::Value {
    let method = if path.starts_with("/v1/kv") { "PUT" } else { "POST" };
    let mut answer = serde_json::Value::Null;
    wait("written", || {
        let reply = http::send(cluster.nodes[0].http, method, path, headers, body).ok();
        let reply = reply.filter(|reply| [200, 201].contains(&reply.status));
        answer = reply.as_ref().map(http::Reply::json).unwrap_or_default();
        reply.is_some()
    });
    answer
}

fn get(cluster: &Cluster, path: &str) -> http::Reply {
    let mut found = None;
    wait("read", || {
        found = http::get(cluster.nodes[0].http, path).ok().filter(|reply| [200, 404].contains(&reply.status));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_backup_under_load_is_restored_into_a_cluster_of_another_size() {
    let scratch = Cluster::scratch();
    let old = Cluster::start_durable(3);
    let load = Load::start("backup", old.http());
    for number in 0..200 {
        put(&old, &format!("/v1/kv/key-{number}"), &[], format!("value {number}").as_bytes());
    }
    put(&old, "/v1/kv/lasting?ttl=600", &[], b"x");
    put(&old, "/v1/kv/fleeting?ttl=1", &[], b"x");
    for number in 1..=20 {
        put(&old, "/v1/streams/events", &[], format!("event {number}").as_bytes());
    }
    let session = put(&old, "/v1/sessions", &[], &[])["session"].as_str().unwrap().to_owned();
    let numbered = [("Atoll-Session", session), ("Atoll-Series", "1".to_owned())];
    let first = put(&old, "/v1/streams/events", &numbered, b"once");
    let backup = scratch.join("backup");
    done(&atoll(&old, &["backup"], &backup));
    // A second one writes only what has changed since: the load goes to three keys and as many streams.
    let told = done(&atoll(&old, &["backup"], &backup));
    let changed: usize = told.split("; ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(changed < 32, "{told}");
    let told = done(&atoll(&old, &["inspect"], &backup));
    assert!(told.contains("every checksum is right"), "{told}");
    load.end();

    let mut new = Cluster::prepare(1, &["--buckets", "4"]);
    new.start_all();
    new.wait_until_healthy();
    new.order("POST", "/v1/cluster/split?bucket=0");
    new.wait_until_healthy();
    done(&atoll(&new, &["restore"], &backup));
    for number in 0..200 {
        let path = format!("/v1/kv/key-{number}");
        assert_eq!(get(&new, &path).text(), format!("value {number}"));
    }
    assert_eq!(get(&new, "/v1/kv/lasting").status, 200);
    wait("gone in time", || get(&new, "/v1/kv/fleeting").status == 404);
    let again = put(&new, "/v1/streams/events", &numbered, b"once");
    assert_eq!(again["offset"], first["offset"], "its first answer, and not a second message");
    let next = put(&new, "/v1/streams/events", &[], b"next");
    assert_eq!(next["offset"].as_u64(), Some(22), "offsets go on");
    let events = get(&new, "/v1/streams/events?from=1&limit=100").json();
    assert_eq!(events["messages"].as_array().map(Vec::len), Some(22));

    let refused = atoll(&new, &["restore"], &backup);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("not empty"));
    put(&new, "/v1/kv/key-7", &[], b"newer");
    done(&atoll(&new, &["restore", "--force"], &backup));
    assert_eq!(get(&new, "/v1/kv/key-7").text(), "newer", "what is newer stays");

    let part = std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().path());
    let part = part.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("bucket-")).min().unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&part, bytes).unwrap();
    let told = atoll(&new, &["inspect"], &backup);
    assert!(!told.status.success() && String::from_utf8_lossy(&told.stdout).contains("DAMAGED"));
    let refused = atoll(&new, &["restore", "--force"], &backup);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("damaged"));
    std::fs::remove_dir_all(&scratch).unwrap();
}
