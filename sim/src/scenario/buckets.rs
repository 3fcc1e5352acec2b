//! Commands about buckets: what clients ask for, and what operators want.
//!
//! ```text
//! put NODE KEY VALUE · count NODE KEY · get NODE KEY · stale NODE KEY     with session= series= floor= connection=
//! drain NODE · undrain NODE · hand over NODE · stop NODE · rebalance
//! split all · split BUCKET · revive BUCKET from NODE · revive BUCKET empty
//! ```
//!
//! Not here: commands that only look (`table.rs`).

use crate::scenario::bucket_words as words;
use crate::scenario::stage::Stage;
use crate::scenario::words::Words;
use atoll_kv::{Action, Command, Query, Ttl};
use atoll_node::shard::door::{Answer, Ask, Request, RequestId};
use atoll_node::store::KV;
use atoll_node::{BucketEvent, Input, Order};
use atoll_types::{
    BucketId, Counter, HashSlot, NodeId, Operation, Payload, Position, Principal, Series, SessionId, SessionUse,
};
use std::collections::BTreeMap;

/// What clients have asked for so far.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// By the number of their request.
    asked: Vec<Asked>,
    sessions: BTreeMap<String, SessionId>,
    /// Where the last write took effect.
    last: Option<Position>,
}

#[derive(Debug)]
struct Asked {
    what: String,
    write: bool,
    host: usize,
    life: u32,
    answered: bool,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

pub(super) fn bucket(text: &str) -> Result<BucketId, String> {
    text.parse().map(BucketId).map_err(|_| format!("{text} is no bucket"))
}

/// For the key-value store.
fn payload(encode: impl Fn(&mut Vec<u8>)) -> Payload {
    let mut bytes = vec![KV];
    encode(&mut bytes);
    bytes.into()
}

impl Stage {
    pub(super) fn ask_bucket(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["put", name, key, value, options @ ..] => {
                let command = Command::one(key.as_bytes(), Action::Put { value: value.as_bytes(), ttl: Ttl::Never });
                let command = payload(|out| command.encode(out));
                let usage = self.usage(options)?;
                self.request(name, key, Ask::Write { usage, command }, options)
            }
            ["count", name, key, options @ ..] => {
                let command = Command::one(key.as_bytes(), Action::Increment { by: 1 });
                let command = payload(|out| command.encode(out));
                let usage = self.usage(options)?;
                self.request(name, key, Ask::Write { usage, command }, options)
            }
            ["get", name, key, options @ ..] => {
                let query = payload(|out| Query::Get { key: key.as_bytes() }.encode(out));
                self.request(name, key, Ask::Read { query }, options)
            }
            ["stale", name, key, "after", "the", "last", "write"] => {
                let query = payload(|out| Query::Get { key: key.as_bytes() }.encode(out));
                let after = self.callers.last;
                self.request(name, key, Ask::Stale { query, after }, &[])
            }
            ["stale", name, key, options @ ..] => {
                let query = payload(|out| Query::Get { key: key.as_bytes() }.encode(out));
                self.request(name, key, Ask::Stale { query, after: None }, options)
            }
            [..] => Err("no such command".to_owned()),
        }
    }

    fn request(&mut self, name: &str, key: &str, ask: Ask, options: &[&str]) -> Result<(), String> {
        let host = self.known(name)?;
        let mut connection = host as u64;
        for option in options {
            if let Some(("connection", value)) = option.split_once('=') {
                connection = number(value)?;
            }
        }
        let write = matches!(ask, Ask::Write { .. });
        let request = Request { connection, slot: HashSlot::of(key.as_bytes()), principal: Principal::ANONYMOUS, ask };
        let what = words::request(&request);
        let life = self.hosts[host].life;
        let id = RequestId(self.callers.asked.len() as u64);
        self.callers.asked.push(Asked { what, write, host, life, answered: false });
        self.step(host, Input::Request { id, request });
        Ok(())
    }

    /// A session is opened when it is first spoken of.
    fn usage(&mut self, options: &[&str]) -> Result<Option<SessionUse>, String> {
        let mut session = None;
        let (mut series, mut floor) = (0, 0);
        for option in options {
            match option.split_once('=') {
                Some(("session", name)) => {
                    let (opened, token) = (self.time(), self.callers.sessions.len() as u64);
                    let new = SessionId { opened, token, counter: Counter::Full };
                    session = Some(*self.callers.sessions.entry(name.to_owned()).or_insert(new));
                }
                Some(("series", value)) => series = number(value)?,
                Some(("floor", value)) => floor = number(value)?,
                Some(("connection", _)) => {}
                Some(_) | None => return Err(format!("no such option: {option}")),
            }
        }
        let usage = |session| SessionUse { session, series: Series(series), floor: Series(floor), attempt: 0 };
        Ok(session.map(usage))
    }

    pub(super) fn tell_answer(&mut self, host: usize, id: RequestId, answer: &Answer) {
        let Some(asked) = self.callers.asked.get_mut(id.0 as usize) else { return };
        let again = if asked.answered { " a second time" } else { "" };
        asked.answered = true;
        if let (Answer::Done { position, .. }, true) = (answer, asked.write) {
            self.callers.last = Some(*position);
        }
        let line = format!("{}  answers {}{again}: {}", self.hosts[host].name, asked.what, words::answer(answer));
        self.teller.say(self.now, &line);
    }

    /// Everybody has an answer whose node still runs.
    pub(super) fn all_answered(&self) -> bool {
        let waits = |asked: &Asked| {
            let host = &self.hosts[asked.host];
            !asked.answered && host.core.is_some() && host.life == asked.life
        };
        !self.callers.asked.iter().any(waits)
    }

    pub(super) fn tell_bucket(&mut self, host: usize, event: &BucketEvent) {
        let words = Words { names: &self.names, cluster: self.cluster_of(host) };
        if let Some(line) = words.bucket_event(event, self.teller.entries) {
            let line = format!("{}  {line}", self.hosts[host].name);
            self.teller.say(self.now, &line);
        }
    }

    /// What operators want.
    pub(super) fn operate(&mut self, words: &[&str]) -> Result<(), String> {
        let operation = match words {
            ["drain", name @ ..] => Operation::Drain { node: self.labelled(name)? },
            ["undrain", name @ ..] => Operation::Undrain { node: self.labelled(name)? },
            ["hand", "over", name @ ..] => Operation::HandOver { node: self.labelled(name)? },
            ["split", "all"] => Operation::Split { bucket: None },
            ["split", one] => Operation::Split { bucket: Some(bucket(one)?) },
            ["rebalance"] => Operation::Rebalance,
            ["revive", one, "empty"] => Operation::Revive { bucket: bucket(one)?, from: None },
            ["revive", one, "from", name @ ..] => {
                Operation::Revive { bucket: bucket(one)?, from: Some(self.labelled(name)?) }
            }
            ["stop", name] => {
                let host = self.known(name)?;
                let ticket = self.ticket(format!("word that {name} stops for a while"));
                self.step(host, Input::Operator { ticket, order: Order::Pause });
                return Ok(());
            }
            [..] => return Err("no such command".to_owned()),
        };
        let host = self.best_informed().ok_or("nobody runs")?;
        let ticket = self.ticket(format!("order to {}", words.join(" ")));
        self.step(host, Input::Operator { ticket, order: Order::Operate(operation) });
        Ok(())
    }

    /// The node with this label, such as `n3` or `second n3`.
    fn labelled(&self, name: &[&str]) -> Result<NodeId, String> {
        let host = self.best_informed().ok_or("nobody runs")?;
        self.names.labelled(self.cluster_of(host), &name.join(" ")).ok_or_else(|| "no such node".to_owned())
    }
}
