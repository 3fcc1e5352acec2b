//! The commands of a scenario, one arm each.
//!
//! Not here: commands that only look, and the conditions of `until` (`show.rs`).

use crate::scenario::stage::{FILL, MILLISECOND, Stage};
use atoll_node::{Config, Input, Order};
use atoll_types::{Address, Level, Slot};
use std::time::Duration;

/// Words, and what stands in quotes as one.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, piece) in line.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(piece.split_whitespace().map(str::to_owned)),
            _quoted => words.push(piece.to_owned()),
        }
    }
    words
}

fn duration(text: &str) -> Result<u64, String> {
    let (digits, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, MILLISECOND),
        (None, Some(digits)) => (digits, 1000 * MILLISECOND),
        (None, None) => return Err("a time is 20ms or 3s".to_owned()),
    };
    number(digits).map(|count| count * unit)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

impl Stage {
    pub(super) fn known(&self, name: &str) -> Result<usize, String> {
        self.host(name).ok_or_else(|| format!("there is no {name}"))
    }

    pub(super) fn perform(&mut self, line: &str) -> Result<(), String> {
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["seed", seed] => self.seed = number(seed)?,
            ["set", what, value] => self.set(what, value)?,
            ["found", name, options @ ..] => {
                let founder = format!("bootstrap={name}");
                self.begin(
                    name,
                    &std::iter::once(founder.as_str()).chain(options.iter().copied()).collect::<Vec<_>>(),
                )?;
            }
            ["cluster", "of", rest @ ..] if rest.contains(&"with") => self.place(rest)?,
            ["cluster", "of", names @ .., "durable"] => self.grow(names, &["durable"])?,
            ["cluster", "of", names @ ..] => self.grow(names, &[])?,
            ["start" | "restart", name, options @ ..] => self.begin(name, options)?,
            ["run", span] => self.run_until(self.now + duration(span)?),
            ["until", condition @ .., "within", span] => {
                let span = duration(span)?;
                self.wait_for(condition, span)?;
            }
            ["until", condition @ ..] => self.wait_for(condition, 30_000 * MILLISECOND)?,
            ["crash", name] => {
                let host = self.known(name)?;
                self.stop(host, false);
            }
            ["crash", name, "losing", "its", "disk"] => {
                let host = self.known(name)?;
                self.hosts[host].safe.clear();
                self.stop(host, false);
            }
            ["unplug", name] => {
                let host = self.known(name)?;
                self.stop(host, true);
            }
            ["pause", name] => {
                let host = self.known(name)?;
                self.hosts[host].paused = true;
            }
            ["resume", name] => {
                let host = self.known(name)?;
                self.resume(host);
            }
            ["disk", name, "hangs"] => {
                let host = self.known(name)?;
                self.hosts[host].sync = None;
            }
            ["disk", name, "takes", span] => {
                let host = self.known(name)?;
                self.hosts[host].sync = Some(duration(span)?);
                self.sync(host);
            }
            ["shard", shard, "of", name, what @ ("hangs" | "moves")] => {
                let (host, shard) = (self.known(name)?, number(shard)? as usize);
                self.step(host, Input::Hang { shard, hangs: *what == "hangs" });
            }
            ["clock", name, "ahead", "by", span] => {
                let host = self.known(name)?;
                self.hosts[host].ahead = duration(span)?;
            }
            ["cut", from, "->", to] => {
                let link = (self.known(from)?, self.known(to)?);
                self.cuts.insert(link);
            }
            ["cut", one, "from", others @ ..] => self.cut(one, others)?,
            ["cut", one, other] => self.cut(one, &[other])?,
            ["heal"] => self.cuts.clear(),
            ["heal", one, other] => {
                let (one, other) = (self.known(one)?, self.known(other)?);
                self.cuts.remove(&(one, other));
                self.cuts.remove(&(other, one));
            }
            ["delay", from, "->", to, span] => {
                let link = (self.known(from)?, self.known(to)?);
                self.delays.insert(link, duration(span)?);
            }
            ["lose", kind, from, "->", to] => {
                let (from, to) = (self.known(from)?, self.known(to)?);
                self.losing.push((from, to, (*kind).to_owned()));
            }
            ["inject", which @ ("first" | "last"), kind, from, "->", to] => self.again(which, kind, from, to, to)?,
            ["inject", which @ ("first" | "last"), kind, from, "->", to, "at", at] => {
                self.again(which, kind, from, to, at)?;
            }
            ["show", what @ ..] => self.show(what)?,
            ["submit", ..] | ["fill", ..] | ["broadcast", ..] | ["answer", ..] | ["depart", ..] | ["recover", ..] => {
                self.ask_of(&words)?
            }
            ["put" | "count" | "get" | "stale", ..] => self.ask_bucket(&words)?,
            ["drain" | "undrain" | "hand" | "split" | "rebalance" | "revive" | "stop", ..] => self.operate(&words)?,
            [..] => return Err("no such command".to_owned()),
        }
        Ok(())
    }

    /// What users and operators want of a node.
    fn ask_of(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["submit", name, texts @ ..] => {
                let host = self.known(name)?;
                for text in texts {
                    let ticket = self.ticket(format!("{text:?}"));
                    self.step(host, Input::Submit { ticket, payload: text.as_bytes().into() });
                }
            }
            ["fill", name, count] => {
                let host = self.known(name)?;
                for entry in 0..number(count)? {
                    let text = format!("{FILL}{entry}");
                    let ticket = self.ticket(text.clone());
                    self.step(host, Input::Submit { ticket, payload: text.as_bytes().into() });
                }
            }
            ["broadcast", name, text] => {
                let host = self.known(name)?;
                let ticket = self.ticket(format!("broadcast {text:?}"));
                self.step(host, Input::Broadcast { ticket, payload: text.as_bytes().into() });
            }
            ["answer", name, text] => {
                let host = self.known(name)?;
                let barrier = *self.hosts[host].asked.last().ok_or("it was not asked")?;
                self.step(host, Input::Answer { barrier, answer: text.as_bytes().into() });
            }
            ["answer", name, text, "to", barrier] => {
                let (host, barrier) = (self.known(name)?, Slot(number(barrier)?));
                self.step(host, Input::Answer { barrier, answer: text.as_bytes().into() });
            }
            ["depart", leaving @ .., "by", name] => {
                let host = self.known(name)?;
                self.order_departure(host, &leaving.join(" "))?;
            }
            ["depart", leaving @ ..] => {
                let host = self.best_informed().ok_or("nobody runs")?;
                self.order_departure(host, &leaving.join(" "))?;
            }
            ["recover", name] => {
                let host = self.known(name)?;
                let ticket = self.ticket("order to recover".to_owned());
                self.step(host, Input::Operator { ticket, order: Order::Recover });
            }
            [..] => return Err("no such command".to_owned()),
        }
        Ok(())
    }

    fn order_departure(&mut self, host: usize, leaving: &str) -> Result<(), String> {
        let cluster = self.view(host).and_then(|view| view.identity).ok_or("it belongs to no cluster")?.cluster;
        let node = self.names.labelled(cluster, leaving).ok_or("no such node")?;
        let ticket = self.ticket(format!("order that {leaving} depart"));
        self.step(host, Input::Operator { ticket, order: Order::Depart(node) });
        Ok(())
    }

    pub(super) fn ticket(&mut self, what: String) -> u64 {
        self.tickets.push(what);
        self.tickets.len() as u64 - 1
    }

    fn cut(&mut self, one: &str, others: &[&str]) -> Result<(), String> {
        let one = self.known(one)?;
        for other in others {
            let other = self.known(other)?;
            self.cuts.extend([(one, other), (other, one)]);
        }
        Ok(())
    }

    /// A cluster that has been there for a while: founded by the first two, joined by the others in this order.
    fn grow(&mut self, names: &[&str], options: &[&str]) -> Result<(), String> {
        let [first, second, ..] = names else { return Err("a cluster has two nodes or more".to_owned()) };
        let founders = format!("bootstrap={first},{second}");
        let founder: Vec<&str> = std::iter::once(founders.as_str()).chain(options.iter().copied()).collect();
        self.teller.muted = true;
        for (index, name) in names.iter().enumerate() {
            self.begin(name, if index < 2 { &founder } else { options })?;
            if index > 0 {
                self.wait_for(&["healthy"], 30_000 * MILLISECOND)?;
            }
        }
        self.teller.muted = false;
        self.show(&["government"])
    }

    /// A cluster that has been there for a while, with its buckets placed. The first node, which leads, weighs little,
    /// so that it has buckets only where others are too few: what happens to a bucket is then no matter of elections.
    /// `light=3` is for the first three. Who arrives first is by lot: transcripts choose a `seed` by which all
    /// arrive in the order of their names.
    fn place(&mut self, words: &[&str]) -> Result<(), String> {
        let at = words.iter().position(|word| *word == "with").ok_or("with how many buckets?")?;
        let (names, [_with, buckets, "bucket" | "buckets", options @ ..]) = words.split_at(at) else {
            return Err("with how many buckets?".to_owned());
        };
        let (founders, buckets) = (format!("bootstrap={}", names.join(",")), format!("buckets={buckets}"));
        let light = options.iter().find_map(|option| option.strip_prefix("light="));
        let light = light.map_or(Ok(1), number)? as usize;
        self.teller.muted = true;
        for (index, name) in names.iter().enumerate() {
            let weight = if index < light { "weight=1" } else { "weight=100" };
            let mut all = vec![founders.as_str(), buckets.as_str(), weight];
            all.extend(options.iter().filter(|option| !option.starts_with("light=")));
            self.begin(name, &all)?;
        }
        self.wait_for(&["healthy"], 30_000 * MILLISECOND)?;
        self.wait_for(&["quiet"], 30_000 * MILLISECOND)?;
        // Nobody would hear that it was waited for in vain.
        if !self.is_quiet() {
            return Err("its buckets do not come to rest".to_owned());
        }
        self.run_until(self.now + 200 * MILLISECOND);
        self.teller.muted = false;
        self.show(&["table"])
    }

    /// Delivers a copy of a message that was sent on this link, perhaps to somebody else.
    fn again(&mut self, which: &str, kind: &str, from: &str, to: &str, at: &str) -> Result<(), String> {
        let (from, to, at) = (self.known(from)?, self.known(to)?, self.known(at)?);
        let mut sent = (0..self.sent.len())
            .filter(|&place| (self.sent[place].from, self.sent[place].to, self.sent[place].kind) == (from, to, kind));
        let place = if which == "first" { sent.next() } else { sent.next_back() };
        let place = place.ok_or_else(|| format!("no {kind} was sent there"))?;
        self.inject(place, at);
        Ok(())
    }

    fn set(&mut self, what: &str, value: &str) -> Result<(), String> {
        let count = |value: &str| number(value).map(|count| count as usize);
        match what {
            "pipeline" => self.limits.pipeline = count(value)?,
            "submissions" => self.limits.submissions = count(value)?,
            "outstanding" => self.limits.outstanding = count(value)?,
            "arrivals" => self.limits.arrivals = count(value)?,
            "log" => self.limits.log = count(value)?,
            "trim_step" => self.limits.trim_step = count(value)?,
            "chunk_bytes" => self.limits.chunk_bytes = count(value)?,
            "fan_out" => self.limits.fan_out = count(value)?,
            "entry_bytes" => self.limits.entry_bytes = count(value)?,
            "backlog" => self.limits.backlog = count(value)?,
            "piece_bytes" => self.limits.piece_bytes = count(value)?,
            "session_idle" => self.timing.session_idle = Duration::from_micros(duration(value)?),
            "request" => self.timing.request = Duration::from_micros(duration(value)?),
            "depart_after" => self.timing.depart_after = Duration::from_micros(duration(value)?),
            "arrival" => self.timing.arrival = Duration::from_micros(duration(value)?),
            "follow" => self.timing.follow = Duration::from_micros(duration(value)?),
            "follow_requests" => self.limits.follow = count(value)? as u32,
            "lease" => self.timing.lease = Duration::from_micros(duration(value)?),
            "max_skew" => self.timing.max_skew = Duration::from_micros(duration(value)?),
            "silence" => self.timing.silence = Duration::from_micros(duration(value)?),
            _unknown => return Err("no such setting".to_owned()),
        }
        Ok(())
    }

    /// Starts the process on a host, for the first time or again.
    fn begin(&mut self, name: &str, options: &[&str]) -> Result<(), String> {
        let host = match self.host(name) {
            Some(host) if self.hosts[host].core.is_some() => return Err("it runs already".to_owned()),
            Some(host) => host,
            None => {
                let config = Config {
                    name: name.into(),
                    address: name.into(),
                    endpoints: atoll_types::Endpoints::default(),
                    zone: "".into(),
                    weight: 1,
                    join: Vec::new(),
                    bootstrap: Vec::new(),
                    durable: false,
                    level: Level(1),
                    buckets: 0,
                    copies: 3,
                    shards: 1,
                    watched: true,
                    timing: self.timing.clone(),
                    limits: self.limits.clone(),
                };
                self.add_host(name, config)
            }
        };
        let others: Vec<Address> = self.hosts.iter().map(|other| other.config.address.clone()).collect();
        let config = &mut self.hosts[host].config;
        config.join = others.into_iter().filter(|other| *other != config.address).collect();
        let mut joins = None;
        for option in options {
            let list = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
            match option.split_once('=') {
                Some(("bootstrap", names)) => {
                    config.bootstrap = list(names).iter().map(|one| one.as_str().into()).collect()
                }
                Some(("join", names)) => joins = Some(list(names)),
                Some(("level", level)) => config.level = Level(number(level)? as u16),
                Some(("buckets", buckets)) => config.buckets = number(buckets)? as u16,
                Some(("copies", copies)) => config.copies = number(copies)? as u8,
                Some(("weight", weight)) => config.weight = number(weight)? as u32,
                Some(("name", name)) => config.name = name.into(),
                None if *option == "durable" => config.durable = true,
                Some(_) | None => return Err(format!("no such option: {option}")),
            }
        }
        for founder in config.bootstrap.clone() {
            let address = Address(founder.0);
            if !config.join.contains(&address) && address != config.address {
                config.join.push(address);
            }
        }
        if let Some(joins) = joins {
            config.join = joins.iter().map(|address| address.as_str().into()).collect();
        }
        self.start(host);
        Ok(())
    }
}
