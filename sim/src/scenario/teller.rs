//! The lines of a block, and which messages are worth one.

use crate::scenario::letters;
use atoll_cluster::message::Message as Cluster;
use atoll_node::{Envelope, Message};
use atoll_paxos::message::Message as Paxos;
use atoll_types::{Ballot, Slot};
use std::collections::{BTreeMap, BTreeSet};

const COLUMNS: usize = 120;

#[derive(Debug, Default)]
pub(super) struct Teller {
    lines: Vec<String>,
    /// Told in this block already, and told once.
    said: BTreeSet<String>,
    pub(super) messages: bool,
    /// Only messages from or to these hosts; empty for all.
    pub(super) only: Vec<String>,
    /// Only messages of these kinds; empty for all.
    pub(super) kinds: Vec<String>,
    /// Entries of buckets, as they are committed and applied.
    pub(super) entries: bool,
    /// Also the questions and answers about health.
    pub(super) health: bool,
    pub(super) times: bool,
    /// Nothing is told for now.
    pub(super) muted: bool,
    /// What was told last on each link: a message that repeats it is a heartbeat.
    told: BTreeMap<(usize, usize, &'static str), (Ballot, Slot)>,
}

impl Teller {
    pub(super) fn say(&mut self, now: u64, line: &str) {
        if self.muted {
            return;
        }
        let time = if self.times { format!("{}.{:03}s  ", now / 1_000_000, now / 1000 % 1000) } else { String::new() };
        self.lines.push(format!("{time}{line}"));
    }

    /// Says it unless this block has said it before.
    pub(super) fn say_once(&mut self, now: u64, line: &str) {
        // With times, how often it is said is part of the story.
        if self.said.insert(line.to_owned()) || self.times {
            self.say(now, line);
        }
    }

    /// The lines of the block. What was said several times in a row is said once, with how often.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.said.clear();
        let mut lines: Vec<(String, usize)> = Vec::new();
        for line in std::mem::take(&mut self.lines) {
            match lines.last_mut() {
                Some((last, count)) if *last == line => *count += 1,
                Some(_) | None => lines.push((line, 1)),
            }
        }
        let told = |(line, count): (String, usize)| if count == 1 { line } else { format!("{line} ({count} times)") };
        if lines.is_empty() {
            return vec!["nothing".to_owned()];
        }
        lines.into_iter().map(told).flat_map(|line| fold(&line)).collect()
    }

    pub(super) fn wants(&mut self, from: (usize, &str), to: (usize, &str), envelope: &Envelope) -> bool {
        let fresh = self.is_news((from.0, to.0), &envelope.message);
        let chosen = |name: &str| self.only.iter().any(|only| only == name);
        let kind = letters::kind(&envelope.message);
        let wanted = self.wants_kind(kind) || matches!(envelope.message, Message::Shard(_));
        self.messages && fresh && wanted && (self.only.is_empty() || chosen(from.1) || chosen(to.1))
    }

    pub(super) fn wants_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind)
    }

    /// A heartbeat says nothing new.
    fn is_news(&mut self, link: (usize, usize), message: &Message) -> bool {
        let kind = letters::kind(message);
        let mut advances = |mark: (Ballot, Slot)| {
            let told = self.told.entry((link.0, link.1, kind)).or_default();
            let advances = mark > *told;
            *told = mark.max(*told);
            advances
        };
        match message {
            Message::Paxos(Paxos::Accept(accept)) => {
                let advances = advances((Ballot::default(), accept.decided));
                advances || !accept.entries.is_empty()
            }
            Message::Paxos(Paxos::Learn(learn)) => {
                let advances = advances((Ballot::default(), learn.decided));
                advances || !learn.entries.is_empty()
            }
            Message::Paxos(Paxos::Accepted(accepted)) => advances((accepted.ballot, accepted.through)),
            Message::Cluster(Cluster::Report(report)) => !report.dead.is_empty(),
            Message::Cluster(Cluster::Ping(_) | Cluster::Pong(_)) => self.health,
            Message::Cluster(Cluster::Confirmed(_)) => false,
            Message::Paxos(
                Paxos::Canvass(_)
                | Paxos::Support(_)
                | Paxos::Prepare(_)
                | Paxos::Promise(_)
                | Paxos::Missing(_)
                | Paxos::Stand(_)
                | Paxos::Refused(_),
            )
            | Message::Cluster(
                Cluster::Ask(_)
                | Cluster::Standing(_)
                | Cluster::Welcome(_)
                | Cluster::Fetch(_)
                | Cluster::Chunk(_)
                | Cluster::NoSnapshot(_)
                | Cluster::Offer(_)
                | Cluster::Submit(_)
                | Cluster::Departed(_)
                | Cluster::Refused(_),
            )
            | Message::Shard(_) => true,
        }
    }
}

/// Breaks a long line between words; what follows is indented.
fn fold(line: &str) -> Vec<String> {
    let mut folded = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = folded.len() - 1;
        if folded[last].len() + word.trim_end().len() > COLUMNS {
            folded.push(format!("    {word}"));
        } else {
            folded[last].push_str(word);
        }
    }
    folded.into_iter().map(|line| line.trim_end().to_owned()).collect()
}
