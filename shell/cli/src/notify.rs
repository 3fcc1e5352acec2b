//! What a service manager is told: that this node serves, how it is, that it stops, and that it is not stuck.
//!
//! The protocol is that of `sd_notify(3)`: datagrams to the socket that `NOTIFY_SOCKET` names. Without that variable
//! nobody is told anything.

use atoll_server::{Board, Gateway};
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::time::{interval, timeout};

/// How often it is looked whether something new is to be told.
const LOOK: Duration = Duration::from_millis(500);

/// Whoever started this process and wants to hear of it.
#[derive(Debug)]
pub(crate) struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// It takes this process for stuck that has said nothing for so long.
    watchdog: Option<Duration>,
}

impl Manager {
    /// None: nobody wants to hear anything, or cannot be reached.
    pub(crate) fn from_environment() -> Option<Manager> {
        let path = std::env::var_os("NOTIFY_SOCKET")?;
        let meant = std::env::var("WATCHDOG_PID").map_or(true, |id| id == std::process::id().to_string());
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| meant).and_then(|text| text.parse().ok());
        Manager::at(path, watchdog.map(Duration::from_micros)).ok()
    }

    fn at(path: OsString, watchdog: Option<Duration>) -> io::Result<Manager> {
        let address = match path.as_bytes() {
            // A name that stands in no file system.
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&path)?,
        };
        let socket = UnixDatagram::unbound()?;
        // One that does not read must not hold up this node.
        socket.set_nonblocking(true)?;
        Ok(Manager { socket, address, watchdog })
    }

    /// One who does not listen misses something, and that is all.
    pub(crate) fn say(&self, words: &str) {
        let _ = self.socket.send_to_addr(words.as_bytes(), &self.address);
    }

    pub(crate) fn say_stopping(&self) {
        self.say("STOPPING=1\nSTATUS=hands over what it is primary of");
    }

    /// Tells how the node is, for as long as it is asked to.
    pub(crate) async fn keep_told(&self, gateway: &Gateway) {
        let mut told = String::new();
        let mut ready = false;
        let mut look = interval(self.watchdog.map_or(LOOK, |limit| LOOK.min(limit / 3)));
        loop {
            look.tick().await;
            let status = status(gateway.board());
            if status != told {
                self.say(&format!("STATUS={status}"));
                told = status;
            }
            if !ready && gateway.board().status().is_ready() {
                ready = true;
                self.say("READY=1");
            }
            if let Some(limit) = self.watchdog
                && timeout(limit / 2, gateway.all_threads_answer()).await.is_ok()
            {
                self.say("WATCHDOG=1");
            }
        }
    }
}

/// In one line.
fn status(board: &Board) -> String {
    let status = board.status();
    match status.problems.first() {
        None => format!("healthy: {} nodes, {} buckets", status.nodes.len(), status.buckets),
        Some(first) => match status.problems.len() {
            1 => first.replace('\n', " "),
            more => format!("{} (and {} more)", first.replace('\n', " "), more - 1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hears(listener: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = listener.recv(&mut bytes).expect("something was said");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn a_manager_is_reached_by_a_path_and_by_a_name() {
        let path = std::env::temp_dir().join(format!("atoll-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixDatagram::bind(&path).expect("a socket");
        Manager::at(path.clone().into(), None).expect("a manager").say("READY=1");
        assert_eq!(hears(&listener), "READY=1");
        let _ = std::fs::remove_file(&path);

        let name = format!("atoll-notify-{}", std::process::id());
        let listener = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound");
        Manager::at(format!("@{name}").into(), None).expect("a manager").say_stopping();
        assert!(hears(&listener).starts_with("STOPPING=1\n"));
    }

    #[test]
    fn one_that_is_gone_is_no_harm() {
        Manager::at("/nowhere/at/all".into(), None).expect("a manager").say("READY=1");
    }
}
