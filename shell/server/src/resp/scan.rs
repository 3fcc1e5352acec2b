//! SCAN and DBSIZE: over all buckets.
//!
//! A cursor is the hash slot to go on from, 0 at the end: it is good on any node, after any move or split of buckets.
//! A slot is given whole or not at all. Names are kept by buckets in their own order, not by slots, so a bucket is read
//! once and what is not given yet stays with the connection; a cursor that comes on another connection costs reading
//! the bucket again, and nothing else.
//!
//! What is there throughout is found: a name that is kept with the connection was there when its bucket was read.

use super::expect::{kv, number as kv_number, other_kv, other_stream, streams};
use super::options::{is, matches, number};
use super::parse::Arguments;
use super::plan::{Asker, Given, Late, Plan, Said, read};
use super::reply::{Fault, Protocol, bytes};
use crate::data::{kv_query, stream_query};
use crate::routes::Routes;
use atoll_kv::{Answer, Query};
use atoll_node::shard::door::Ask;
use atoll_stream::{Answer as Streams, Query as StreamQuery};
use atoll_types::HashSlot;
use std::time::Duration;
use tokio::time::sleep;

/// What one question to the core may bring.
const PAGE: u32 = 4096;
const PAGE_BYTES: u32 = 1 << 20;
/// Names that are held of one bucket: of the slots beyond, the bucket is read again.
const HELD_MOST: usize = 32 * 1024;
/// Buckets that one SCAN reads, even if they are empty.
const BUCKETS_MOST: usize = 8;
/// How often the table of routes may turn out to be older than an answer.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    String,
    Stream,
}

/// Names by their slots, of the slots from `from` to `last`.
#[derive(Debug)]
pub(crate) struct Rest {
    from: u16,
    last: u16,
    names: Vec<(HashSlot, Vec<u8>, Kind)>,
}

#[derive(Debug)]
struct Scan {
    cursor: u16,
    count: usize,
    pattern: Option<Vec<u8>>,
    kind: Option<Kind>,
    /// A kind that nothing here has.
    nothing: bool,
}

impl Scan {
    fn parse(arguments: Arguments<'_>) -> Result<Scan, Fault> {
        let cursor = number(arguments.get(1)).ok().and_then(|cursor| u16::try_from(cursor).ok());
        let cursor = cursor.filter(|&cursor| cursor < HashSlot::COUNT).ok_or(Fault::new("ERR invalid cursor"))?;
        let mut scan = Scan { cursor, count: 10, pattern: None, kind: None, nothing: false };
        let options = arguments.from(2);
        if !options.len().is_multiple_of(2) {
            return Err(Fault::SYNTAX);
        }
        for index in (0..options.len()).step_by(2) {
            let (option, value) = (options.get(index), options.get(index + 1));
            if is(option, "COUNT") {
                let count = usize::try_from(number(value)?).ok().filter(|&count| count > 0);
                scan.count = count.ok_or(Fault::SYNTAX)?.min(HELD_MOST);
            } else if is(option, "MATCH") {
                scan.pattern = Some(value.to_vec());
            } else if is(option, "TYPE") {
                scan.kind = if is(value, "stream") { Some(Kind::Stream) } else { Some(Kind::String) };
                scan.nothing = !is(value, "stream") && !is(value, "string");
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(scan)
    }

    fn wants(&self, name: &[u8], kind: Kind) -> bool {
        !self.nothing
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.pattern.as_ref().is_none_or(|pattern| matches(pattern, name))
    }
}

/// `rest`: what an earlier SCAN left with the connection.
pub(crate) fn plan(
    arguments: Arguments<'_>,
    rest: Option<Rest>,
    protocol: Protocol,
    asker: Asker,
) -> Result<Plan, Fault> {
    let scan = Scan::parse(arguments)?;
    let rest = rest.filter(|rest| rest.from == scan.cursor && scan.cursor > 0);
    let late: Late = Box::pin(async move {
        match go_on(&asker, &scan, rest).await {
            Err(fault) => Said { reply: bytes(protocol, |reply| reply.fault(&fault)), rest: None },
            Ok((names, rest)) => {
                let cursor = rest.as_ref().map_or(0, |rest| rest.from);
                let reply = bytes(protocol, |reply| {
                    reply.array(2);
                    reply.bulk(cursor.to_string().as_bytes());
                    reply.array(names.len());
                    names.iter().for_each(|name| reply.bulk(name));
                });
                Said { reply, rest }
            }
        }
    });
    Ok(Plan::Late { late, blocks: false })
}

type Names = Vec<Vec<u8>>;

/// The names, and where to go on; nowhere at the end.
async fn go_on(asker: &Asker, scan: &Scan, rest: Option<Rest>) -> Result<(Names, Option<Rest>), Fault> {
    let mut names = Names::new();
    let mut seen = 0;
    let mut buckets = 0;
    let mut rest = match rest {
        Some(rest) => rest,
        None => gather(asker, scan.cursor).await?,
    };
    loop {
        while seen < scan.count
            && let Some((slot, ..)) = rest.names.first()
        {
            let slot = *slot;
            let end = rest.names.partition_point(|(other, ..)| *other <= slot);
            seen += end;
            for (_, name, kind) in rest.names.drain(..end) {
                // A value and a stream of one name: one name. They stand side by side.
                if scan.wants(&name, kind) && names.last() != Some(&name) {
                    names.push(name);
                }
            }
            rest.from = slot.0 + 1;
        }
        if !rest.names.is_empty() {
            return Ok((names, Some(rest)));
        }
        rest.from = rest.last + 1;
        if rest.from >= HashSlot::COUNT {
            return Ok((names, None));
        }
        buckets += 1;
        if seen >= scan.count || buckets >= BUCKETS_MOST {
            return Ok((names, Some(Rest { last: rest.from.saturating_sub(1), ..rest })));
        }
        rest = gather(asker, rest.from).await?;
    }
}

/// The names of the bucket that this slot is in, from this slot on.
async fn gather(asker: &Asker, from: u16) -> Result<Rest, Fault> {
    for _ in 0..TRIES {
        let routes = asker.gateway.board().routes();
        let range = routes.range_of(HashSlot(from)).ok_or_else(no_table)?;
        let mut rest = Rest { from, last: range.last.0, names: Vec::new() };
        if collect(asker, &routes, &mut rest).await? {
            rest.names.sort_unstable();
            return Ok(rest);
        }
        sleep(PAUSE).await;
    }
    Err(Fault::new("TRYAGAIN the buckets are changing; try again"))
}

fn no_table() -> Fault {
    Fault::new("CLUSTERDOWN this node belongs to no cluster yet; try again")
}

/// An answer from an epoch that the routes do not know: the bucket may have been halved, and have answered for less.
fn is_newer(given: &Given, routes: &Routes) -> bool {
    given.position.mark.epoch.slot.0 > routes.version
}

/// False: the routes are too old.
async fn collect(asker: &Asker, routes: &Routes, rest: &mut Rest) -> Result<bool, Fault> {
    let slot = HashSlot(rest.from);
    let mut after: Option<Vec<u8>> = None;
    loop {
        let query = Query::Scan {
            prefix: &[],
            after: after.as_deref(),
            slot: None,
            values: false,
            limit: PAGE,
            bytes: PAGE_BYTES,
        };
        let given = asker.ask(slot, read(kv_query(&query))).await?;
        if is_newer(&given, routes) {
            return Ok(false);
        }
        let answer = kv(given.payload.as_slice())?;
        let Answer::Scanned(scanned) = &answer else { return Err(other_kv(&answer)) };
        scanned.found.iter().for_each(|(name, _)| rest.take(name, Kind::String));
        rest.cut();
        let Some(stopped_at) = scanned.stopped_at else { break };
        after = Some(stopped_at.to_vec());
    }
    after = None;
    loop {
        let given = asker.ask(slot, list(after.as_deref())).await?;
        if is_newer(&given, routes) {
            return Ok(false);
        }
        let answer = streams(given.payload.as_slice())?;
        let Streams::Names { names, stopped_at } = &answer else { return Err(other_stream(&answer)) };
        names.iter().for_each(|name| rest.take(name, Kind::Stream));
        rest.cut();
        let Some(stopped_at) = stopped_at else { return Ok(true) };
        after = Some(stopped_at.to_vec());
    }
}

impl Rest {
    fn take(&mut self, name: &[u8], kind: Kind) {
        let slot = HashSlot::of(name);
        if (self.from..=self.last).contains(&slot.0) {
            self.names.push((slot, name.to_vec(), kind));
        }
    }

    /// Gives up the highest slots where too much is held; the lowest stays whatever it takes.
    fn cut(&mut self) {
        if self.names.len() <= HELD_MOST {
            return;
        }
        self.names.sort_unstable();
        let lowest = self.names[0].0.0;
        self.last = (self.names[HELD_MOST / 2].0.0.saturating_sub(1)).max(lowest).min(self.last);
        let end = self.names.partition_point(|(slot, ..)| slot.0 <= self.last);
        self.names.truncate(end);
    }
}

/// DBSIZE: values, and streams.
pub(crate) fn size(protocol: Protocol, asker: Asker) -> Plan {
    let late: Late = Box::pin(async move {
        let counted = count(&asker).await;
        let reply = bytes(protocol, |reply| match &counted {
            Ok(number) => reply.count(*number),
            Err(fault) => reply.fault(fault),
        });
        Said { reply, rest: None }
    });
    Plan::Late { late, blocks: false }
}

fn list(after: Option<&[u8]>) -> Ask {
    read(stream_query(&StreamQuery::List { prefix: &[], after, limit: PAGE }))
}

/// After which name there may be more.
fn count_names(given: &Given, total: &mut u64) -> Result<Option<Vec<u8>>, Fault> {
    let answer = streams(given.payload.as_slice())?;
    let Streams::Names { names, stopped_at } = &answer else { return Err(other_stream(&answer)) };
    *total += names.len() as u64;
    Ok(stopped_at.map(<[u8]>::to_vec))
}

async fn count(asker: &Asker) -> Result<u64, Fault> {
    'again: for _ in 0..TRIES {
        let routes = asker.gateway.board().routes();
        if routes.ranges.is_empty() {
            return Err(no_table());
        }
        let asked = routes.ranges.iter().map(|range| {
            let keys = asker.send(range.first, read(kv_query(&Query::Count)));
            (range.first, keys, asker.send(range.first, list(None)))
        });
        let asked: Vec<_> = asked.collect();
        let mut total = 0;
        for (slot, keys, names) in asked {
            let given = Asker::given(keys).await?;
            if is_newer(&given, &routes) {
                sleep(PAUSE).await;
                continue 'again;
            }
            total += kv_number(given.payload.as_slice())?;
            let mut given = Asker::given(names).await?;
            while let Some(after) = count_names(&given, &mut total)? {
                given = asker.ask(slot, list(Some(&after))).await?;
            }
        }
        return Ok(total);
    }
    Err(Fault::new("TRYAGAIN the buckets are changing; try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_of_a_bucket_is_bounded_by_whole_slots() {
        let mut rest = Rest { from: 0, last: 16_383, names: Vec::new() };
        (0..HELD_MOST + 1).for_each(|number| rest.take(format!("key {number}").as_bytes(), Kind::String));
        rest.cut();
        assert!(rest.names.len() <= HELD_MOST / 2 && rest.last < 16_383);
        assert!(rest.names.iter().all(|(slot, ..)| slot.0 <= rest.last));
        let mut one = Rest { from: 0, last: 16_383, names: Vec::new() };
        (0..HELD_MOST + 1).for_each(|number| one.take(format!("{{tag}}{number}").as_bytes(), Kind::String));
        one.cut();
        assert_eq!(one.names.len(), HELD_MOST + 1, "one slot cannot be divided");
    }
}
