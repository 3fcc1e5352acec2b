//! What commands print: bytes as they are, and streams of events that survive a node.

use crate::Outcome;
use crate::remote::Server;
use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

/// A value, to the byte; on a terminal its line is ended.
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    if out.is_terminal() && !bytes.ends_with(b"\n") {
        out.write_all(b"\n")?;
    }
    Ok(())
}

pub(crate) fn line(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Follows events until somebody ends this process; goes on where it was when the connection is lost.
pub(crate) fn follow(
    server: &Server,
    path: &str,
    mut show: impl FnMut(&str, &str) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let mut last: Option<String> = None;
    let mut events = server.follow(path, None)?;
    loop {
        while let Some(event) = events.next() {
            if let Some(data) = &event.data {
                show(&event.kind, data)?;
            }
            last = event.id.or(last);
        }
        eprintln!("atoll: the connection was lost; asking again");
        events = loop {
            match server.follow(path, last.as_deref()) {
                Ok(events) => break events,
                Err(_) => sleep(Duration::from_millis(500)),
            }
        };
    }
}
