//! XREAD: what came after an id, of several streams, waiting for it if need be.
//!
//! ```text
//!   read all ──▶ something? ──▶ reply
//!      ▲            │ no
//!      └── any ◀────┘ for each stream: a read that waits for its bucket's log to grow
//! ```
//!
//! The reads that wait have connection numbers of their own: nothing on this connection waits behind them.

use super::expect::{other_stream, streams};
use super::options::{check_key, is, number};
use super::parse::Arguments;
use super::plan::{Asker, Plan, Said, read};
use super::range::{Entries, absent, forward};
use super::reply::{Fault, Protocol, bytes};
use super::streams::EntryId;
use crate::call::{Call, Caller, Mailbox};
use crate::data::stream_query;
use atoll_node::shard::door::{Answer, Ask};
use atoll_stream::{Answer as Streams, Query, StreamOffset};
use atoll_types::{HashSlot, Position};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How many streams one XREAD may name.
const STREAMS_MOST: usize = 256;
/// Before asking again somebody who could not answer.
const PAUSE: Duration = Duration::from_millis(50);
/// Before asking again a bucket that is busy with other things.
const BREATH: Duration = Duration::from_millis(2);

#[derive(Debug)]
struct Wanted {
    stream: Vec<u8>,
    /// Offsets above this one; none: above the last there is now.
    after: Option<u64>,
}

pub(crate) fn plan(arguments: Arguments<'_>, protocol: Protocol, asker: Asker) -> Result<Plan, Fault> {
    let (mut count, mut block) = (None, None);
    let mut index = 1;
    loop {
        let option = arguments.get(index);
        if is(option, "STREAMS") {
            break;
        }
        if index + 1 >= arguments.len() {
            return Err(Fault::SYNTAX);
        }
        let value = arguments.get(index + 1);
        if is(option, "COUNT") {
            count = u64::try_from(number(value)?).ok().filter(|&count| count > 0);
        } else if is(option, "BLOCK") {
            let milliseconds =
                number(value).map_err(|_| Fault::new("ERR timeout is not an integer or out of range"))?;
            let milliseconds = u64::try_from(milliseconds).map_err(|_| Fault::new("ERR timeout is negative"))?;
            block = Some(Duration::from_millis(milliseconds));
        } else {
            return Err(Fault::SYNTAX);
        }
        index += 2;
    }
    let names = arguments.from(index + 1);
    if names.len() == 0 || !names.len().is_multiple_of(2) {
        return Err(Fault::new(
            "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.",
        ));
    }
    let streams = names.len() / 2;
    if streams > STREAMS_MOST {
        return Err(Fault::new(format!("ERR XREAD takes {STREAMS_MOST} streams at most")));
    }
    let mut wanted = Vec::new();
    for index in 0..streams {
        let (stream, id) = (names.get(index), names.get(streams + index));
        check_key(stream)?;
        let after = if id == b"$" { None } else { Some(EntryId::parse(id)?.offset) };
        wanted.push(Wanted { stream: stream.to_vec(), after });
    }
    let late = Box::pin(async move {
        let found = find(&asker, wanted, count, block).await;
        let reply = bytes(protocol, |reply| match &found {
            Err(fault) => reply.fault(fault),
            Ok(found) if found.is_empty() => reply.null_array(),
            Ok(found) => {
                match protocol {
                    Protocol::Two => reply.array(found.len()),
                    Protocol::Three => reply.map(found.len()),
                }
                for (stream, entries) in found {
                    if protocol == Protocol::Two {
                        reply.array(2);
                    }
                    reply.bulk(stream);
                    entries.write(reply);
                }
            }
        });
        Said { reply, rest: None }
    });
    Ok(Plan::Late { late, blocks: block.is_some() })
}

type Found = Vec<(Vec<u8>, Entries)>;

async fn find(
    asker: &Asker,
    mut wanted: Vec<Wanted>,
    count: Option<u64>,
    block: Option<Duration>,
) -> Result<Found, Fault> {
    // No limit is as good as a year.
    let patience = block.filter(|block| !block.is_zero()).unwrap_or(Duration::from_secs(31_536_000));
    let until = Instant::now() + patience.min(Duration::from_secs(31_536_000));
    for wanted in &mut wanted {
        if wanted.after.is_none() {
            wanted.after = Some(newest(asker, &wanted.stream).await?);
        }
    }
    let mut bell = Bell::new(wanted.len());
    loop {
        let (found, positions) = look(asker, &wanted, count).await?;
        if !found.is_empty() || block.is_none() {
            return Ok(found);
        }
        bell.listen(asker, &wanted, &positions);
        let Ok(pause) = timeout_at(until, bell.ring()).await else { return Ok(Found::new()) };
        sleep(pause).await;
    }
}

/// The last offset that was given in this stream.
async fn newest(asker: &Asker, stream: &[u8]) -> Result<u64, Fault> {
    let given = asker.ask(HashSlot::of(stream), read(stream_query(&Query::Info { stream }))).await?;
    match streams(given.payload.as_slice())? {
        Streams::Info(info) => Ok(info.next.0.saturating_sub(1)),
        Streams::Absent => absent(asker, stream).await.map(|_| 0),
        other @ (Streams::Malformed
        | Streams::Done(_)
        | Streams::Failed { .. }
        | Streams::CrossSlot { .. }
        | Streams::Messages { .. }
        | Streams::Reset { .. }
        | Streams::Number(_)
        | Streams::Names { .. }) => Err(other_stream(&other)),
    }
}

async fn look(asker: &Asker, wanted: &[Wanted], count: Option<u64>) -> Result<(Found, Vec<Position>), Fault> {
    let (mut found, mut positions) = (Found::new(), Vec::new());
    for Wanted { stream, after } in wanted {
        let first = after.unwrap_or(0).saturating_add(1);
        let seen = forward(asker, stream, first, u64::MAX, count).await?;
        positions.push(seen.position);
        match seen.entries {
            None => drop(absent(asker, stream).await?),
            Some(entries) if entries.count > 0 => found.push((stream.clone(), entries)),
            Some(_) => {}
        }
    }
    Ok((found, positions))
}

/// Rings when one of several buckets has gone on.
#[derive(Debug)]
struct Bell {
    mailbox: std::sync::Arc<Mailbox>,
    /// For which streams somebody is waiting. One is asked again only after its answer: waiting costs no more than one
    /// request for each stream, however often the others ring.
    asked: Vec<bool>,
    answers: Vec<(u64, Answer)>,
}

impl Bell {
    fn new(streams: usize) -> Bell {
        Bell { mailbox: Mailbox::new(), asked: vec![false; streams], answers: Vec::new() }
    }

    fn listen(&mut self, asker: &Asker, wanted: &[Wanted], positions: &[Position]) {
        for (index, (Wanted { stream, after }, position)) in wanted.iter().zip(positions).enumerate() {
            if std::mem::replace(&mut self.asked[index], true) {
                continue;
            }
            let from = Some(StreamOffset(after.unwrap_or(0).saturating_add(1)));
            let query = stream_query(&Query::Read { stream, from, limit: 1, bytes: 1 });
            let mut next = *position;
            next.mark.offset = next.mark.offset.next();
            asker.gateway.call(Call {
                protocol: crate::Protocol::Resp,
                connection: asker.gateway.new_connection(),
                slot: HashSlot::of(stream),
                ask: Ask::Stale { query, after: Some(next) },
                caller: Caller::Mailbox(self.mailbox.clone(), index as u64),
            });
        }
    }

    /// How long to wait before looking again.
    async fn ring(&mut self) -> Duration {
        loop {
            self.mailbox.take(&mut self.answers);
            if !self.answers.is_empty() {
                break;
            }
            self.mailbox.filled().await;
        }
        let mut pause = PAUSE;
        for (index, answer) in self.answers.drain(..) {
            if let Some(asked) = self.asked.get_mut(index as usize) {
                *asked = false;
            }
            let Answer::Done { payload, .. } = answer else { continue };
            let is_news = match Streams::decode(payload.as_slice()) {
                Some(Streams::Messages { messages, .. }) => !messages.is_empty(),
                Some(answer) => !matches!(answer, Streams::Absent),
                None => false,
            };
            pause = if is_news { Duration::ZERO } else { pause.min(BREATH) };
        }
        pause
    }
}
