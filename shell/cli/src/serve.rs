//! `atoll serve`: one node, until it is told to stop.

use crate::notify::Manager;
use crate::span::Span;
use crate::{Outcome, say};
use anyhow::Context;
use atoll_server::status::Gone;
use atoll_server::{Gateway, Server, Settings};
use serde::Deserialize;
use std::future::{Future, pending};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Each of these is also a key of the file and an `ATOLL_…` variable. A flag counts before a variable, a variable
/// before the file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// This node's name, unlike any other's in the cluster
    #[arg(long, env = "ATOLL_NAME")]
    name: Option<String>,
    /// Where other nodes reach this one
    #[arg(long, env = "ATOLL_PEER", value_name = "ADDR")]
    peer: Option<String>,
    /// Where HTTP clients reach it
    #[arg(long, env = "ATOLL_HTTP", value_name = "ADDR")]
    http: Option<String>,
    /// Where RESP and native clients reach it
    #[arg(long, env = "ATOLL_RESP", value_name = "ADDR")]
    resp: Option<String>,
    /// The host that others are told, if it is not the one listened on
    #[arg(long, env = "ATOLL_ADVERTISE", value_name = "HOST")]
    advertise: Option<String>,
    /// The whole address that peers are told, where something stands in between
    #[arg(long, env = "ATOLL_ADVERTISE_PEER", value_name = "ADDR")]
    advertise_peer: Option<String>,
    /// Peers to ask; names are looked up anew on each try
    #[arg(long, env = "ATOLL_JOIN", value_delimiter = ',', value_name = "ADDR,…")]
    join: Option<Vec<String>>,
    /// The founders' names, the same list on each of them: founds the cluster, once
    #[arg(long, env = "ATOLL_BOOTSTRAP", value_delimiter = ',', value_name = "NAME,…")]
    bootstrap: Option<Vec<String>>,
    /// Where this node keeps its data, to outlive any stop; in memory, if not said
    #[arg(long, env = "ATOLL_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Bytes that the log on disk may have in any case, beyond which it is four times the data [default: 268435456]
    #[arg(long, env = "ATOLL_LOG_BYTES", value_name = "BYTES")]
    log_bytes: Option<u64>,
    /// Writes down in this folder everything the node is told, to be run again by `atoll replay`
    #[arg(long, env = "ATOLL_RECORD", value_name = "DIR")]
    record: Option<PathBuf>,
    /// The recording ends when it has so many bytes; 0: no limit [default: 1073741824]
    #[arg(long, env = "ATOLL_RECORD_BYTES", value_name = "BYTES")]
    record_bytes: Option<u64>,
    /// Parts of the key space, a power of two; counts at founding only [default: 64]
    #[arg(long, env = "ATOLL_BUCKETS")]
    buckets: Option<u16>,
    /// Copies of each bucket; counts at founding only [default: 3]
    #[arg(long, env = "ATOLL_COPIES")]
    copies: Option<u8>,
    /// Copies of a bucket are spread over zones first
    #[arg(long, env = "ATOLL_ZONE")]
    zone: Option<String>,
    /// How much this node carries compared with others [default: 1]
    #[arg(long, env = "ATOLL_WEIGHT")]
    weight: Option<u32>,
    /// Threads that serve buckets [default: half of the cores]
    #[arg(long, env = "ATOLL_SHARDS")]
    shards: Option<usize>,
    /// How threads that carry the load share a busy core [default: batch]
    #[arg(long, env = "ATOLL_SCHEDULING")]
    scheduling: Option<Scheduling>,
    /// How long these threads look for more before they sleep; 0 is not at all [default: 50us]
    #[arg(long, env = "ATOLL_BUSY_POLL", value_name = "TIME")]
    busy_poll: Option<Span>,
    /// Allows to listen beyond this machine, where nothing is encrypted
    #[arg(long, env = "ATOLL_INSECURE_LISTEN", num_args = 0..=1, default_missing_value = "true")]
    insecure_listen: Option<bool>,
    /// Clients at a time [default: 10000]
    #[arg(long, env = "ATOLL_MAX_CLIENTS")]
    max_clients: Option<usize>,
    /// Bytes of the longest value [default: 1048576]
    #[arg(long, env = "ATOLL_MAX_VALUE", value_name = "BYTES")]
    max_value: Option<usize>,
    /// Bytes of memory for buckets; 0 is no limit [default: 0]
    #[arg(long, env = "ATOLL_MAX_MEMORY", value_name = "BYTES")]
    max_memory: Option<u64>,
    /// A client that says nothing for this long is let go; 0 is never [default: 0]
    #[arg(long, env = "ATOLL_IDLE", value_name = "TIME")]
    idle: Option<Span>,
    /// A client may take this long for the rest of a request or to take an answer [default: 30s]
    #[arg(long, env = "ATOLL_SLOW", value_name = "TIME")]
    slow: Option<Span>,
    /// How often the leader is heard when nothing happens [default: 100ms]
    #[arg(long, env = "ATOLL_HEARTBEAT", value_name = "TIME")]
    heartbeat: Option<Span>,
    /// A voter that has not heard the leader for this long asks the others [default: 500ms]
    #[arg(long, env = "ATOLL_ELECTION", value_name = "TIME")]
    election: Option<Span>,
    /// A voter of the majority that is silent for this long is swapped for one that stands by [default: 400ms]
    #[arg(long, env = "ATOLL_REPLACE", value_name = "TIME")]
    replace: Option<Span>,
    /// A node that is silent for this long is absent [default: 1s]
    #[arg(long, env = "ATOLL_ABSENT_AFTER", value_name = "TIME")]
    absent_after: Option<Span>,
    /// How long after its connections were refused a node counts as gone, if it is not heard again [default: 50ms]
    #[arg(long, env = "ATOLL_EVIDENCE", value_name = "TIME")]
    evidence: Option<Span>,
    /// A node that is absent for this long departs [default: 10m]
    #[arg(long, env = "ATOLL_DEPART_AFTER", value_name = "TIME")]
    depart_after: Option<Span>,
    /// A newcomer that was named and is not heard for this long departs again [default: 5s]
    #[arg(long, env = "ATOLL_ARRIVAL", value_name = "TIME")]
    arrival: Option<Span>,
    /// A member of a bucket that has not acknowledged for this long is complained of [default: 1s]
    #[arg(long, env = "ATOLL_ACK_TIMEOUT", value_name = "TIME")]
    ack_timeout: Option<Span>,
    /// How long a request may wait [default: 5s]
    #[arg(long, env = "ATOLL_REQUEST_TIMEOUT", value_name = "TIME")]
    request_timeout: Option<Span>,
    /// A stale read is served from a state no older than this [default: 5s]
    #[arg(long, env = "ATOLL_MAX_STALE", value_name = "TIME")]
    max_stale: Option<Span>,
    /// How long a primary may answer reads by a lease, set where the cluster is founded [default: 0s, never]
    #[arg(long, env = "ATOLL_LEASE", value_name = "TIME")]
    lease: Option<Span>,
    /// A bucket whose requests come in at one of its members for twice this long is led from there; 0 is never
    /// [default: 1s]
    #[arg(long, env = "ATOLL_FOLLOW", value_name = "TIME")]
    follow: Option<Span>,
    /// A session that is not used for this long may be forgotten [default: 10m]
    #[arg(long, env = "ATOLL_SESSION_IDLE", value_name = "TIME")]
    session_idle: Option<Span>,
    /// A node whose clock is off the others' by more than this leads no bucket that another can [default: 500ms]
    #[arg(long, env = "ATOLL_MAX_SKEW", value_name = "TIME")]
    max_skew: Option<Span>,
    /// A TOML file with these flags as keys
    #[arg(long, env = "ATOLL_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scheduling {
    /// They interrupt nobody, and so take more at a time when there is much to do
    Batch,
    /// As the system does by itself: best where other programs keep all cores busy
    Normal,
}

impl Scheduling {
    fn chosen(self) -> atoll_server::Scheduling {
        match self {
            Scheduling::Batch => atoll_server::Scheduling::Batch,
            Scheduling::Normal => atoll_server::Scheduling::Normal,
        }
    }
}

macro_rules! take_first {
    ($first:ident, $second:ident: $($field:ident),*) => {
        Arguments { $($field: $first.$field.or($second.$field)),* }
    };
}

impl Arguments {
    /// What is not said here is taken from there.
    fn or(self, other: Arguments) -> Arguments {
        take_first!(self, other: name, peer, http, resp, advertise, advertise_peer, join, bootstrap, data_dir,
            log_bytes, record, record_bytes, buckets, copies, zone, weight, shards, scheduling, busy_poll,
            insecure_listen, max_clients, max_value, max_memory, idle, slow, heartbeat, election, replace,
            absent_after, evidence, depart_after, arrival, ack_timeout, request_timeout, max_stale, lease,
            follow, session_idle, max_skew, config)
    }

    fn with_file(self) -> anyhow::Result<Arguments> {
        let Some(path) = &self.config else { return Ok(self) };
        let file = read(path)?;
        Ok(self.or(file))
    }

    pub(crate) fn settings(self) -> anyhow::Result<Settings> {
        let arguments = self.with_file()?;
        let mut settings = Settings::default();
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        fn time(place: &mut Duration, value: Option<Span>) {
            set(place, value.map(|span| span.0));
        }
        set(&mut settings.name, arguments.name);
        set(&mut settings.peer, arguments.peer);
        set(&mut settings.http, arguments.http);
        set(&mut settings.resp, arguments.resp);
        settings.advertise = arguments.advertise;
        settings.advertise_peer = arguments.advertise_peer;
        set(&mut settings.join, arguments.join);
        set(&mut settings.bootstrap, arguments.bootstrap);
        settings.data_dir = arguments.data_dir;
        set(&mut settings.log_bytes, arguments.log_bytes);
        settings.record = arguments.record.filter(|folder| !folder.as_os_str().is_empty());
        set(&mut settings.record_bytes, arguments.record_bytes);
        set(&mut settings.buckets, arguments.buckets);
        set(&mut settings.copies, arguments.copies);
        set(&mut settings.zone, arguments.zone);
        set(&mut settings.weight, arguments.weight);
        set(&mut settings.shards, arguments.shards);
        set(&mut settings.scheduling, arguments.scheduling.map(Scheduling::chosen));
        time(&mut settings.busy_poll, arguments.busy_poll);
        set(&mut settings.insecure_listen, arguments.insecure_listen);
        set(&mut settings.max_clients, arguments.max_clients);
        set(&mut settings.max_value, arguments.max_value);
        set(&mut settings.max_memory, arguments.max_memory);
        time(&mut settings.idle, arguments.idle);
        time(&mut settings.slow, arguments.slow);
        let timing = &mut settings.timing;
        time(&mut timing.heartbeat, arguments.heartbeat);
        time(&mut timing.election, arguments.election);
        time(&mut timing.replace, arguments.replace);
        time(&mut timing.silence, arguments.absent_after);
        time(&mut timing.evidence, arguments.evidence);
        time(&mut timing.depart_after, arguments.depart_after);
        time(&mut timing.arrival, arguments.arrival);
        time(&mut timing.ack_timeout, arguments.ack_timeout);
        time(&mut timing.request, arguments.request_timeout);
        time(&mut timing.max_stale, arguments.max_stale);
        time(&mut timing.lease, arguments.lease);
        time(&mut timing.follow, arguments.follow);
        time(&mut timing.session_idle, arguments.session_idle);
        time(&mut timing.max_skew, arguments.max_skew);
        if timing.lease > timing.ack_timeout {
            anyhow::bail!("--lease is longer than --ack-timeout: whoever waits for one would be complained of");
        }
        Ok(settings)
    }
}

fn read(path: &Path) -> anyhow::Result<Arguments> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    toml::from_str(&text).with_context(|| format!("{shown} is no configuration"))
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    crate::say_what_happens("info");
    let settings = arguments.settings()?;
    if settings.join.is_empty() && settings.bootstrap.is_empty() {
        anyhow::bail!(
            "this node knows nobody: say --join ADDR,… to arrive at a cluster, or --bootstrap {} to found one alone",
            settings.name
        );
    }
    let server = Server::start(settings)?;
    let told = format!("peers {}, http {}, resp {}", server.peer, server.http, server.resp);
    say(&format!("{} listens: {told}", server.gateway.settings().name));
    let manager = Manager::from_environment();
    let mut broken = None;
    in_a_runtime(async {
        let gateway = server.gateway.clone();
        tokio::select! {
            () = wait_for_the_end() => {}
            () = keep_told(manager.as_ref(), &gateway) => {}
            why = gateway.board().gone() => {
                match why {
                    Gone::Departed => {
                        say("this node departed, as an operator wanted; started again, it arrives anew");
                        // What it recorded is written to the end.
                        server.kill();
                    }
                    Gone::Broken(what) => broken = Some(what),
                }
                return;
            }
        }
        say("stopping; once more stops at once");
        manager.iter().for_each(Manager::say_stopping);
        tokio::select! {
            () = server.stop_in_good_order() => {}
            () = wait_for_the_end() => {}
        }
    })?;
    if let Some(what) = broken {
        anyhow::bail!("{what}; started again, this node goes on from what is safe");
    }
    Ok(Outcome::Done)
}

/// Never returns: where nobody wants to be told, there is nothing to do.
async fn keep_told(manager: Option<&Manager>, gateway: &Gateway) {
    match manager {
        Some(manager) => manager.keep_told(gateway).await,
        None => pending().await,
    }
}

pub(crate) fn in_a_runtime(work: impl Future<Output = ()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work);
    Ok(())
}

/// Returns when somebody wants this process to end.
pub(crate) async fn wait_for_the_end() {
    let listen = |kind| signal(kind).expect("signals can be listened for");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt()), listen(SignalKind::terminate()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};
    use std::collections::BTreeSet;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_flag_counts_before_the_file() {
        let file = std::env::temp_dir().join(format!("atoll-serve-{}.toml", std::process::id()));
        std::fs::write(&file, "name = \"n7\"\nbuckets = 16\njoin = [\"a:1\", \"b:2\"]\nabsent-after = \"2s\"\n")
            .expect("a file can be written");
        let line = ["atoll", "--buckets", "32", "--config", file.to_str().expect("text")];
        let settings = Line::parse_from(line).arguments.settings().expect("good settings");
        let _ = std::fs::remove_file(&file);
        assert_eq!((settings.name.as_str(), settings.buckets), ("n7", 32));
        assert_eq!(settings.join, ["a:1", "b:2"]);
        assert_eq!(settings.timing.silence, Duration::from_secs(2));
    }

    /// The sample file, as it is and with every key that it only shows.
    fn sample() -> (String, String) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/atoll.toml");
        let text = std::fs::read_to_string(path).expect("the sample");
        let shown = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => rest.to_owned(),
            Some(_) | None => line.to_owned(),
        };
        let whole = text.lines().map(shown).collect::<Vec<_>>().join("\n");
        (text, whole)
    }

    #[test]
    fn the_sample_has_every_key_and_no_other() {
        let (_, whole) = sample();
        let table: toml::Table = whole.parse().expect("a table");
        let keys: BTreeSet<&str> = table.keys().map(String::as_str).collect();
        let command = Line::command();
        let flags: BTreeSet<&str> =
            command.get_arguments().filter_map(clap::Arg::get_long).filter(|flag| *flag != "config").collect();
        assert_eq!(keys, flags);
        toml::from_str::<Arguments>(&whole).expect("every key can be read");
    }

    #[test]
    fn what_the_sample_only_shows_are_the_defaults() {
        let (text, whole) = sample();
        let settings = |text: &str| toml::from_str::<Arguments>(text).expect("readable").settings().expect("settings");
        let (plain, mut shown) = (settings(&text), settings(&whole));
        // Nothing stands for these; and one depends on the machine.
        shown.advertise = shown.advertise.filter(|host| !host.is_empty());
        shown.advertise_peer = shown.advertise_peer.filter(|address| !address.is_empty());
        shown.shards = plain.shards;
        assert_eq!(format!("{plain:?}"), format!("{shown:?}"));
    }

    #[test]
    fn a_key_that_does_not_exist_is_told() {
        let told = toml::from_str::<Arguments>("bukets = 3").expect_err("no such key").to_string();
        assert!(told.contains("bukets"), "{told}");
    }
}
