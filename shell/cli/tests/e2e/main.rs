//! Real processes on loopback, with load on them, while things go wrong. Whatever happens: no acknowledged write is
//! lost, none counts twice, reads are linearizable, every caller is answered, and the cluster becomes healthy again.
//!
//! | File | What |
//! |---|---|
//! | `cluster.rs` | nodes as processes: started, killed, frozen, stopped |
//! | `http.rs` | the few lines of HTTP that the tests speak |
//! | `ports.rs`, of the server's tests | where nobody listens |
//! | `load.rs` | writers and readers, and what must hold of what they saw |
//! | `plain.rs` | clients that try nothing twice, of whom no request fails as long as no node does |
//! | `proxy.rs` | links between nodes that can be cut, one way or both |
//! | `failures.rs`, `changes.rs`, `links.rs`, `durable.rs`, `disks.rs`, `backup.rs`, `recording.rs` | the tests |

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]

mod backup;
mod changes;
mod cluster;
mod disks;
mod durable;
mod failures;
mod http;
mod links;
mod load;
mod plain;
#[path = "../../../server/tests/common/ports.rs"]
mod ports;
mod proxy;
mod recording;
