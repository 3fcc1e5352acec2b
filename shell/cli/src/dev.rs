//! `atoll dev`, or `atoll` alone: a whole cluster in one process.

use crate::Outcome;
use crate::serve::{in_a_runtime, wait_for_the_end};
use anyhow::{Context, bail};
use atoll_server::{Server, Settings, Timing};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than this no cluster on one machine takes to serve.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody is far away: founders ask each other briskly.
const RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    nodes: u16,
    /// Where they keep their data, each in a folder of its own; in memory, if not said
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the first node listens for HTTP; the next ones on the ports after it
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    http: String,
    /// The same for RESP and native clients
    #[arg(long, default_value = "127.0.0.1:6380", value_name = "ADDR")]
    resp: String,
    /// The same for the nodes among each other
    #[arg(long, default_value = "127.0.0.1:7480", value_name = "ADDR")]
    peer: String,
    /// Parts of the key space, a power of two
    #[arg(long, default_value_t = 64)]
    buckets: u16,
}

impl Default for Arguments {
    fn default() -> Self {
        Arguments {
            nodes: 3,
            data_dir: None,
            http: "127.0.0.1:8080".to_owned(),
            resp: "127.0.0.1:6380".to_owned(),
            peer: "127.0.0.1:7480".to_owned(),
            buckets: 64,
        }
    }
}

/// The address so many ports further.
fn after(base: &str, ports: u16) -> anyhow::Result<String> {
    let (host, port) = base.rsplit_once(':').with_context(|| format!("{base}: an address is HOST:PORT"))?;
    let port: u16 = port.parse().with_context(|| format!("{base}: an address is HOST:PORT"))?;
    let port = port.checked_add(ports).with_context(|| format!("{base}: there are not that many ports"))?;
    Ok(format!("{host}:{port}"))
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    crate::say_what_happens("warn");
    let begun = Instant::now();
    let names: Vec<String> = (1..=arguments.nodes).map(|node| format!("n{node}")).collect();
    let peers: Vec<String> = (0..arguments.nodes).map(|node| after(&arguments.peer, node)).collect::<Result<_, _>>()?;
    let mut servers = Vec::new();
    for node in 0..arguments.nodes {
        let settings = Settings {
            name: names[usize::from(node)].clone(),
            peer: peers[usize::from(node)].clone(),
            http: after(&arguments.http, node)?,
            resp: after(&arguments.resp, node)?,
            join: peers.clone(),
            bootstrap: names.clone(),
            data_dir: arguments.data_dir.as_ref().map(|directory| directory.join(&names[usize::from(node)])),
            buckets: arguments.buckets,
            timing: Timing { retry: RETRY, ..Timing::default() },
            ..Settings::default()
        };
        servers.push(Server::start(settings)?);
    }
    in_a_runtime(async {
        tokio::select! {
            () = wait_until_healthy(&servers) => {
                print!("{}", banner(&servers, begun.elapsed()));
                wait_for_the_end().await;
            }
            () = wait_for_the_end() => {}
            () = tokio::time::sleep(PATIENCE) => {
                eprintln!("atoll: the cluster does not come up: {}", problems(&servers));
            }
        }
    })?;
    let healthy = servers.iter().all(|server| server.gateway.board().status().healthy);
    servers.into_iter().for_each(Server::kill);
    if !healthy {
        bail!("stopped before the cluster was healthy");
    }
    Ok(Outcome::Done)
}

async fn wait_until_healthy(servers: &[Server]) {
    for server in servers {
        let mut changes = server.gateway.board().changes();
        while !server.gateway.board().status().healthy {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

fn problems(servers: &[Server]) -> String {
    servers.iter().map(|server| server.gateway.board().status().problems.join(", ")).collect::<Vec<_>>().join("; ")
}

fn banner(servers: &[Server], took: Duration) -> String {
    let first = &servers[0];
    let (http, resp) = (first.http, first.resp);
    let nodes = if servers.len() == 1 { "one node".to_owned() } else { format!("{} nodes", servers.len()) };
    let names: Vec<String> = servers
        .iter()
        .map(|server| format!("  {:<4} http {}   resp {}", server.gateway.settings().name, server.http, server.resp))
        .collect();
    format!(
        "Atoll serves: {nodes}, {} buckets, {}, ready after {} ms. Ctrl-C ends it.\n\n{}\n\n  \
         dashboard  http://{http}/\n\nTry:\n  \
         curl -X PUT http://{http}/v1/kv/greeting -d hello\n  \
         redis-cli -p {} get greeting\n  \
         atoll kv get greeting{}\n",
        first.gateway.board().status().buckets,
        if first.gateway.settings().data_dir.is_some() { "on disk" } else { "in memory" },
        took.as_millis(),
        names.join("\n"),
        resp.port(),
        if http.port() == 8080 { String::new() } else { format!(" --server http://{http}") },
    )
}
