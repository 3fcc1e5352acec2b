//! What is in `deploy/`: every flag and variable that it uses exists, and what can run here does.

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]

#[path = "../../server/tests/common/ports.rs"]
mod ports;

use serde::Deserialize;
use serde_norway::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ATOLL: &str = env!("CARGO_BIN_EXE_atoll");
const LONG: Duration = Duration::from_secs(60);

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap()
}

fn documents(name: &str) -> Vec<Value> {
    let text = text(name);
    let read = serde_norway::Deserializer::from_str(&text).map(|document| {
        let mut value = Value::deserialize(document).unwrap();
        value.apply_merge().unwrap();
        value
    });
    read.filter(|value| !value.is_null()).collect()
}

fn output(arguments: &[&str]) -> String {
    let output = Command::new(ATOLL).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The flags and variables that a command knows, as its help tells them.
fn known(command: &str) -> BTreeSet<String> {
    let help = output(&[command, "--help"]);
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.filter(|word| word.starts_with("--") || word.starts_with("ATOLL_")).map(ToOwned::to_owned).collect()
}

/// All variables of Atoll, also those that are for more than one command.
fn variables() -> BTreeSet<String> {
    let more = ["ATOLL_LOG", "ATOLL_SERVER"].map(ToOwned::to_owned);
    known("serve").into_iter().filter(|word| word.starts_with("ATOLL_")).chain(more).collect()
}

/// `atoll serve …`, or another command: every flag of it exists.
fn assert_command(words: &[&str], what: &str) {
    let (command, rest) = words.split_first().unwrap();
    let known = known(command);
    let flags = rest.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap());
    flags.for_each(|flag| assert!(known.contains(flag), "{what}: `atoll {command}` knows no {flag}"));
}

/// Ended with the test, however that ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn string_list(value: &Value) -> Vec<&str> {
    value.as_sequence().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let _ = fs::remove_dir_all(&folder);
    output(&["man", folder.to_str().unwrap()]);
    let serve = fs::read_to_string(folder.join("atoll-serve.1")).unwrap();
    assert!(serve.contains("bootstrap") && serve.contains("The founders"), "{serve}");
    let pages: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    for page in ["atoll.1", "atoll-status.1", "atoll-kv-put.1", "atoll-drain.1"] {
        assert!(pages.contains(page), "{pages:?}");
    }
}

#[test]
fn the_image_uses_flags_and_variables_that_exist() {
    let file = text("Dockerfile");
    let (flags, variables) = (known("status"), variables());
    assert!(file.contains(r#"CMD ["/usr/bin/atoll", "status", "--probe", "ready"]"#) && flags.contains("--probe"));
    let words = file.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let used: BTreeSet<&str> = words.filter(|word| word.starts_with("ATOLL_")).collect();
    assert!(used.len() > 4);
    used.iter().for_each(|name| assert!(variables.contains(*name), "no variable {name}"));
    assert!(file.contains("\nUSER 65532:65532\n"));
}

#[test]
fn the_compose_file_names_three_founders_that_know_each_other() {
    let file = documents("compose.yaml").remove(0);
    let variables = variables();
    let services = file["services"].as_mapping().unwrap();
    let names: Vec<&str> = services.keys().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["n1", "n2", "n3"]);
    for (name, service) in services {
        let environment = service["environment"].as_mapping().unwrap();
        for variable in environment.keys() {
            assert!(variables.contains(variable.as_str().unwrap()), "no variable {variable:?}");
        }
        assert_eq!(&environment["ATOLL_NAME"], name);
        assert_eq!(&environment["ATOLL_ADVERTISE"], name);
        assert_eq!(environment["ATOLL_BOOTSTRAP"].as_str(), Some("n1,n2,n3"));
        assert_eq!(environment["ATOLL_JOIN"].as_str(), Some("n1:7480,n2:7480,n3:7480"));
        assert!(file["volumes"].as_mapping().unwrap().contains_key(name));
        let ports = string_list(&service["ports"]);
        assert!(ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{ports:?}");
    }
}

#[test]
fn the_manifests_hang_together() {
    let documents = documents("kubernetes.yaml");
    let of_kind = |kind: &str, name: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind && document["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let set = of_kind("StatefulSet", "atoll");
    let template = &set["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let arguments = string_list(&container["args"]);
    assert_command(&arguments, "kubernetes.yaml");
    let flag = |name: &str| {
        let prefix = format!("{name}=");
        arguments.iter().find_map(|argument| argument.strip_prefix(&prefix)).unwrap()
    };
    // The headless service is whom they ask, and what their names are under.
    let headless = set["spec"]["serviceName"].as_str().unwrap();
    let service = of_kind("Service", headless);
    assert_eq!(service["spec"]["clusterIP"].as_str(), Some("None"));
    assert_eq!(service["spec"]["publishNotReadyAddresses"].as_bool(), Some(true));
    assert!(flag("--join").starts_with(&format!("{headless}.")));
    assert!(flag("--advertise").contains(&format!(".{headless}.")));
    // As many founders as there are at first, under the names that a set gives.
    let replicas = set["spec"]["replicas"].as_u64().unwrap();
    let founders: Vec<String> = (0..replicas).map(|number| format!("atoll-{number}")).collect();
    assert_eq!(flag("--bootstrap"), founders.join(","));
    let labels = &template["metadata"]["labels"];
    let budget = of_kind("PodDisruptionBudget", "atoll");
    for selector in [&set["spec"]["selector"]["matchLabels"], &budget["spec"]["selector"]["matchLabels"]] {
        assert_eq!(selector, labels);
    }
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&of_kind("Service", "atoll")["spec"]["selector"], labels);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"].as_str(), Some("/readyz"));
    assert_eq!(container["livenessProbe"]["httpGet"]["path"].as_str(), Some("/healthz"));
    let mounts = container["volumeMounts"].as_sequence().unwrap();
    assert!(mounts.iter().any(|mount| mount["mountPath"].as_str() == Some(flag("--data-dir"))));
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = text("atoll.service");
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/atoll ")).unwrap();
    assert_command(&command.split(' ').collect::<Vec<_>>(), "atoll.service");
    assert!(unit.contains("\nType=notify\n"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unit");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("atoll.service");
    // systemd wants to find the program.
    fs::write(&file, unit.replace("/usr/bin/atoll", ATOLL)).unwrap();
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output() {
        Err(error) => eprintln!("skipped: systemd-analyze cannot be started here ({error})"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// The sample file, with places of its own; and whoever starts it hears when it serves and when it stops.
#[test]
fn the_server_runs_from_the_sample_and_tells_its_manager() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sample-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(LONG)).unwrap();
    let data = folder.join("data");
    let [peer, http, resp] = [(); 3].map(|()| ports::free_address().to_string());
    let mut command = Command::new(ATOLL);
    command.args(["serve", "--config", deploy("atoll.toml").to_str().unwrap()]);
    command.args(["--peer", &peer, "--http", &http, "--resp", &resp, "--data-dir", data.to_str().unwrap()]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID");
    let mut process = Started(command.stderr(Stdio::piped()).spawn().unwrap());
    let hear = |wanted: &[&str]| {
        let (begun, mut bytes, mut missing) = (Instant::now(), [0; 1024], wanted.to_vec());
        while !missing.is_empty() {
            assert!(begun.elapsed() < LONG, "never {missing:?}");
            let length = manager.recv(&mut bytes).expect("something is said");
            let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
            missing.retain(|wanted| said.lines().all(|line| !line.starts_with(wanted)));
        }
    };
    hear(&["READY=1", "STATUS=healthy", "WATCHDOG=1"]);
    let alive =
        Command::new(ATOLL).args(["status", "--probe", "ready", "--server", &format!("http://{http}")]).output();
    assert!(alive.unwrap().status.success());
    Command::new("kill").args(["-TERM", &process.0.id().to_string()]).status().unwrap();
    hear(&["STOPPING=1"]);
    assert!(process.0.wait().unwrap().success());
    let said = BufReader::new(process.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.into_iter().any(|line| line.contains("n1 listens")));
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn the_debian_package_is_made_of_files_that_exist() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().unwrap().iter().map(|asset| asset[0].as_str().unwrap());
    let (made, written): (Vec<&str>, Vec<&str>) = assets.partition(|asset| asset.contains("target/"));
    for asset in written {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(asset).exists(), "no {asset}");
    }
    assert_eq!(made.len(), 5, "{made:?}: what `cargo xtask deb` makes");
    let unit = deb["systemd-units"]["unit-scripts"].as_str().unwrap();
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(unit).join("atoll.service").exists());
    eprintln!("skipped: building the package takes a release build and cargo-deb; `cargo xtask deb` does, as CI does");
}
