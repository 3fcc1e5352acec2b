//! Strangers at every port, and clients that behave badly: they are told, counted, and disturb nobody.
//!
//! Not here: RESP's own errors (`resp.rs`), HTTP's (`http.rs`), those of the native protocol (the client's `raw.rs`).

mod common;

use atoll_cluster::message::{Message as ClusterMessage, Refusal};
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Envelope, Message};
use atoll_paxos::message::{Missing, Prepare};
use atoll_server::{Server, Why};
use atoll_types::{Ballot, ClusterId, Cookie, Generation, Incarnation, NodeId, Rng, Slot};
use atoll_wire::{FRAME_MAX, VERSION};
use common::raw::Raw;
use common::{Client, LONG, healthy, start_with, until};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

fn refused(server: &Server, why: Why) -> u64 {
    server.gateway.refused().so_far(why)
}

fn hello(version: u8, lane: u8, address: &[u8]) -> Vec<u8> {
    let length = (address.len() as u16).to_le_bytes();
    [b"ATOLLP", &[version, lane][..], &length, address, &[0, 0]].concat()
}

async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // Reset or ended: it is over either way.
    let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("an end in time");
    rest
}

/// The reason in the answer to something that is no hello.
fn reason(answer: &[u8]) -> String {
    assert_eq!(answer.first(), Some(&1), "{answer:?}");
    let length = u16::from_le_bytes([answer[1], answer[2]]);
    assert_eq!(usize::from(length), answer.len() - 3);
    String::from_utf8(answer[3..].to_vec()).expect("text")
}

async fn turned_away(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.peer).await.expect("it listens");
    stream.write_all(bytes).await.expect("it listens");
    reason(&rest(&mut stream).await)
}

async fn greeted(server: &Server, lane: u8, address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.peer).await.expect("it listens");
    stream.write_all(&hello(VERSION, lane, address.as_bytes())).await.expect("it listens");
    let mut welcome = [9; 2];
    timeout(LONG, stream.read_exact(&mut welcome)).await.expect("in time").expect("a welcome");
    assert_eq!(welcome, [0, VERSION]);
    stream
}

fn frame(envelope: &Envelope) -> Vec<u8> {
    let mut body = Vec::new();
    atoll_wire::message::encode(envelope, &mut body);
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

fn envelope(cluster: ClusterId, message: Message) -> Envelope {
    Envelope {
        cluster,
        generation: Generation::default(),
        from: NodeId(99),
        incarnation: Incarnation { life: 1, cookie: Cookie(5) },
        to: NodeId::NOBODY,
        to_cookie: Cookie(0),
        message,
    }
}

fn missing() -> Message {
    Message::Paxos(atoll_paxos::Message::Missing(Missing { position: Slot(1) }))
}

fn prepare() -> Message {
    let ballot = Ballot { generation: Generation::default(), round: Ballot::ROUNDS_MOST, node: NodeId(99) };
    Message::Paxos(atoll_paxos::Message::Prepare(Prepare { ballot, decided: Slot::MOST, ordered: true }))
}

/// Every node still takes writes and reads.
async fn all_is_well(servers: &[Server]) {
    healthy(servers).await;
    for (number, server) in servers.iter().enumerate() {
        let mut raw = Raw::connect(server.resp);
        for key in 0..20 {
            assert_eq!(raw.ask(&format!("SET well:{key} {number}")), "+OK");
            assert_eq!(raw.ask(&format!("GET well:{key}")), number.to_string());
        }
    }
}

#[tokio::test]
async fn strangers_on_the_peer_port_are_told_why_they_are_turned_away() {
    let servers = start_with(1, |_| {});
    let server = &servers[0];
    // Half a hello, then silence.
    let mut silent = TcpStream::connect(server.peer).await.expect("it listens");
    silent.write_all(b"ATOLLP\x01").await.expect("it listens");
    let begun = Instant::now();
    healthy(&servers).await;
    // With much behind it that nobody will read: the reason arrives all the same.
    let http = [&b"PUT /v1/kv/key HTTP/1.1\r\nContent-Length: 200000\r\n\r\n"[..], &[b'x'; 200_000]].concat();
    for bytes in [&http[..], b"*1\r\n$4\r\nPING\r\n", b"\xa7ATL\x01", b"A", b"\0", b"ATOLL\r\n"] {
        if bytes == b"A" {
            // The beginning of a hello, and gone.
            drop(TcpStream::connect(server.peer).await.expect("it listens").write_all(bytes).await);
            continue;
        }
        assert!(turned_away(server, bytes).await.contains("--http or --resp"), "{}", bytes.escape_ascii());
    }
    let long = hello(VERSION, 0, &[b'a'; 1025]);
    let strange = [
        (hello(9, 0, b"a:1"), "version 9 is not spoken here"),
        (hello(0, 0, b"a:1"), "version 0 is not spoken here"),
        (long[..10].to_vec(), "1025 bytes where at most 1024"),
        (hello(VERSION, 0, b"\xff\xfe"), "no text"),
        ([&hello(VERSION, 3, b"a:1")[..13], b"\xff\xff"].concat(), "65535 bytes where at most 1024"),
    ];
    for (bytes, word) in strange {
        let reason = turned_away(server, &bytes).await;
        assert!(reason.contains(word), "{reason}");
    }
    assert!(refused(server, Why::PeerHello) >= 10);
    let before = refused(server, Why::PeerHello);
    assert!(reason(&rest(&mut silent).await).contains("too long"), "and whoever falls silent");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(refused(server, Why::PeerHello) > before);
    all_is_well(&servers).await;
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn nonsense_in_frames_ends_a_connection_and_nothing_else() {
    let servers = start_with(3, |settings| settings.shards = 2);
    healthy(&servers).await;
    let server = &servers[0];
    let longer = (FRAME_MAX as u32 + 1).to_le_bytes();
    let trailing = {
        let mut bytes = frame(&envelope(ClusterId(7), missing()));
        bytes.push(0);
        bytes[0] += 1;
        bytes
    };
    let frames: [&[u8]; 7] = [
        &u32::MAX.to_le_bytes(),
        &longer,
        &[0, 0, 0, 0],
        &[1, 0, 0, 0, VERSION],
        &[2, 0, 0, 0, VERSION + 1, 0],
        &[12, 0, 0, 0, VERSION, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255],
        &trailing,
    ];
    for (count, bytes) in (1..).zip(frames) {
        for lane in [0, 1, 2, 255] {
            let mut stream = greeted(server, lane, "127.0.0.1:1").await;
            stream.write_all(bytes).await.expect("it listens");
            assert_eq!(rest(&mut stream).await, b"", "{bytes:?}");
        }
        assert_eq!(refused(server, Why::PeerFrame), count * 4, "{bytes:?}");
    }
    let mut rng = Rng::new(11);
    for _ in 0..50 {
        let mut noise: Vec<u8> = (0..1 + rng.below(300)).map(|_| rng.next() as u8).collect();
        noise[0] = VERSION;
        let mut stream = greeted(server, rng.next() as u8, "127.0.0.1:1").await;
        let _ = stream.write_all(&[&(noise.len() as u32).to_le_bytes()[..], &noise].concat()).await;
        let _ = stream.shutdown().await;
        rest(&mut stream).await;
    }
    // Half a frame, and gone; and one that is announced, begun, and never comes.
    drop(greeted(server, 0, "127.0.0.1:1").await.write_all(&[100, 0, 0, 0, VERSION]).await);
    let mut slow = greeted(server, 1, "127.0.0.1:1").await;
    slow.write_all(&(FRAME_MAX as u32).to_le_bytes()).await.expect("it listens");
    all_is_well(&servers).await;
    drop(slow);
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn a_node_of_another_cluster_is_refused_and_changes_nothing() {
    let servers = start_with(3, |_| {});
    healthy(&servers).await;
    let (server, status) = (&servers[0], servers[0].gateway.board().status());
    let own = ClusterId(u64::from_str_radix(&status.cluster_id, 16).expect("an id"));
    let other = ClusterId(own.0 ^ 0xff);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut stream = greeted(server, 0, &address).await;
    stream.write_all(&frame(&envelope(other, prepare()))).await.expect("it listens");

    // The answer goes to where the sender said it is.
    let (mut back, _) = timeout(LONG, listener.accept()).await.expect("in time").expect("a connection");
    let mut head = [0; 10];
    back.read_exact(&mut head).await.expect("a hello");
    let address_length = u16::from_le_bytes([head[8], head[9]]);
    back.read_exact(&mut vec![0; usize::from(address_length) + 2]).await.expect("a hello");
    back.write_all(&[0, VERSION]).await.expect("it listens");
    let length = timeout(LONG, back.read_u32_le()).await.expect("in time").expect("a frame");
    let mut body = vec![0; length as usize];
    back.read_exact(&mut body).await.expect("a frame");
    let answer = atoll_wire::message::decode(&body).expect("a message");
    let Message::Cluster(ClusterMessage::Refused(said)) = answer.message else { panic!("{answer:?}") };
    assert_eq!(said.refusal, Refusal::OtherCluster { cluster: own });

    // Of a node that nobody knows, in this cluster and in that one, on every lane.
    for lane in 0..3 {
        let mut stream = greeted(server, lane, &address).await;
        for cluster in [other, own, ClusterId::NONE] {
            for message in [missing(), prepare(), Message::Shard(ShardMessage::Replicas(Vec::new()))] {
                stream.write_all(&frame(&envelope(cluster, message))).await.expect("it listens");
            }
        }
    }
    all_is_well(&servers).await;
    let now = server.gateway.board().status();
    assert_eq!(now.cluster_id, status.cluster_id);
    assert_eq!(refused(server, Why::PeerFrame), 0);
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn one_client_too_many_is_told_on_each_port() {
    let servers = start_with(1, |settings| settings.max_clients = 2);
    healthy(&servers).await;
    let server = &servers[0];
    let (mut one, mut two) = (Raw::connect(server.resp), Client::to(server.http).await);
    assert_eq!(one.ask("PING"), "+PONG");
    assert_eq!(two.get("/healthz").await.status, 200);
    // Much was sent already: closing on it would take the words back.
    let mut three = TcpStream::connect(server.resp).await.expect("it listens");
    let _ = three.write_all(&b"PING\r\n".repeat(20_000)).await;
    assert_eq!(rest(&mut three).await, b"-ERR max number of clients reached\r\n");
    let mut four = Client::to(server.http).await;
    four.send(&[&b"PUT /v1/kv/k HTTP/1.1\r\nContent-Length: 200000\r\n\r\n"[..], &[b'x'; 200_000]].concat()).await;
    assert_eq!(four.answer().await.expect("an answer").code(), "too_many_clients");
    assert_eq!(refused(server, Why::TooManyClients), 2);
    assert_eq!((one.ask("SET key value"), one.ask("GET key")), ("+OK".to_owned(), "value".to_owned()));
    drop((one, two));
    until("let go", || server.gateway.clients() == 0).await;
    all_is_well(&servers).await;
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn the_wrong_protocol_on_a_port_is_told_so() {
    let servers = start_with(1, |settings| settings.slow = Duration::from_secs(2));
    healthy(&servers).await;
    let server = &servers[0];
    for bytes in [&b"*1\r\n$4\r\nPING\r\n"[..], &hello(VERSION, 0, b"a:1"), b"\xa7ATL\x01\0\0\0\0\r\n\r\n", b"\r\n\0"] {
        let mut stream = TcpStream::connect(server.http).await.expect("it listens");
        stream.write_all(bytes).await.expect("it listens");
        let _ = stream.write_all(b"\r\n\r\n").await;
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{} {}", bytes.escape_ascii(), answer.escape_ascii());
    }
    until("counted", || refused(server, Why::Malformed) == 4).await;
    let mut raw = Raw::connect(server.resp);
    raw.send_bytes(&[&b"PUT /v1/kv/key HTTP/1.1\r\n\r\n"[..], &[b'x'; 200_000]].concat());
    assert!(raw.rest().contains("HTTP is at http://127.0.0.1:"));
    let mut raw = Raw::connect(server.resp);
    raw.send_bytes(&hello(VERSION, 0, b"a:1"));
    raw.send_bytes(b"\r\n");
    assert!(raw.reply().starts_with("-ERR unknown command 'ATOLLP"), "a word that is no command");
    let mut tls = Raw::connect(server.resp);
    tls.send_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n");
    assert!(tls.reply().starts_with("-ERR unknown command"));
    all_is_well(&servers).await;
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_itself_alone() {
    // One thread serves both.
    let servers = start_with(1, |settings| (settings.shards, settings.slow) = (1, Duration::from_secs(1)));
    healthy(&servers).await;
    let server = &servers[0];
    let mut greedy = Raw::connect(server.resp);
    greedy.send_words(&[b"SET", b"large", &vec![b'v'; 1_000_000]]);
    assert_eq!(greedy.reply(), "+OK");
    (0..500).for_each(|_| greedy.send("GET large"));
    let mut drip = TcpStream::connect(server.resp).await.expect("it listens");
    drip.write_all(b"*2\r\n$3\r\nGET\r\n$1000000\r\n").await.expect("it listens");
    let (mut other, begun, mut longest) = (Raw::connect(server.resp), Instant::now(), Duration::ZERO);
    while refused(server, Why::TooSlow) < 2 {
        assert!(begun.elapsed() < LONG, "never let go");
        let asked = Instant::now();
        assert_eq!((other.ask("SET key value"), other.ask("GET key")), ("+OK".to_owned(), "value".to_owned()));
        longest = longest.max(asked.elapsed());
    }
    assert!(longest < Duration::from_secs(1), "another client waited for {longest:?}");
    all_is_well(&servers).await;
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn keys_values_and_texts_that_cannot_be_are_refused_by_name() {
    let servers = start_with(1, |settings| settings.max_value = 1000);
    healthy(&servers).await;
    let server = &servers[0];
    let mut raw = Raw::connect(server.resp);
    let (long_key, long_value) = (vec![b'k'; atoll_kv::KEY_MOST + 1], vec![b'v'; 1001]);
    let commands: [(&[&[u8]], &str); 9] = [
        (&[b"SET", &long_key, b"v"], "the key has "),
        (&[b"GET", &long_key], "the key has "),
        (&[b"SET", b"key", &long_value], "the value has 1001 bytes"),
        (&[b"XADD", b"log", b"*", b"data", &long_value], ""),
        (&[b"XADD", &long_key, b"*", b"data", b"v"], ""),
        (&[b"SELECT", b"\xff"], "not an integer"),
        (&[b"\xff\xfe\x00", b"a"], "unknown command"),
        (&[b"HELLO", b"\xff"], "not an integer"),
        (&[b"CLIENT", b"SETNAME", b"\xff\n"], "names cannot contain"),
    ];
    for (words, complaint) in commands {
        raw.send_words(words);
        let reply = raw.reply();
        assert!(reply.starts_with('-') && reply.contains(complaint), "{reply} for {}", words[0].escape_ascii());
    }
    assert!(refused(server, Why::BadRequest) >= 7, "{}", refused(server, Why::BadRequest));
    assert_eq!(raw.ask("SET key value"), "+OK", "the connection goes on");
    let mut client = Client::to(server.http).await;
    let before = refused(server, Why::BadRequest);
    for path in ["/v1/kv/key?consistency=%ff", "/v1/kv?limit=-1", "/v1/kv/%zz", "/v1/kv?limit=%ff%fe", "/v1/kv?a=%"] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(!answer.code().is_empty());
    }
    assert_eq!(refused(server, Why::BadRequest), before + 5);
    // A path with such a key is longer than any that is read.
    for length in [atoll_kv::KEY_MOST + 1, atoll_kv::KEY_MOST, 65_535 - "/v1/kv/".len()] {
        let answer = Client::to(server.http).await.get(&format!("/v1/kv/{}", "k".repeat(length))).await;
        assert_eq!((answer.status, answer.code()), (414, "uri_too_long".to_owned()));
    }
    let longest = format!("/v1/kv/{}", "k".repeat(65_534 - "/v1/kv/".len()));
    assert_eq!(Client::to(server.http).await.put(&longest, b"v").await.status, 200);
    let headers = [("Padding", &*"p".repeat(200_000))];
    let answer = Client::to(server.http).await.ask("GET", "/v1/kv/key", &headers, b"").await;
    assert_eq!((answer.status, answer.code()), (431, "head_too_large".to_owned()));
    until("counted", || refused(server, Why::Malformed) == 4).await;
    for header in ["\u{fc}", "1/1/99999999999999999999", "x"] {
        let headers = [("Atoll-After", header)];
        assert_eq!(client.ask("GET", "/v1/kv/key?consistency=stale", &headers, b"").await.status, 400);
    }
    let mut rng = Rng::new(3);
    for round in 0..60 {
        let mut noise: Vec<u8> = (0..1 + rng.below(400)).map(|_| rng.next() as u8).collect();
        noise[0] = [b'*', b'$', b'G', noise[0]][round % 4];
        let to = if round % 2 == 0 { server.resp } else { server.http };
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        let _ = stream.write_all(&noise).await;
        let _ = stream.shutdown().await;
        rest(&mut stream).await;
    }
    all_is_well(&servers).await;
    servers.into_iter().for_each(Server::kill);
}
