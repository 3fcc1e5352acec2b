//! The native port as strangers, bad clients and small devices use it: bytes by hand.

mod common;

use atoll_client::{Client, Reason};
use atoll_kv::{Action, Command, Ttl};
use atoll_protocol::frame::{self, HEADER, Next};
use atoll_protocol::{Answer, Ask, Hello, KV, Numbers, Opened, Outcome, Request, STREAM, Step, Wanted, Welcome};
use atoll_server::{Server, Why};
use atoll_types::{Counter, HashSlot, Rng, Series, Time};
use common::{healthy, kill_all, start, start_with, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

struct Raw {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Raw {
    async fn connect(server: &Server) -> Raw {
        Raw { stream: TcpStream::connect(server.resp).await.expect("a node"), input: Vec::new() }
    }

    async fn greet(server: &Server, wanted: Wanted) -> (Raw, Opened) {
        let mut raw = Raw::connect(server).await;
        let mut bytes = Vec::new();
        Hello { wanted, credential: &[] }.encode(&mut bytes);
        // Byte by byte: a hello may arrive in any pieces.
        for byte in bytes {
            raw.stream.write_all(&[byte]).await.expect("it listens");
        }
        let Welcome::Welcome { opened, limits, .. } = raw.welcome().await else { panic!("not welcome") };
        assert!(limits.requests > 0 && limits.request_bytes > 1 << 20);
        (raw, opened)
    }

    /// False once the node has hung up.
    async fn more(&mut self) -> bool {
        let read = timeout(common::LONG, self.stream.read_buf(&mut self.input)).await.expect("in time");
        matches!(read, Ok(count) if count > 0)
    }

    async fn welcome(&mut self) -> Welcome {
        loop {
            match Welcome::decode(&self.input).expect("a welcome") {
                Step::Done(welcome, length) => {
                    self.input.drain(..length);
                    return welcome;
                }
                Step::Needs(_) => assert!(self.more().await, "hung up"),
            }
        }
    }

    async fn ask(&mut self, number: u64, ask: Ask<'_>) {
        let mut bytes = Vec::new();
        Request { number, ask }.encode(&mut bytes);
        self.stream.write_all(&bytes).await.expect("it listens");
    }

    /// The body of the next frame; none once the node has hung up.
    async fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Next::Whole(body) = frame::next(&self.input, 1 << 20) {
                let body = body.to_vec();
                self.input.drain(..HEADER + body.len());
                return Some(body);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn refused(&mut self) -> Reason {
        let body = self.frame().await.expect("an answer");
        let outcome = Answer::decode(&body).expect("an answer").outcome;
        let Outcome::NotApplied { reason, .. } = outcome else { panic!("{outcome:?}") };
        reason
    }

    async fn is_duplicate(&mut self) -> bool {
        let body = self.frame().await.expect("an answer");
        let outcome = Answer::decode(&body).expect("an answer").outcome;
        let Outcome::Done { duplicate, .. } = outcome else { panic!("{outcome:?}") };
        duplicate
    }
}

fn put(key: &[u8]) -> Vec<u8> {
    let mut bytes = vec![KV];
    Command::one(key, Action::Put { value: b"value", ttl: Ttl::Never }).encode(&mut bytes);
    bytes
}

fn numbered(series: u64) -> Option<Numbers> {
    Some(Numbers { series: Series(series), floor: Series(0), attempt: 0 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_told_so_and_disturbs_nobody() {
    let servers = start(3);
    healthy(&servers).await;
    let server = &servers[0];
    let client = Client::connect([server.resp.to_string()]).await.expect("a node");
    let malformed = || server.gateway.refused().so_far(Why::Malformed);

    for (bytes, word) in [(&b"\xa7XYZ"[..], "hello"), (b"\xa7ATL\x09", "version 9"), (b"\xa7ATL\x01", "")] {
        let before = malformed();
        let mut raw = Raw::connect(server).await;
        raw.stream.write_all(bytes).await.expect("it listens");
        if word.is_empty() {
            // Half a hello, and gone.
            continue;
        }
        let Welcome::Refused { reason } = raw.welcome().await else { panic!("welcome") };
        assert!(reason.contains(word), "{reason}");
        assert!(!raw.more().await && malformed() == before + 1);
    }

    let (mut raw, _) = Raw::greet(server, Wanted::default()).await;
    raw.stream.write_all(&u32::MAX.to_le_bytes()).await.expect("it listens");
    let body = raw.frame().await.expect("a goodbye");
    assert!(
        matches!(Answer::decode(&body).expect("an answer").outcome, Outcome::Goodbye { text } if text.contains("bytes"))
    );
    assert!(raw.frame().await.is_none(), "and it hangs up");
    assert_eq!(server.gateway.refused().so_far(Why::TooLarge), 1);

    let (mut raw, _) = Raw::greet(server, Wanted::default()).await;
    raw.stream.write_all(&[3, 0, 0, 0, 99, 1, 1]).await.expect("it listens");
    let body = raw.frame().await.expect("a goodbye");
    assert!(matches!(Answer::decode(&body).expect("an answer").outcome, Outcome::Goodbye { .. }));
    assert!(raw.frame().await.is_none());

    // Half a frame, and gone.
    let (mut raw, _) = Raw::greet(server, Wanted::default()).await;
    raw.stream.write_all(&[100, 0, 0, 0, 1, 1, 1]).await.expect("it listens");
    drop(raw);

    let mut rng = Rng::new(7);
    for round in 0..40 {
        let noise: Vec<u8> = (0..rng.below(400)).map(|_| rng.next() as u8).collect();
        let mut raw = if round % 2 == 0 {
            let mut raw = Raw::connect(server).await;
            let _ = raw.stream.write_all(&[0xa7]).await;
            raw
        } else {
            Raw::greet(server, Wanted::default()).await.0
        };
        let _ = raw.stream.write_all(&noise).await;
        let _ = raw.stream.shutdown().await;
        while raw.more().await {}
    }
    client.put("still", "there").await.expect("nobody is disturbed");
    assert_eq!(client.get("still").await.expect("an answer").expect("it was put").bytes, b"there");
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_goes_to_no_slot_but_its_own() {
    let servers = start(3);
    healthy(&servers).await;
    let (mut raw, _) = Raw::greet(&servers[0], Wanted::default()).await;
    let command = put(b"foo");
    let other = Some(HashSlot(HashSlot::of(b"foo").0 ^ 1));
    raw.ask(1, Ask::Write { slot: other, numbers: None, command: &command }).await;
    assert_eq!(raw.refused().await, Reason::BadRequest);
    raw.ask(2, Ask::Write { slot: None, numbers: None, command: b"\x01nonsense" }).await;
    assert_eq!(raw.refused().await, Reason::BadRequest);
    raw.ask(3, Ask::Read { slot: None, query: &[STREAM, 99] }).await;
    assert_eq!(raw.refused().await, Reason::BadRequest);
    raw.ask(4, Ask::Write { slot: None, numbers: None, command: &command }).await;
    assert!(!raw.is_duplicate().await, "the connection goes on");
    assert_eq!(servers[0].gateway.refused().so_far(Why::BadRequest), 3);
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_taken_up_again_and_old_ones_are_refused() {
    let servers = start(3);
    healthy(&servers).await;
    let (mut raw, opened) = Raw::greet(&servers[0], Wanted::default()).await;
    let command = put(b"foo");
    let write = Ask::Write { slot: None, numbers: numbered(5), command: &command };
    raw.ask(1, write).await;
    assert!(!raw.is_duplicate().await);
    raw.ask(1, write).await;
    assert!(raw.is_duplicate().await);
    // Elsewhere, on another connection, it is the same.
    let (mut again, same) = Raw::greet(&servers[1], Wanted::again(opened.session)).await;
    assert_eq!(same.session, opened.session);
    again.ask(9, write).await;
    assert!(again.is_duplicate().await);
    // Another session in between.
    again.ask(10, Ask::Session(Wanted::default())).await;
    assert!(again.frame().await.is_some());
    again.ask(11, write).await;
    assert!(!again.is_duplicate().await);
    let old = Wanted { session: Some((Time(1), 77)), ..Wanted::default() };
    let (mut old, _) = Raw::greet(&servers[2], old).await;
    old.ask(1, write).await;
    assert_eq!(old.refused().await, Reason::SessionExpired);
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_counts_with_eight_bits_in_one_slot() {
    let servers = start(3);
    healthy(&servers).await;
    let slot = HashSlot::of(b"device");
    let wanted = Wanted { session: None, counter: Counter::Wrapping { bits: 8, slot }, window: 200 };
    let (mut raw, opened) = Raw::greet(&servers[0], wanted).await;
    assert_eq!((opened.window, opened.session.counter), (64, wanted.counter));
    let command = put(b"device");
    for count in 0..600_u64 {
        let series = Series(count % 256);
        let numbers = Some(Numbers { series, floor: series, attempt: 0 });
        let write = Ask::Write { slot: Some(slot), numbers, command: &command };
        raw.ask(count, write).await;
        assert!(!raw.is_duplicate().await, "{count}");
        if count % 100 == 0 {
            raw.ask(count, write).await;
            assert!(raw.is_duplicate().await, "{count} again");
        }
    }
    raw.ask(1, Ask::Write { slot: None, numbers: numbered(1), command: &put(b"elsewhere") }).await;
    assert_eq!(raw.refused().await, Reason::BadSession);
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_may_be_under_way_are_all_answered() {
    let servers = start(3);
    healthy(&servers).await;
    let (mut raw, _) = Raw::greet(&servers[0], Wanted::default()).await;
    let command = put(b"foo");
    let mut bytes = Vec::new();
    const COUNT: u64 = 5000;
    for number in 0..COUNT {
        Request { number, ask: Ask::Write { slot: None, numbers: None, command: &command } }.encode(&mut bytes);
    }
    let mut seen = vec![false; COUNT as usize];
    let (mut read, mut write) = raw.stream.split();
    let writing = async { write.write_all(&bytes).await.expect("it listens") };
    let reading = async {
        let mut input = Vec::new();
        while seen.iter().any(|seen| !seen) {
            assert!(read.read_buf(&mut input).await.expect("an answer") > 0);
            while let Next::Whole(body) = frame::next(&input, 1 << 20) {
                let answer = Answer::decode(body).expect("an answer");
                assert!(matches!(answer.outcome, Outcome::Done { .. }), "{answer:?}");
                assert!(!std::mem::replace(&mut seen[answer.number as usize], true), "answered once");
                let length = HEADER + body.len();
                input.drain(..length);
            }
        }
    };
    timeout(common::LONG, async { tokio::join!(writing, reading) }).await.expect("in time");
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_too_slow_or_silent_is_let_go() {
    const DRIPS: u64 = 10;
    let servers = start_with(3, |mut settings| {
        settings.slow = Duration::from_millis(100);
        settings
    });
    healthy(&servers).await;
    let slow = || servers[0].gateway.refused().so_far(Why::TooSlow);
    // Half a hello.
    let mut raw = Raw::connect(&servers[0]).await;
    raw.stream.write_all(b"\xa7ATL").await.expect("it listens");
    while raw.more().await {}
    assert_eq!(slow(), 1);
    // Half a frame, a byte now and then: some come just when patience ends, and must not hide that.
    let drips = (2..DRIPS + 2).map(|pause| {
        let server = &servers[0];
        async move {
            let (raw, _) = Raw::greet(server, Wanted::default()).await;
            let (mut read, mut write) = raw.stream.into_split();
            write.write_all(&[250, 0, 0, 0]).await.expect("it listens");
            let drip = tokio::spawn(async move {
                while write.write_all(&[9]).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            });
            let mut rest = Vec::new();
            // Reset or ended: it was let go.
            let _ = timeout(common::LONG, read.read_to_end(&mut rest)).await.expect("in time");
            drip.abort();
        }
    });
    futures_util::future::join_all(drips).await;
    until("counted", || slow() == 1 + DRIPS).await;
    kill_all(servers).await;
}
