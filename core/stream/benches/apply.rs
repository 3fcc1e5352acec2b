//! How fast messages are appended and read, on one core, and what one costs in memory.
//!
//! `cargo bench --package atoll-stream`.

// A bench looks at the clock; what it measures does not.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use atoll_stream::{Action, Command, Id, Query, Retention, StreamOffset, Streams};
use atoll_types::{At, Offset, Rng, StateMachine, Time};
use std::hint::black_box;
use std::time::Instant;

const STREAMS: u64 = 1000;
const ROUNDS: u64 = 2_000_000;

fn at(offset: u64) -> At {
    At { offset: Offset(offset), time: Time(offset) }
}

fn name(number: u64) -> Vec<u8> {
    format!("stream {number:05}").into_bytes()
}

fn commands(action: &Action<'_>) -> Vec<Vec<u8>> {
    let command = |number| {
        let mut bytes = Vec::new();
        Command::one(&name(number), action.clone()).encode(&mut bytes);
        bytes
    };
    (0..STREAMS).map(command).collect()
}

fn apply(what: &str, streams: &mut Streams, commands: &[Vec<u8>], rounds: u64) {
    let mut rng = Rng::new(1);
    let mut answer = Vec::new();
    let began = Instant::now();
    for offset in 0..rounds {
        answer.clear();
        let command = &commands[rng.below(commands.len() as u64) as usize];
        streams.apply(at(offset), black_box(command), &mut answer);
        black_box(&answer);
    }
    print(what, rounds, began);
}

fn print(what: &str, rounds: u64, began: Instant) {
    let rate = rounds as f64 / began.elapsed().as_secs_f64();
    println!("{what:<44} {:>6.2} million a second, {:>6.0} ns", rate / 1e6, 1e9 / rate);
}

fn main() {
    let append = commands(&Action::Append { id: Id::Auto, payload: &[b'm'; 100] });
    let mut streams = Streams::new();
    apply("appends of 100 bytes to 1000 streams", &mut streams, &append, ROUNDS);
    println!("{} bytes for each message, by its own account", streams.bytes() as u64 / ROUNDS);
    apply("appends of 100 bytes to one stream", &mut Streams::new(), &append[..1], ROUNDS);

    let mut rng = Rng::new(2);
    let mut answer = Vec::new();
    let began = Instant::now();
    let rounds = ROUNDS / 100;
    for _ in 0..rounds {
        let from = Some(StreamOffset(1 + rng.below(1500)));
        let mut query = Vec::new();
        let stream = name(rng.below(STREAMS));
        Query::Read { stream: &stream, from, limit: 100, bytes: 1 << 20 }.encode(&mut query);
        answer.clear();
        streams.read(at(ROUNDS), black_box(&query), &mut answer);
        black_box(&answer);
    }
    print("reads of 100 messages", rounds, began);

    let mut kept = Streams::new();
    let retention = Retention { most_count: Some(1000), ..Retention::default() };
    apply("configurations", &mut kept, &commands(&Action::Configure { retention }), STREAMS * 10);
    apply("appends to 1000 streams that keep 1000 each", &mut kept, &append, ROUNDS);

    let began = Instant::now();
    let snapshot = streams.snapshot();
    println!("snapshot: {} bytes in {:?}", snapshot.len(), began.elapsed());
    let began = Instant::now();
    streams.install(&snapshot).expect("a snapshot can be installed");
    println!("install: {:?}", began.elapsed());
}
