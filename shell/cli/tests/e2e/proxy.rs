//! Links between nodes that can be cut. A proxy stands before each node's peer port; the hello on each connection says
//! whose it is, so that a single link, or one direction of it, can be cut. What is cut is swallowed: nobody is told.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

type Link = (SocketAddr, SocketAddr);

#[derive(Clone, Default)]
pub(crate) struct Network {
    cut: Arc<Mutex<BTreeSet<Link>>>,
}

impl Network {
    /// A place before `node`. Others are to be told this address.
    pub(crate) fn before(&self, node: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let network = self.clone();
        // Ends with the process of the tests.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let network = network.clone();
                thread::spawn(move || network.forward(stream, node, place));
            }
        });
        place
    }

    /// What `from` sends to `to` is swallowed.
    pub(crate) fn cut(&self, from: SocketAddr, to: SocketAddr) {
        self.cut.lock().unwrap().insert((from, to));
    }

    pub(crate) fn cut_both_ways(&self, one: SocketAddr, other: SocketAddr) {
        self.cut(one, other);
        self.cut(other, one);
    }

    pub(crate) fn mend(&self) {
        self.cut.lock().unwrap().clear();
    }

    fn is_cut(&self, link: Link) -> bool {
        self.cut.lock().unwrap().contains(&link)
    }

    fn forward(&self, mut client: TcpStream, node: SocketAddr, place: SocketAddr) -> Option<()> {
        let (hello, from) = hello(&mut client)?;
        let link = (from, place);
        let mut server = TcpStream::connect(node).ok()?;
        server.set_nodelay(true).ok()?;
        if !self.is_cut(link) {
            server.write_all(&hello).ok()?;
        }
        let (mut answers, mut back) = (server.try_clone().ok()?, client.try_clone().ok()?);
        let network = self.clone();
        // Only greetings and the end come back on a connection.
        thread::spawn(move || network.pump(&mut answers, &mut back, (place, from)));
        self.pump(&mut client, &mut server, link);
        Some(())
    }

    fn pump(&self, from: &mut TcpStream, to: &mut TcpStream, link: Link) {
        let mut bytes = [0; 64 * 1024];
        let mut lost = false;
        while let Ok(length) = from.read(&mut bytes) {
            if length == 0 {
                break;
            }
            // A stream with a hole in it is of no use: it stays cut, also once the link is mended.
            lost |= self.is_cut(link);
            if lost && !self.is_cut(link) {
                break;
            }
            if !lost && to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// The bytes of a hello, and the address in it.
fn hello(client: &mut TcpStream) -> Option<(Vec<u8>, SocketAddr)> {
    let mut bytes = vec![0; 10];
    client.read_exact(&mut bytes).ok()?;
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let mut rest = vec![0; length + 2];
    client.read_exact(&mut rest).ok()?;
    let address = std::str::from_utf8(&rest[..length]).ok()?.parse().ok()?;
    bytes.extend(rest);
    Some((bytes, address))
}
