//! The dashboard of a running cluster.

use crate::chromium::Page;
use crate::cluster::Cluster;
use crate::http;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A little load, for as long as it lives.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn on(cluster: &Cluster) -> Load {
        let (stop, places) = (Arc::<AtomicBool>::default(), cluster.http());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut number = 0_usize;
            while !stopped.load(Ordering::Relaxed) {
                let to = places[number % places.len()];
                // A node that is gone does not answer, which is what some of this is about.
                let _ = match number % 3 {
                    0 => http::send(to, "PUT", &format!("/v1/kv/load:{}", number % 500), &[], b"some value"),
                    _ => http::get(to, &format!("/v1/kv/load:{}", number % 500)),
                };
                number += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        Load { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn address(cluster: &Cluster, node: usize) -> String {
    format!("http://{}/", cluster.nodes[node].http)
}

const MEMBERS: &str = "document.querySelectorAll('#members tbody tr').length";

#[test]
fn a_kill_and_the_take_over_are_seen_as_they_happen() {
    let mut cluster = Cluster::start(3);
    let Some(mut page) = Page::open(&address(&cluster, 0), 1280, 1000) else { return };
    let load = Load::on(&cluster);
    page.wait_for(&format!("{MEMBERS} === 3"));
    page.wait_for("document.querySelector('#health').textContent === 'healthy'");
    page.wait_for("document.querySelectorAll('#ring .node').length === 3");
    page.wait_for("document.querySelector('#ring .halo.leader')");
    page.wait_for("document.querySelector('#bucket-count').textContent === '64'");
    // Some seconds of load are drawn; for a picture that people look at, more.
    let seconds = if std::env::var_os("ATOLL_IMAGES").is_some() { 40 } else { 3 };
    let drawn = "document.querySelector('#throughput .series.all')?.getAttribute('d').split('L').length";
    page.wait_for(&format!("{drawn} > {seconds}"));
    page.wait_for("document.querySelector('#lately').textContent.includes('founded the cluster')");
    page.picture("dashboard");
    page.prefer("dark");
    page.picture("dashboard-dark");
    page.prefer("light");
    let victim = (1..3).find(|&node| node != cluster.leader()).expect("somebody else");
    let name = cluster.nodes[victim].name.clone();
    cluster.kill(victim);
    page.wait_for("document.querySelector('#health').textContent !== 'healthy'");
    page.wait_for(
        "[...document.querySelectorAll('#lately .story')].some(story => story.textContent.includes('took over'))",
    );
    page.wait_for("document.querySelector('#lately').textContent.includes('longest pause')");
    // There is nobody to take the missing places: that is an alarm, with what to do about it.
    page.wait_for("document.querySelector('#alarms .alarm.bad p')?.textContent.includes('Add a node')");
    page.resize(1280, 1340);
    page.picture("failover");
    page.resize(1280, 1000);
    let story = page.value(
        "[...document.querySelectorAll('#lately .story')].map(story => story.textContent)
           .find(text => text.includes('took over'))",
    );
    let story = story.as_str().unwrap().to_owned();
    assert!(story.contains(&format!("{name} departed")) || story.contains(&format!("{name} is absent")), "{story}");
    assert!(story.contains('→'), "{story}");
    cluster.add();
    page.wait_for("document.querySelector('#health').textContent === 'healthy'");
    page.wait_for("document.querySelector('#lately').textContent.includes('healthy after')");
    page.click("[data-tab=events]");
    page.wait_for("document.querySelectorAll('#governments li').length > 2");
    page.picture("events");
    page.click("[data-tab=overview]");
    page.resize(390, 844);
    page.wait_for("document.querySelector('#map').clientWidth < 400");
    page.wait_for("document.documentElement.scrollWidth <= 390");
    page.value("scrollTo(0, 0)");
    page.picture("phone");
    drop(load);
    assert_eq!(page.errors(), Vec::<String>::new());
}

#[test]
fn a_node_is_drained_with_the_button_after_its_plan_was_shown() {
    let cluster = Cluster::start(4);
    let Some(mut page) = Page::open(&address(&cluster, 0), 1280, 900) else { return };
    page.wait_for(&format!("{MEMBERS} === 4"));
    page.click("[data-drain=n4]");
    page.wait_for("document.querySelector('#dialog').open && document.querySelector('#dialog .plan')");
    assert!(page.text("#dialog-body").contains("n4"), "{}", page.text("#dialog-body"));
    page.picture("plan");
    // Nothing has happened yet.
    assert_eq!(
        cluster.status(0).unwrap()["nodes"].as_array().unwrap().iter().filter(|n| n["state"] == "present").count(),
        4
    );
    page.click("#dialog-yes");
    page.wait_for("!document.querySelector('#dialog').open");
    page.wait_for("document.querySelector('[data-member=n4] .state').textContent === 'departed'");
    page.wait_for("document.querySelector('#lately').textContent.includes('an operator drains n4')");
    // One that cannot be done is told, and does nothing.
    page.click("#split");
    page.wait_for("document.querySelector('#dialog .plan')");
    assert!(page.text("#dialog-body").contains("64 buckets halved"), "{}", page.text("#dialog-body"));
    page.click("#dialog-no");
    page.wait_for("!document.querySelector('#dialog').open");
    assert_eq!(cluster.status(0).unwrap()["buckets"], 64);
    assert_eq!(page.errors(), Vec::<String>::new());
}

#[test]
fn keys_and_streams_are_read_and_written_by_hand() {
    let cluster = Cluster::start(3);
    let Some(mut page) = Page::open(&format!("{}#data", address(&cluster, 1)), 1280, 900) else { return };
    page.wait_for("!document.querySelector('#data').hidden");
    // What others wrote is text here, whatever it looks like.
    let nasty = "<img src=x onerror=\"document.title='broken into'\">";
    page.fill("#key", nasty);
    page.fill("#value", nasty);
    page.click("#key-put");
    page.wait_for("document.querySelector('#key-answer').textContent.startsWith('written')");
    page.fill("#value", "");
    page.click("#key-get");
    page.wait_for("document.querySelector('#key-answer').textContent.startsWith('read')");
    assert_eq!(page.value("document.querySelector('#value').value"), nasty);
    page.click("#scan-form button");
    page.wait_for("document.querySelectorAll('#scan .item').length === 1");
    assert!(page.text("#scan").contains(nasty), "{}", page.text("#scan"));
    page.fill("#stream", nasty);
    page.click("#tail");
    page.wait_for("document.querySelector('#stream-answer').textContent === 'following'");
    for message in ["first", nasty] {
        page.fill("#message", message);
        page.click("#publish");
        page.wait_for("document.querySelector('#message').value === ''");
    }
    page.wait_for("document.querySelectorAll('#messages .item').length === 2");
    assert!(page.text("#messages").contains(nasty), "{}", page.text("#messages"));
    page.picture("data");
    page.click("#key-delete");
    page.wait_for("document.querySelector('#key-answer').textContent.startsWith('deleted')");
    assert_ne!(page.value("document.title"), "broken into");
    assert_eq!(page.value("document.querySelectorAll('main img').length"), 0);
    assert_eq!(page.errors(), Vec::<String>::new());
    // A key that is not there is told as such; the browser notes the 404 by itself.
    page.click("#key-get");
    page.wait_for("document.querySelector('#key-answer').textContent.includes('no such key')");
}

#[test]
fn thousands_of_buckets_are_readable() {
    let mut cluster = Cluster::prepare(3, &["--buckets", "4096"]);
    cluster.start_all();
    cluster.wait_until_healthy();
    let Some(mut page) = Page::open(&address(&cluster, 0), 1280, 1000) else { return };
    page.wait_for("document.querySelector('#bucket-count').textContent === '4,096'");
    page.wait_for("document.querySelector('#health').textContent === 'healthy'");
    page.picture("buckets-4096");
    // The last cell can be pointed at.
    let box_ = "document.querySelector('#map').getBoundingClientRect()";
    page.value(&format!(
        "document.querySelector('#map').dispatchEvent(new MouseEvent('click', \
         {{clientX: {box_}.left + 2, clientY: {box_}.top + 2, bubbles: true}}))"
    ));
    page.wait_for("document.querySelector('#bucket').textContent.includes('0 to 3')");
    // Ten thousand events, as they come in a minute when it is at its worst, are shown in less than that.
    page.click("[data-tab=events]");
    let begun = Instant::now();
    page.value(
        "import('/assets/model.js').then(async ({ setEvents }) => {
           for (let batch = 0; batch < 100; batch++) {
             const events = Array.from({ length: 100 }, (_, place) => {
               const id = 1e6 + batch * 100 + place;
               return { id, story: id - id % 5, cause: null, slot: id, time: Date.now() * 1000, kind: 'absent',
                        grade: 'plain', text: `event ${id}`, nodes: [], buckets: 0 };
             });
             setEvents({ all: false, events });
             await new Promise(done => requestAnimationFrame(done));
           }
         })",
    );
    page.wait_for("document.querySelector('#stories').textContent.includes('event 1009999')");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(page.value("document.querySelectorAll('#stories .story').length").as_u64() < Some(1000));
    assert_eq!(page.errors(), Vec::<String>::new());
}
