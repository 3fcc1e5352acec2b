//! What every protocol of the load generator is: bytes to send, and what the bytes that came mean. No sockets in here,
//! so each is tested with bytes alone.

/// What was found at the front of the bytes that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Not all of it is there yet; nothing was taken.
    Part,
    /// Taken, and it says nothing about a request.
    Nothing,
    /// The connection may be used now.
    Ready,
    /// So many requests were answered as they should be.
    Done(usize),
    /// A request was refused, or its answer means that the promise was not kept.
    Failed(String),
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Work {
    Put,
    Get,
    /// A write to a key that is new; only ZooKeeper tells it from a write to one that is there.
    Create,
}

pub(crate) trait Protocol {
    /// What the connection says first. True if it may be used at once, without an `Event::Ready`.
    fn greet(&mut self, out: &mut Vec<u8>) -> bool;

    /// Appends one request for each key.
    fn ask(&mut self, work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>);

    /// Looks at the front of `input`: how many bytes were taken, and what they mean. May append what must be said in
    /// return.
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event);
}

pub(crate) fn part() -> (usize, Event) {
    (0, Event::Part)
}

/// The first line of `input` without its end, and how many bytes it took.
pub(crate) fn line(input: &[u8]) -> Option<(&str, usize)> {
    let end = input.windows(2).position(|pair| pair == b"\r\n")?;
    Some((std::str::from_utf8(&input[..end]).unwrap_or("?"), end + 2))
}

/// Feeds all of `input`, as a connection does, and gives the events.
#[cfg(test)]
pub(crate) fn feed(protocol: &mut dyn Protocol, input: &[u8], out: &mut Vec<u8>) -> Vec<Event> {
    let (mut at, mut events) = (0, Vec::new());
    loop {
        let (taken, event) = protocol.take(&input[at..], out);
        if event == Event::Part {
            assert_eq!(taken, 0, "what is not whole is not taken");
            return events;
        }
        at += taken;
        events.push(event);
    }
}

/// The same in pieces of one byte: no answer may depend on how the network cut it.
#[cfg(test)]
pub(crate) fn feed_bytewise(protocol: &mut dyn Protocol, input: &[u8]) -> Vec<Event> {
    let (mut held, mut events, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for &byte in input {
        held.push(byte);
        loop {
            let (taken, event) = protocol.take(&held, &mut out);
            if event == Event::Part {
                break;
            }
            held.drain(..taken);
            events.push(event);
        }
    }
    events
}
