//! The RESP listener, spoken to in raw bytes.

mod common;

use atoll_server::{Server, Why};
use atoll_types::HashSlot;
use common::raw::Raw;
use common::{start, start_with, until};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

async fn cluster() -> Vec<Server> {
    let servers = start(3);
    healthy(&servers).await;
    servers
}

async fn healthy(servers: &[Server]) {
    until("healthy", || servers.iter().all(|server| server.gateway.board().status().healthy)).await;
}

/// Each line: what is sent, and the reply.
fn script(raw: &mut Raw, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(&raw.ask(line), expected, "to {line}");
    }
}

#[tokio::test]
async fn values() {
    let servers = cluster().await;
    let raw = &mut Raw::connect(servers[1].resp);
    script(
        raw,
        &[
            ("GET a", "nil"),
            ("SET a 1", "+OK"),
            ("get a", "1"),
            ("SET a 2 NX", "nil"),
            ("SET a 2 XX", "+OK"),
            ("SET b 2 XX", "nil"),
            ("SET a 3 GET", "2"),
            ("SET a 4 NX GET", "3"),
            ("SET c 4 NX GET", "nil"),
            ("SET d 4 XX GET", "nil"),
            ("MGET a b c d", "[3 nil 4 nil]"),
            ("SETNX a 9", ":0"),
            ("SETNX e 9", ":1"),
            ("GETSET e 10", "9"),
            ("GETDEL e", "10"),
            ("GETDEL e", "nil"),
            ("INCR n", ":1"),
            ("INCRBY n 41", ":42"),
            ("DECR n", ":41"),
            ("DECRBY n 40", ":1"),
            ("APPEND n 23", ":3"),
            ("GET n", "123"),
            ("STRLEN n", ":3"),
            ("STRLEN nothing", ":0"),
            ("SET text word", "+OK"),
            ("INCR text", "-ERR value is not an integer or out of range"),
            ("INCRBY n x", "-ERR value is not an integer or out of range"),
            ("INCRBY n 9223372036854775807", "-ERR increment or decrement would overflow"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
            ("MSET {t}1 a {t}2 b", "+OK"),
            ("MGET {t}2 {t}1", "[b a]"),
            ("MSET x 1 y 2", "-CROSSSLOT Keys in request don't hash to the same slot"),
            ("MSET x 1 y", "-ERR wrong number of arguments for 'mset' command"),
            ("EXISTS a b a n", ":3"),
            ("DEL a b n n", ":2"),
            ("UNLINK c", ":1"),
            ("EXISTS a", ":0"),
            ("TYPE text", "+string"),
            ("TYPE nothing", "+none"),
            ("SET a 1 BOGUS", "-ERR syntax error"),
            ("SET a 1 NX XX", "-ERR syntax error"),
            ("SET a 1 EX", "-ERR syntax error"),
            ("SET a 1 EX 1 PX 1", "-ERR syntax error"),
            ("SET a 1 EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET a 1 EX one", "-ERR value is not an integer or out of range"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("GET a b", "-ERR wrong number of arguments for 'get' command"),
            ("FOO bar", "-ERR unknown command 'FOO', with args beginning with: 'bar'"),
            ("WAIT 2 100", ":2"),
        ],
    );
    let long = vec![b'v'; 1024 * 1024 + 1];
    raw.send_words(&[b"SET", b"long", &long]);
    assert!(raw.reply().starts_with("-ERR the value has 1048577 bytes"));
    raw.send_words(&[b"SET", b"long", &long[1..]]);
    assert_eq!(raw.reply(), "+OK");
    assert_eq!(raw.ask("APPEND long x"), "-ERR string exceeds maximum allowed size");
    assert_eq!(raw.ask("STRLEN long"), ":1048576");
    assert_eq!(raw.ask("GET long").len(), 1_048_576);
    raw.send_words(&[b"GET", &long[..65_537]]);
    assert!(raw.reply().starts_with("-ERR the key has 65537 bytes"));
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn times() {
    let servers = cluster().await;
    let raw = &mut Raw::connect(servers[0].resp);
    script(
        raw,
        &[
            ("SET a 1 EX 100", "+OK"),
            ("TTL a", ":100"),
            ("SET a 2 KEEPTTL", "+OK"),
            ("TTL a", ":100"),
            ("PERSIST a", ":1"),
            ("PERSIST a", ":0"),
            ("TTL a", ":-1"),
            ("PTTL nothing", ":-2"),
            ("EXPIRE a 50", ":1"),
            ("EXPIRE nothing 50", ":0"),
            ("EXPIREAT a 33177117420", ":1"),
            ("EXPIRETIME a", ":33177117420"),
            ("PEXPIRETIME a", ":33177117420000"),
            ("SET a 3", "+OK"),
            ("TTL a", ":-1"),
            ("EXPIRE a -1", ":1"),
            ("GET a", "nil"),
            ("SET a 1 PXAT 1000", "+OK"),
            ("GET a", "nil"),
            ("SETEX a 10 v", "+OK"),
            ("TTL a", ":10"),
            ("SETEX a 0 v", "-ERR invalid expire time in 'setex' command"),
            ("PSETEX b 30 v", "+OK"),
        ],
    );
    assert!(raw.ask("EXPIRE a 10 NX").starts_with("-ERR Unsupported option NX"));
    until("gone when its time has come", || raw.ask("GET b") == "nil").await;
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn a_pipeline_over_all_buckets_is_answered_in_order() {
    let servers = cluster().await;
    let mut raw = Raw::connect(servers[0].resp);
    for number in 0..3000 {
        raw.send(&format!("SET key:{number} {number}"));
        raw.send(&format!("GET key:{number}"));
        raw.send(&format!("INCR key:{number}"));
    }
    raw.send("PING");
    for number in 0..3000 {
        assert_eq!(raw.reply(), "+OK");
        assert_eq!(raw.reply(), number.to_string());
        assert_eq!(raw.reply(), format!(":{}", number + 1));
    }
    assert_eq!(raw.reply(), "+PONG");
    let large = vec![b'v'; 200_000];
    for number in 0..50 {
        raw.send_words(&[b"SET", format!("large:{number}").as_bytes(), &large]);
    }
    (0..50).for_each(|_| assert_eq!(raw.reply(), "+OK"));
    for number in 0..500 {
        raw.send(&format!("GET large:{}", number % 50));
    }
    (0..500).for_each(|_| assert_eq!(raw.reply().len(), large.len()));

    let mut others = Raw::connect(servers[2].resp);
    assert_eq!(others.ask("DBSIZE"), ":3050");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = raw.ask(&format!("SCAN {cursor} MATCH key:* COUNT 100"));
        let (next, names) = reply.trim_matches(['[', ']']).split_once(" [").expect("a cursor and names");
        found.extend(names.split(' ').filter(|name| !name.is_empty()).map(str::to_owned));
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
        // On any connection.
        std::mem::swap(&mut raw, &mut others);
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 3000);
    assert_eq!(raw.ask("SCAN 16384"), "-ERR invalid cursor");
    assert_eq!(raw.ask("SCAN 0 COUNT 0"), "-ERR syntax error");
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn transactions() {
    let servers = cluster().await;
    let raw = &mut Raw::connect(servers[0].resp);
    script(
        raw,
        &[
            ("MULTI", "+OK"),
            ("SET {t}a 1", "+QUEUED"),
            ("INCR {t}a", "+QUEUED"),
            ("GET {t}a", "+QUEUED"),
            ("MGET {t}a {t}b", "+QUEUED"),
            ("DEL {t}a {t}b", "+QUEUED"),
            ("EXISTS {t}a", "+QUEUED"),
            ("MSET {t}a 5 {t}b 6", "+QUEUED"),
            ("EXEC", "[+OK :2 2 [2 nil] :1 :0 +OK]"),
            ("MGET {t}a {t}b", "[5 6]"),
            ("MULTI", "+OK"),
            ("EXEC", "[]"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("SET {t}a 7", "+QUEUED"),
            ("DISCARD", "+OK"),
            ("GET {t}a", "5"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "+OK"),
            ("SET {t}a 7", "+QUEUED"),
            ("SET other 7", "-CROSSSLOT Keys in request don't hash to the same slot"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SET {t}a 7 NX", "-ERR a command with a condition (NX, XX) cannot be part of a transaction here"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("FOO", "-ERR unknown command 'FOO', with args beginning with:"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SET {t}a word", "+QUEUED"),
            ("INCR {t}a", "+QUEUED"),
        ],
    );
    assert!(raw.ask("EXEC").starts_with("-EXECABORT Transaction discarded, nothing was applied: command 2"));
    script(
        raw,
        &[
            ("GET {t}a", "5"),
            ("MULTI", "+OK"),
            ("XADD {t}s * data one", "+QUEUED"),
            ("XADD {t}s MAXLEN 1 * data two", "+QUEUED"),
            ("XDEL {t}s 1-0", "+QUEUED"),
            ("SET {t}a 1", "-ERR a stream together with values cannot be part of a transaction here"),
            ("DISCARD", "+OK"),
            ("MULTI", "+OK"),
            ("XADD {t}s * data one", "+QUEUED"),
            ("XADD {t}s MAXLEN 1 * data two", "+QUEUED"),
            ("XDEL {t}s 2-0", "+QUEUED"),
            ("EXEC", "[1-0 2-0 :1]"),
            ("XLEN {t}s", ":0"),
            ("XADD {t}s * data three", "3-0"),
            ("MULTI", "+OK"),
            ("EXISTS {t}s {t}a {t}none", "+QUEUED"),
            ("SET {t}a 9", "+QUEUED"),
            ("DEL {t}s {t}a {t}none", "+QUEUED"),
            ("EXISTS {t}s {t}a", "+QUEUED"),
            ("EXEC", "[:2 +OK :2 :0]"),
            ("EXISTS {t}s {t}a", ":0"),
            ("XADD {t}s * data four", "4-0"),
            ("MULTI", "+OK"),
            ("DEL {t}s", "+QUEUED"),
            ("SET {t}a word", "+QUEUED"),
            ("INCR {t}a", "+QUEUED"),
        ],
    );
    assert!(raw.ask("EXEC").starts_with("-EXECABORT Transaction discarded, nothing was applied: command 3"));
    script(
        raw,
        &[
            ("XLEN {t}s", ":1"),
            ("MULTI", "+OK"),
            ("DEL {t}s", "+QUEUED"),
            ("XADD {t}s * data five", "-ERR a stream together with values cannot be part of a transaction here"),
            ("DISCARD", "+OK"),
        ],
    );
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn streams() {
    let servers = cluster().await;
    let raw = &mut Raw::connect(servers[0].resp);
    script(
        raw,
        &[
            ("XLEN s", ":0"),
            ("XRANGE s - +", "[]"),
            ("XADD s * data one", "1-0"),
            ("XADD s * name x size 7", "2-0"),
            ("XADD s 3-0 data three", "3-0"),
            ("XADD s 4-* data four", "4-0"),
            (
                "XADD s 9-0 a b",
                "-ERR The ID specified in XADD must be the next one, which is 5-0: ids count the messages of a stream",
            ),
            ("XADD s 0-0 a b", "-ERR The ID specified in XADD must be greater than 0-0"),
            ("XADD s * a", "-ERR wrong number of arguments for 'xadd' command"),
            ("XADD s x a b", "-ERR Invalid stream ID specified as stream command argument"),
            ("XLEN s", ":4"),
            ("TYPE s", "+stream"),
            ("EXISTS s", ":1"),
            ("XRANGE s - + COUNT 2", "[[1-0 [data one]] [2-0 [name x size 7]]]"),
            ("XRANGE s 2 3", "[[2-0 [name x size 7]] [3-0 [data three]]]"),
            ("XRANGE s (2-0 (4-0", "[[3-0 [data three]]]"),
            ("XRANGE s 5 4", "[]"),
            ("XREVRANGE s + - COUNT 2", "[[4-0 [data four]] [3-0 [data three]]]"),
            ("XREVRANGE s 3 2", "[[3-0 [data three]] [2-0 [name x size 7]]]"),
            ("XDEL s 3-0 3-0 9-9", ":1"),
            ("XRANGE s 2 +", "[[2-0 [name x size 7]] [4-0 [data four]]]"),
            ("XTRIM s MAXLEN = 2", ":1"),
            ("XRANGE s 1 1", "[]"),
            ("XRANGE s 1 2", "[[2-0 [name x size 7]]]"),
            ("XTRIM s MINID 4", ":1"),
            ("XREVRANGE s + -", "[[4-0 [data four]]]"),
            ("XADD s MAXLEN ~ 1 LIMIT 10 * data five", "5-0"),
            ("XLEN s", ":1"),
            ("XREAD COUNT 1 STREAMS s nothing 0 0", "[[s [[5-0 [data five]]]]]"),
            ("XREAD STREAMS s $", "nil"),
            ("XREAD STREAMS s", "-ERR wrong number of arguments for 'xread' command"),
            ("XREAD BLOCK -1 STREAMS s $", "-ERR timeout is negative"),
            ("SET text 1", "+OK"),
            ("XLEN text", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XRANGE text - +", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SCAN 0 TYPE hash COUNT 1000", "[2048 []]"),
            ("DEL s", ":1"),
            ("TYPE s", "+none"),
        ],
    );
    raw.send_words(&[b"XADD", b"bytes", b"*", b"data", b"\xffX\x01", b"\r\n", b""]);
    assert_eq!(raw.reply(), "1-0");
    for number in 0..10_000 {
        raw.send(&format!("XADD many * data {number}"));
    }
    (0..10_000).for_each(|number| assert_eq!(raw.reply(), format!("{}-0", number + 1)));
    assert_eq!(raw.ask("XRANGE many - +").matches("-0 [data").count(), 10_000);
    assert_eq!(raw.ask("XREVRANGE many + 5001").matches("-0 [data").count(), 5_000);
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn whoever_waits_for_a_stream_is_told() {
    let servers = cluster().await;
    let mut writer = Raw::connect(servers[0].resp);
    let mut reader = Raw::connect(servers[1].resp);
    reader.send("PING");
    reader.send("XREAD BLOCK 20000 STREAMS one two $ $");
    reader.send("PING");
    assert_eq!(reader.reply(), "+PONG", "what came before is answered");
    assert!(reader.is_quiet(Duration::from_millis(150)));
    assert_eq!(writer.ask("XADD two * data hello"), "1-0");
    assert_eq!(reader.reply(), "[[two [[1-0 [data hello]]]]]");
    assert_eq!(reader.reply(), "+PONG", "and what came after it, after it");
    assert_eq!(reader.ask("XREAD BLOCK 30 STREAMS one 0"), "nil");
    assert!(reader.ask("HELLO 3").starts_with('{'));
    assert_eq!(reader.ask("XREAD STREAMS two 0"), "{two [[1-0 [data hello]]]}");
    assert_eq!(reader.ask("XREAD BLOCK 30 STREAMS one 0"), "nil");
    reader.send("XREAD BLOCK 0 STREAMS one 0");
    assert!(reader.is_quiet(Duration::from_millis(50)));
    let clients = servers[1].gateway.clients();
    drop(reader);
    until("noticed that a waiting client is gone", || servers[1].gateway.clients() < clients).await;
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn the_connection_and_the_node() {
    let servers = cluster().await;
    let raw = &mut Raw::connect(servers[0].resp);
    script(
        raw,
        &[
            ("PING", "+PONG"),
            ("PING hello", "hello"),
            ("ECHO hello", "hello"),
            ("SELECT 0", "+OK"),
            ("SELECT 1", "-ERR DB index is out of range: there is one, 0"),
            ("AUTH default secret", "+OK"),
            ("AUTH nobody secret", "-WRONGPASS invalid username-password pair or user is disabled."),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "me"),
            ("CLIENT SETINFO LIB-NAME test", "+OK"),
            ("CONFIG GET save", "[save ]"),
            ("CONFIG GET max*s", "[maxclients 10000]"),
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("COMMAND COUNT", ":56"),
            ("RESET", "+RESET"),
            ("CLIENT GETNAME", "nil"),
            ("WAIT 0 0", ":2"),
            ("READONLY", "+OK"),
        ],
    );
    assert!(raw.ask("HELLO 2 AUTH default x SETNAME me").starts_with("[server redis version"));
    assert!(raw.ask("HELLO 3").starts_with("{server redis version"));
    assert_eq!(raw.ask("CONFIG GET save"), "{save }");
    assert!(raw.ask("COMMAND INFO get").starts_with("[[get :2 [+readonly +fast] :1 :1 :1"));
    assert_eq!(raw.ask("COMMAND GETKEYS MSET a 1 b 2"), "[a b]");
    assert_eq!(raw.ask("COMMAND GETKEYS XREAD COUNT 2 STREAMS a b 0 0"), "[a b]");
    assert_eq!(raw.ask("COMMAND GETKEYS GET a"), "[a]");
    assert!(raw.ask("COMMAND GETKEYS PING").starts_with("-ERR The command has no key"));
    assert!(raw.ask("INFO").contains("redis_version"));
    assert!(!raw.ask("INFO clients").contains("redis_version"));
    raw.send_bytes(b"set words \"two words\"\r\nget words\r\n");
    assert_eq!((raw.reply(), raw.reply()), ("+OK".to_owned(), "two words".to_owned()));
    assert_eq!(raw.ask("QUIT"), "+OK");
    assert_eq!(raw.rest(), "", "and that was that");
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn clients_that_route_themselves_are_sent_to_the_primary() {
    let servers = cluster().await;
    let raw = &mut Raw::connect(servers[0].resp);
    let routes = servers[0].gateway.board().routes();
    let key = (0..1000).map(|number| format!("key{number}")).find(|key| !routes.is_mine(HashSlot::of(key.as_bytes())));
    let key = key.expect("a key that is elsewhere");
    let slot = HashSlot::of(key.as_bytes());
    assert_eq!(raw.ask(&format!("SET {key} 1")), "+OK", "anybody else is hopped");
    assert_eq!(raw.ask(&format!("CLUSTER KEYSLOT {key}")), format!(":{}", slot.0));
    let nodes = raw.ask("CLUSTER NODES");
    assert_eq!(nodes.lines().count(), 3);
    assert!(nodes.lines().any(|line| line.contains("myself,master")));
    assert!(raw.ask("CLUSTER INFO").contains("cluster_state:ok"));
    assert_eq!(raw.ask("CLUSTER MYID").len(), 40);
    assert_eq!(raw.ask("CLUSTER SLOTS").matches("127.0.0.1").count(), 64 * 3);
    assert!(raw.ask("CLUSTER SHARDS").contains("role master"));
    let place = &routes.place_of(slot).expect("a primary").resp;
    let moved = format!("-MOVED {} {place}", slot.0);
    assert_eq!(raw.ask(&format!("GET {key}")), moved);
    assert_eq!(raw.ask(&format!("XADD {key} * a b")), moved);
    assert_eq!(raw.ask(&format!("XRANGE {key} - +")), moved);
    assert_eq!(raw.ask("MULTI"), "+OK");
    assert_eq!(raw.ask(&format!("GET {key}")), moved);
    assert!(raw.ask("EXEC").starts_with("-EXECABORT"));
    let there = &mut Raw::connect(place.parse().expect("an address"));
    assert_eq!(there.ask("CLUSTER SLOTS").matches("127.0.0.1").count(), 64 * 3);
    assert_eq!(there.ask(&format!("GET {key}")), "1");
    assert_eq!(raw.ask("READONLY"), "+OK");
    assert_eq!(raw.ask(&format!("GET {key}")), "1", "one that means to read here is hopped");
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn nonsense_is_refused_and_nobody_else_is_disturbed() {
    let servers = start_with(3, |settings| {
        settings.slow = Duration::from_millis(300);
        settings.idle = Duration::from_millis(600);
    });
    healthy(&servers).await;
    let server = &servers[0];
    let last = |bytes: &[u8]| {
        let mut raw = Raw::connect(server.resp);
        raw.send_bytes(bytes);
        raw.rest()
    };
    assert_eq!(last(b"*1\r\n$-1\r\n"), "-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(last(b"*1\r\n$99999999\r\n"), "-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(last(b"*9999999\r\n"), "-ERR Protocol error: invalid multibulk length\r\n");
    assert_eq!(last(b"*1\r\n+PING\r\n"), "-ERR Protocol error: expected '$', got '+'\r\n");
    assert_eq!(last(b"PING\r\n*x\r\nPING\r\n"), "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n");
    assert_eq!(last(&[b'a'; 70_000]), "-ERR Protocol error: too big inline request\r\n");
    let http = last(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(http.starts_with("HTTP/1.1 400 ") && http.contains("HTTP is at http://127.0.0.1:"), "{http}");
    assert!(server.gateway.refused().so_far(Why::Malformed) >= 4);
    assert!(server.gateway.refused().so_far(Why::TooLarge) >= 3);
    assert_eq!(last(b"*2\r\n$3\r\nGET\r\n$5\r\nab"), "", "half a request is not waited for");
    assert_eq!(last(b""), "", "nor one that never comes");
    assert!(server.gateway.refused().so_far(Why::TooSlow) >= 2);

    // A byte now and then: some come just when patience ends, and must not hide that.
    let slow = server.gateway.refused().so_far(Why::TooSlow);
    let drips: Vec<_> = (1..=8).map(|pause| std::thread::spawn(drip(server.resp, pause))).collect();
    until("let go", || server.gateway.refused().so_far(Why::TooSlow) == slow + 8).await;
    drips.into_iter().for_each(|drip| drip.join().expect("it ends when it is let go"));

    // One that does not read what it asks for.
    let mut greedy = Raw::connect(server.resp);
    greedy.send_words(&[b"SET", b"k", &vec![b'v'; 1_000_000]]);
    assert_eq!(greedy.reply(), "+OK");
    let slow = server.gateway.refused().so_far(Why::TooSlow);
    (0..200).for_each(|_| greedy.send("GET k"));
    until("let go", || server.gateway.refused().so_far(Why::TooSlow) > slow).await;
    assert_eq!(Raw::connect(server.resp).ask("PING"), "+PONG");
    servers.into_iter().for_each(Server::kill);
}

/// Never comes to the end of a request.
fn drip(to: SocketAddr, pause: u64) -> impl FnOnce() {
    move || {
        let mut raw = TcpStream::connect(to).expect("it listens");
        raw.write_all(b"*1\r\n$60000\r\n").expect("it listens");
        while raw.write_all(b"a").is_ok() {
            std::thread::sleep(Duration::from_millis(pause));
        }
    }
}
