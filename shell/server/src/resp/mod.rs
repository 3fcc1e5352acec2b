//! The RESP listener: what clients of Redis speak, version 2 and 3.
//!
//! | File | What |
//! |---|---|
//! | `connection.rs` | one client: reads, plans, asks, writes |
//! | `parse.rs`, `reply.rs` | requests out of bytes, replies into bytes |
//! | `table.rs`, `session.rs` | the commands, and which file handles which |
//! | `plan.rs` | what is to be done for a command |
//! | `queue.rs`, `expect.rs` | replies in order, answers of the core as replies |
//! | `strings.rs`, `keys.rs`, `scan.rs` | values, names, all names |
//! | `streams.rs`, `range.rs`, `tail.rs` | streams: written, read, waited for |
//! | `transaction.rs` | several commands as one |
//! | `cluster.rs`, `server.rs` | the cluster, the node and the connection itself |
//! | `options.rs` | small things that many commands read |

mod cluster;
mod connection;
mod expect;
mod keys;
mod options;
pub(crate) mod parse;
mod plan;
mod queue;
mod range;
mod reply;
mod scan;
mod server;
mod session;
mod streams;
mod strings;
mod table;
mod tail;
mod transaction;

use crate::gateway::Gateway;
use crate::home::Home;
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;

pub(crate) async fn serve(stream: TcpStream, gateway: Gateway, home: &Rc<Home>) -> io::Result<()> {
    connection::Connection::new(stream, gateway).serve(home).await
}
