//! Places on this machine where nobody listens. Also used by the tests of the client and of the command line.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the system gives to outgoing connections: one of those may be taken again before a node
/// listens on it. Processes begin at different places, and no place is given twice in one. It is asked whether somebody
/// answers, and not tried whether it can be had: a socket of our own, however short-lived, is inherited by a program
/// that another test starts at that moment, and then the place is taken.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id() as u16).wrapping_mul(97).wrapping_add(step) % 22_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpStream::connect(address).is_err() {
            return address;
        }
    }
}
