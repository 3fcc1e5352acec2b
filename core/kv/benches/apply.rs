//! How fast commands are applied and queries answered, on one core, and what a key costs in memory.
//!
//! `cargo bench --package atoll-kv`. Times are the processor's. The goals: 3 million puts a second over 100,000 keys of
//! 12 bytes with values of 100, and at most 140 bytes for each of them. Most of a put's time is waiting for memory, so
//! that the figures follow the size of the machine's caches.

// A bench looks at the clock; what it measures does not.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use atoll_kv::{Action, Command, Operation, Query, Store, Ttl};
use atoll_types::{At, Offset, Rng, StateMachine, Time};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Processor time so far, where the kernel tells it: other programs on the machine take none of it. Else the clock.
#[derive(Debug)]
struct Began(Option<Duration>, Instant);

impl Began {
    fn now() -> Began {
        Began(processor_time(), Instant::now())
    }

    fn elapsed(&self) -> Duration {
        match (self.0, processor_time()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            (None, _) | (_, None) => self.1.elapsed(),
        }
    }
}

fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

const KEYS: u64 = 100_000;
const ROUNDS: u64 = 3_000_000;
const VALUE: [u8; 120] = [b'v'; 120];
const BLANK: &[u8; 8] = b"########";

fn at(offset: u64) -> At {
    At { offset: Offset(offset), time: Time(offset) }
}

/// Bytes of a command or query in which each `########` stands for a key's number. Filled in just before it is used, as
/// a command that has just come over the network is in the cache.
struct Template {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    fn new(bytes: Vec<u8>) -> Template {
        let places = (0..bytes.len()).filter(|&place| bytes[place..].starts_with(BLANK)).collect();
        Template { bytes, places }
    }

    fn command(operations: Vec<Operation<'_>>) -> Template {
        let mut bytes = Vec::new();
        Command { operations: operations.into() }.encode(&mut bytes);
        Template::new(bytes)
    }

    fn one(key: &str, action: Action<'_>) -> Template {
        Template::command(vec![Operation::new(key.as_bytes(), action)])
    }

    fn fill(&mut self, number: u64) -> &[u8] {
        for &place in &self.places {
            let mut rest = number;
            for digit in self.bytes[place..place + BLANK.len()].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        &self.bytes
    }
}

struct Bench {
    store: Store,
    rng: Rng,
    offset: u64,
    answer: Vec<u8>,
    /// Numbers are drawn below this.
    keys: u64,
}

impl Bench {
    /// Applies these commands in turn, each to a key drawn at random, and prints how many a second.
    fn apply(&mut self, what: &str, templates: &mut [Template], rounds: u64) {
        let began = Began::now();
        for round in 0..rounds {
            let number = self.rng.below(self.keys);
            let which = round as usize % templates.len();
            self.apply_one(templates[which].fill(number));
        }
        print(what, rounds, began);
    }

    fn apply_one(&mut self, command: &[u8]) {
        self.offset += 1;
        self.answer.clear();
        self.store.apply(at(self.offset), black_box(command), &mut self.answer);
        black_box(&self.answer);
    }

    fn read(&mut self, what: &str, query: &Query<'_>, rounds: u64) {
        let mut bytes = Vec::new();
        query.encode(&mut bytes);
        let mut template = Template::new(bytes);
        let began = Began::now();
        for _ in 0..rounds {
            let number = self.rng.below(self.keys);
            self.answer.clear();
            self.store.read(at(self.offset), black_box(template.fill(number)), &mut self.answer);
            black_box(&self.answer);
        }
        print(what, rounds, began);
    }
}

fn print(what: &str, rounds: u64, began: Began) {
    let rate = rounds as f64 / began.elapsed().as_secs_f64();
    println!("{what:<30} {:>6.2} million a second, {:>5.0} ns", rate / 1e6, 1e9 / rate);
}

fn main() {
    let mut bench = Bench { store: Store::new(), rng: Rng::new(1), offset: 0, answer: Vec::new(), keys: KEYS };
    let put = |value, ttl| Template::one("key:########", Action::Put { value, ttl });

    let mut numbers: Vec<u64> = (0..KEYS).collect();
    (1..numbers.len()).rev().for_each(|last| numbers.swap(last, bench.rng.below(last as u64 + 1) as usize));
    let mut template = put(&VALUE[..100], Ttl::Never);
    let began = Began::now();
    numbers.iter().for_each(|&number| bench.apply_one(template.fill(number)));
    print("new keys, in no order", KEYS, began);
    println!("{} bytes for each key, by its own account", bench.store.bytes() / bench.store.count());

    bench.apply("puts, values of 100", &mut [put(&VALUE[..100], Ttl::Never)], ROUNDS);
    bench.keys = 1000;
    bench.apply("the same, to 1000 of the keys", &mut [put(&VALUE[..100], Ttl::Never)], ROUNDS);
    bench.keys = KEYS;
    bench.read("gets", &Query::Get { key: b"key:########" }, ROUNDS);
    let mut lengths: Vec<Template> = (100..120).map(|length| put(&VALUE[..length], Ttl::Never)).collect();
    bench.apply("puts, values of 100 to 119", &mut lengths, ROUNDS);
    bench.apply("puts that expire", &mut [put(&VALUE[..100], Ttl::After(Duration::from_secs(60)))], ROUNDS);
    bench.apply("increments", &mut [Template::one("n:########", Action::Increment { by: 1 })], ROUNDS);
    bench.apply(
        "appends of 10",
        &mut [Template::one("a:########", Action::Append { value: b"0123456789", most: u64::MAX })],
        ROUNDS,
    );
    let keys = ["{########}a", "{########}b", "{########}c", "{########}d"];
    let action = Action::Put { value: &VALUE[..100], ttl: Ttl::Never };
    let batch = Template::command(keys.iter().map(|key| Operation::new(key.as_bytes(), action)).collect());
    bench.apply("batches of four puts", &mut [batch], ROUNDS / 4);
    let scan =
        Query::Scan { prefix: b"", after: Some(b"key:########"), slot: None, values: true, limit: 100, bytes: 1 << 20 };
    bench.read("scans of 100", &scan, ROUNDS / 100);

    let began = Began::now();
    let snapshot = bench.store.snapshot();
    println!("snapshot: {} bytes of {} keys in {:?}", snapshot.len(), bench.store.count(), began.elapsed());
    let began = Began::now();
    bench.store.install(&snapshot).expect("a snapshot can be installed");
    println!("install: {:?}", began.elapsed());
}
