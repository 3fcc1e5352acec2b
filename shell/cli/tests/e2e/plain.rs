//! Clients that know nothing: no session, no slot map, no second try. They speak RESP, many writes at a time, and as
//! long as nobody fails each of them has to be done.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const CLIENTS: usize = 6;
const AT_A_TIME: usize = 16;
/// Enough that every bucket has something under way.
const KEYS: usize = 2000;

pub(crate) struct Plain {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

impl Plain {
    pub(crate) fn start(nodes: &[SocketAddr]) -> Plain {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |number: usize| {
            let (node, stop, done) = (nodes[number % nodes.len()], stop.clone(), done.clone());
            thread::spawn(move || write(node, number, &stop, &done))
        };
        Plain { clients: (0..CLIENTS).map(client).collect(), stop, done }
    }

    /// What was done. Complains of any write that was not.
    pub(crate) fn end(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("a client does not panic").expect("every write is done");
        }
        self.done.load(Ordering::SeqCst)
    }
}

fn write(node: SocketAddr, client: usize, stop: &AtomicBool, done: &AtomicU64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{node}: {error}");
    let mut stream = TcpStream::connect(node).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
    let mut replies = BufReader::new(stream.try_clone().map_err(failed)?);
    let mut number = client;
    while !stop.load(Ordering::SeqCst) {
        let mut batch = String::new();
        for _ in 0..AT_A_TIME {
            number += 1;
            batch += &format!("SET plain-{} {number}\r\n", number * 7919 % KEYS);
        }
        stream.write_all(batch.as_bytes()).map_err(failed)?;
        for _ in 0..AT_A_TIME {
            let mut reply = String::new();
            replies.read_line(&mut reply).map_err(failed)?;
            if reply != "+OK\r\n" {
                return Err(format!("{node} said {reply:?}"));
            }
            done.fetch_add(1, Ordering::SeqCst);
        }
    }
    Ok(())
}
