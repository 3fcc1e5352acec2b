//! Writers and readers, and what must hold of what they saw.
//!
//! Each writer has a key of its own and writes 1, 2, 3 … to it, and the same numbers as messages to a stream of its
//! own, with a session and series: whatever is unknown is sent again, to any node. So the value of a key only goes up,
//! and a reader that saw less than was acknowledged before it asked, or more than was begun before it was answered, has
//! seen something that no order of the operations explains. A message that stands twice in its stream counted twice.

use crate::http::{self, Reply};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

const WRITERS: usize = 3;
const READERS: usize = 2;
/// No operation takes longer than this, whatever happens, because everything else is retried elsewhere.
const PATIENCE: Duration = Duration::from_secs(60);
/// A node that let somebody wait in vain is asked again after this long.
const AVOIDED_FOR: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Register {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

struct Shared {
    name: String,
    nodes: Mutex<Vec<SocketAddr>>,
    /// Since when a node is known not to answer.
    silent: Mutex<BTreeMap<SocketAddr, Instant>>,
    registers: Vec<Register>,
    stop: AtomicBool,
    reads: AtomicU64,
    /// When something was last acknowledged, and the longest time in which nothing was.
    gap: Mutex<(Instant, Duration)>,
    complaints: Mutex<Vec<String>>,
}

pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What came of it.
pub(crate) struct Ended {
    pub(crate) writes: u64,
    pub(crate) longest_gap: Duration,
}

impl Load {
    /// Keys begin with this name, so that several loads do not meet.
    pub(crate) fn start(name: &str, nodes: Vec<SocketAddr>) -> Load {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            nodes: Mutex::new(nodes),
            silent: Mutex::default(),
            registers: (0..WRITERS).map(|_| Register::default()).collect(),
            stop: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            gap: Mutex::new((Instant::now(), Duration::ZERO)),
            complaints: Mutex::default(),
        });
        let begin = |work: fn(&Shared, usize), number: usize| {
            let shared = shared.clone();
            thread::spawn(move || work(&shared, number))
        };
        let writers = (0..WRITERS).map(|number| begin(Shared::write, number));
        let readers = (0..READERS).map(|number| begin(Shared::read, number));
        let threads = writers.chain(readers).collect();
        let load = Load { shared, threads };
        load.run_for_a_while();
        load
    }

    /// Until every writer has had ten more writes acknowledged, and there were ten more reads: the load is really on.
    pub(crate) fn run_for_a_while(&self) {
        let acknowledged = |register: &Register| register.acknowledged.load(Ordering::SeqCst);
        let before: Vec<u64> = self.shared.registers.iter().map(acknowledged).collect();
        let reads = self.shared.reads.load(Ordering::SeqCst);
        crate::cluster::wait("under load", || {
            let grown = |(register, before): (&Register, &u64)| acknowledged(register) >= before + 10;
            self.shared.registers.iter().zip(&before).all(grown)
                && self.shared.reads.load(Ordering::SeqCst) >= reads + 10
                || !self.shared.complaints.lock().unwrap().is_empty()
        });
    }

    /// The longest time so far in which nothing was acknowledged is counted from now on.
    pub(crate) fn watch_gap(&self) {
        *self.shared.gap.lock().unwrap() = (Instant::now(), Duration::ZERO);
    }

    /// Stops it and looks at everything once more.
    pub(crate) fn end(self) -> Ended {
        self.run_for_a_while();
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("a client never panics");
        }
        let complaints = self.shared.complaints.lock().unwrap().clone();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
        let mut writes = 0;
        for (number, register) in self.shared.registers.iter().enumerate() {
            let acknowledged = register.acknowledged.load(Ordering::SeqCst);
            writes += acknowledged;
            let value = self.shared.value(&self.shared.key(number)).expect("an answer");
            assert_eq!(value, acknowledged, "writer {number}: the last acknowledged write is what is there");
            self.shared.check_stream(number, acknowledged);
        }
        let longest_gap = self.shared.gap.lock().unwrap().1;
        Ended { writes, longest_gap }
    }
}

impl Shared {
    fn key(&self, writer: usize) -> String {
        format!("{}-{writer}", self.name)
    }

    fn complain(&self, complaint: String) {
        self.complaints.lock().unwrap().push(complaint);
        self.stop.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Asks any node until one gives an answer that is an answer.
    fn insist(
        &self,
        first: usize,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
        good: &[u16],
    ) -> Option<Reply> {
        let begun = Instant::now();
        let mut last = String::new();
        for attempt in 0_usize.. {
            if begun.elapsed() > PATIENCE {
                self.complain(format!("{method} {path} was never answered well; last: {last}"));
                return None;
            }
            let nodes = self.likely_nodes();
            let node = nodes[(first + attempt) % nodes.len()];
            match http::send(node, method, path, headers, body) {
                Ok(reply) if good.contains(&reply.status) => return Some(reply),
                // Not applied, or unknown: the number makes it count once.
                Ok(reply) if [503, 504].contains(&reply.status) => last = reply.text(),
                Ok(reply) => {
                    self.complain(format!("{method} {path}: {} {}", reply.status, reply.text()));
                    return None;
                }
                Err(error) => {
                    if [ErrorKind::TimedOut, ErrorKind::WouldBlock].contains(&error.kind()) {
                        self.silent.lock().unwrap().insert(node, Instant::now());
                    }
                    last = error.to_string();
                }
            }
            sleep(Duration::from_millis(2));
        }
        None
    }

    /// All but those that did not answer lately, as any client would; all if none is left.
    fn likely_nodes(&self) -> Vec<SocketAddr> {
        let nodes = self.nodes.lock().unwrap().clone();
        let silent = self.silent.lock().unwrap();
        let answers = |node: &SocketAddr| silent.get(node).is_none_or(|since| since.elapsed() > AVOIDED_FOR);
        let likely: Vec<SocketAddr> = nodes.iter().copied().filter(answers).collect();
        if likely.is_empty() { nodes } else { likely }
    }

    fn write(&self, number: usize) {
        let Some(opened) = self.insist(number, "POST", "/v1/sessions", &[], &[], &[201]) else { return };
        let session = opened.json()["session"].as_str().expect("a session").to_owned();
        let register = &self.registers[number];
        let key = self.key(number);
        let mut series = 0;
        for value in 1_u64.. {
            if self.is_over() {
                return;
            }
            register.begun.store(value, Ordering::SeqCst);
            let body = value.to_string();
            for (method, path) in [("PUT", format!("/v1/kv/{key}")), ("POST", format!("/v1/streams/{key}"))] {
                series += 1;
                let headers = [
                    ("Atoll-Session", session.clone()),
                    ("Atoll-Series", series.to_string()),
                    ("Atoll-Floor", series.to_string()),
                ];
                // What was begun is seen through, also when it is over: so that the end is known.
                if self.insist(number + series as usize, method, &path, &headers, body.as_bytes(), &[200]).is_none() {
                    return;
                }
                self.note_progress();
            }
            register.acknowledged.store(value, Ordering::SeqCst);
        }
    }

    fn note_progress(&self) {
        let (last, longest) = &mut *self.gap.lock().unwrap();
        *longest = (*longest).max(last.elapsed());
        *last = Instant::now();
    }

    fn value(&self, key: &str) -> Option<u64> {
        let reply = self.insist(0, "GET", &format!("/v1/kv/{key}"), &[], &[], &[200, 404])?;
        if reply.status == 404 { Some(0) } else { reply.text().parse().ok() }
    }

    fn read(&self, number: usize) {
        for turn in number.. {
            if self.is_over() {
                return;
            }
            let writer = turn % WRITERS;
            let register = &self.registers[writer];
            let least = register.acknowledged.load(Ordering::SeqCst);
            let path = format!("/v1/kv/{}", self.key(writer));
            let Some(reply) = self.insist(turn, "GET", &path, &[], &[], &[200, 404]) else { return };
            let value = if reply.status == 404 { 0 } else { reply.text().parse().unwrap_or(u64::MAX) };
            let most = register.begun.load(Ordering::SeqCst);
            if value < least || value > most {
                return self.complain(format!("read {value} of writer {writer}; from {least} to {most} are possible"));
            }
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// 1, 2, 3 … each once, in order.
    fn check_stream(&self, number: usize, acknowledged: u64) {
        let key = self.key(number);
        let mut next = 1;
        let mut from = 1;
        loop {
            let path = format!("/v1/streams/{key}?from={from}&limit=500");
            let reply = self.insist(0, "GET", &path, &[], &[], &[200]).expect("an answer");
            let messages = reply.json()["messages"].as_array().cloned().unwrap_or_default();
            if messages.is_empty() {
                break;
            }
            for message in messages {
                assert_eq!(message["data"], next.to_string(), "stream {key} at {}", message["offset"]);
                from = message["offset"].as_u64().expect("an offset") + 1;
                next += 1;
            }
        }
        assert_eq!(next - 1, acknowledged, "stream {key} has every message that was acknowledged, once");
    }
}
