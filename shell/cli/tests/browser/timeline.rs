//! A simulation and a recording, moment by moment.

use crate::chromium::Page;
use crate::cluster::wait;
use crate::ports::free_address;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `atoll … --serve`, until it is dropped.
struct Shown {
    process: Child,
    url: String,
}

impl Shown {
    fn start(arguments: &[&str]) -> Shown {
        let address = free_address();
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command.args(arguments).args(["--serve", &address.to_string()]).stdout(Stdio::null());
        let process = command.spawn().unwrap();
        wait("served", || TcpStream::connect(address).is_ok());
        Shown { process, url: format!("http://{address}/") }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const CLOCK: &str = "parseFloat(document.querySelector('#clock').textContent)";

#[test]
fn a_simulation_is_scrubbed_stepped_and_played() {
    let shown = Shown::start(&["sim", "--seed", "17"]);
    let Some(mut page) = Page::open(&shown.url, 1280, 1000) else { return };
    page.wait_for("!document.querySelector('#timeline').hidden && document.querySelector('#clock').textContent");
    assert_eq!(page.value(CLOCK), 0.0);
    page.click("#next-fault");
    let first = page.value(CLOCK).as_f64().unwrap();
    assert!(first > 0.0);
    page.click("#next-fault");
    assert!(page.value(CLOCK).as_f64().unwrap() > first);
    let before = page.value(CLOCK).as_f64().unwrap();
    page.click("#step");
    assert!(page.value(CLOCK).as_f64().unwrap() > before);
    page.click("#play");
    page.wait_for(&format!("{CLOCK} > {before} + 1"));
    page.click("#play");
    // In the middle of it there are nodes, buckets, and messages on their way.
    page.value(
        "(() => { const scrub = document.querySelector('#scrub'); scrub.value = 20e6; \
                scrub.dispatchEvent(new Event('input')); })()",
    );
    page.wait_for("document.querySelectorAll('#ring .node').length > 1");
    page.wait_for("document.querySelector('#stories, #lately').textContent.length > 50");
    for _ in 0..40 {
        if page.value("document.querySelectorAll('#ring .dot').length").as_u64() > Some(1) {
            break;
        }
        page.click("#step");
    }
    page.wait_for("document.querySelectorAll('#ring .dot').length > 0");
    page.picture("simulator");
    assert_eq!(page.errors(), Vec::<String>::new());
}

#[test]
fn a_recording_of_one_node_is_shown_as_that_node_saw_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recordings-{}", std::process::id()));
    let folder_name = folder.to_str().unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_atoll"))
        .args(["sim", "--seed", "17", "--minutes", "0.3", "--record", folder_name])
        .stdout(Stdio::null())
        .status();
    assert!(ran.unwrap().success());
    // The longest: a short life may end before there is a cluster.
    let recordings = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap());
    let file = recordings.max_by_key(|file| file.metadata().unwrap().len()).unwrap().path();
    let shown = Shown::start(&["replay", file.to_str().unwrap()]);
    let Some(mut page) = Page::open(&shown.url, 1280, 1000) else { return };
    page.wait_for("!document.querySelector('#timeline').hidden && document.querySelector('#clock').textContent");
    page.value(
        "(() => { const scrub = document.querySelector('#scrub'); scrub.value = scrub.max; \
                scrub.dispatchEvent(new Event('input')); })()",
    );
    page.wait_for("document.querySelectorAll('#ring .node').length > 0");
    page.wait_for("document.querySelector('#moment .log').textContent.includes('message from')");
    page.picture("replay");
    assert_eq!(page.errors(), Vec::<String>::new());
    let _ = std::fs::remove_dir_all(folder);
}
