//! `atoll drain`, `remove`, `split`, `rebalance`, `recover`: what operators do. Interrupting one of these stops only
//! the watching, never the work.

use crate::Outcome;
use crate::remote::{Server, encoded};
use crate::show;
use anyhow::bail;
use atoll_server::status::Status;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::thread::sleep;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, clap::Args)]
pub(crate) struct OfNode {
    #[command(flatten)]
    server: Server,
    /// The node's name
    name: String,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Split {
    #[command(flatten)]
    server: Server,
    /// Only this bucket; all of them, if not said
    #[arg(long)]
    bucket: Option<u16>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rebalance {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
struct How {
    /// Shows what would move, and does nothing
    #[arg(long)]
    plan: bool,
    /// Returns at once, without waiting for the end
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Recover {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The majority of the voters is gone for good: go on from this node's copy of the cluster log
    Cluster {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// A bucket is lost: serve it again from a named node's copy, or empty
    Bucket {
        bucket: u16,
        /// The node whose copy it goes on from
        #[arg(long, conflicts_with = "empty", required_unless_present = "empty")]
        from: Option<String>,
        /// Begin with nothing
        #[arg(long)]
        empty: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

fn node_path(name: &str) -> String {
    format!("/v1/cluster/nodes/{}", encoded(name.as_bytes()))
}

pub(crate) fn drain(arguments: &OfNode) -> anyhow::Result<Outcome> {
    let path = format!("{}/drain", node_path(&arguments.name));
    let name = &arguments.name;
    order(&arguments.server, "POST", &path, &arguments.how, &format!("draining {name}"), |status| {
        status
            .nodes
            .iter()
            .find(|node| node.name == *name && node.state != "departed")
            .map_or(0, |node| node.copies + 1)
    })
}

pub(crate) fn remove(arguments: &OfNode) -> anyhow::Result<Outcome> {
    let name = &arguments.name;
    order(&arguments.server, "DELETE", &node_path(name), &arguments.how, &format!("removing {name}"), |status| {
        usize::from(status.nodes.iter().any(|node| node.name == *name && node.state != "departed"))
    })
}

pub(crate) fn split(arguments: &Split) -> anyhow::Result<Outcome> {
    let query = arguments.bucket.map(|bucket| format!("?bucket={bucket}")).unwrap_or_default();
    let before: Status = arguments.server.get("/v1/cluster")?;
    let more = if arguments.bucket.is_some() { 1 } else { before.buckets };
    let wanted = before.buckets + more;
    order(&arguments.server, "POST", &format!("/v1/cluster/split{query}"), &arguments.how, "splitting", |status| {
        wanted.saturating_sub(status.buckets)
    })
}

pub(crate) fn rebalance(arguments: &Rebalance) -> anyhow::Result<Outcome> {
    order(&arguments.server, "POST", "/v1/cluster/rebalance", &arguments.how, "rebalancing", |status| {
        status.moves.len() + usize::from(!is_level(status))
    })
}

fn is_level(status: &Status) -> bool {
    let present = status.nodes.iter().filter(|node| node.state == "present");
    let primaries: Vec<usize> = present.map(|node| node.primaries).collect();
    let (least, most) = (primaries.iter().min(), primaries.iter().max());
    least.zip(most).is_none_or(|(least, most)| most - least <= 1)
}

/// Orders it, or shows what would happen; then shows how much is left until nothing is.
fn order(
    server: &Server,
    method: &str,
    path: &str,
    how: &How,
    what: &str,
    left: impl Fn(&Status) -> usize,
) -> anyhow::Result<Outcome> {
    if how.plan {
        let mark = if path.contains('?') { '&' } else { '?' };
        let plan: Value = server.ask(method, &format!("{path}{mark}plan=true"), &[], &[])?.json()?;
        return show_plan(&plan);
    }
    let _taken: Value = server.ask(method, path, &[], &[])?.json()?;
    if how.no_wait {
        return Ok(Outcome::Done);
    }
    let bar = ProgressBar::new(1).with_message(what.to_owned());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut most = 0;
    loop {
        let status: Status = server.get("/v1/cluster")?;
        let left = left(&status);
        most = most.max(left);
        bar.set_length(most as u64);
        bar.set_position((most - left) as u64);
        if left == 0 {
            bar.finish();
            if !stderr().is_terminal() {
                println!("{what}: done");
            }
            return Ok(Outcome::Done);
        }
        sleep(LOOK);
    }
}

fn show_plan(plan: &Value) -> anyhow::Result<Outcome> {
    let moves = plan.get("moves").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if moves.is_empty() {
        show::line(b"nothing would move")?;
    }
    for step in moves {
        show::line(in_words(step).as_bytes())?;
    }
    for alarm in plan.get("alarms").and_then(Value::as_array).into_iter().flatten() {
        let alarm = alarm.as_str().map_or_else(|| alarm.to_string(), str::to_owned);
        show::line(format!("afterwards: {alarm}").as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// One move of a plan.
fn in_words(step: &Value) -> String {
    let name = |field: &str| step[field].as_str().unwrap_or("nobody").to_owned();
    let bucket = &step["bucket"];
    match step["kind"].as_str() {
        Some("copy") => format!("bucket {bucket}: a copy from {} to {}", name("from"), name("to")),
        Some("drop") => format!("bucket {bucket}: the copy on {} is given up", name("from")),
        Some("lead") => format!("bucket {bucket}: {} hands over to {}", name("from"), name("to")),
        Some("halve") => format!("bucket {bucket}: is halved"),
        Some(_) | None => step.to_string(),
    }
}

pub(crate) fn recover(arguments: &Recover) -> anyhow::Result<Outcome> {
    let server = &arguments.server;
    match &arguments.what {
        What::Cluster { yes } => {
            confirm(
                *yes,
                "Entries that only the lost voters had are gone, and their nodes must never come back. Go on?",
            )?;
            server.ask("POST", "/v1/cluster/recover", &[], &[])?;
            println!("the cluster goes on from this node, in a new generation; `atoll status` shows how");
        }
        What::Bucket { bucket, from, empty: _, yes } => {
            let from = from.as_ref().map_or("empty".to_owned(), |name| encoded(name.as_bytes()));
            confirm(*yes, &format!("Acknowledged writes of bucket {bucket} may be missing afterwards. Go on?"))?;
            server.ask("POST", &format!("/v1/cluster/buckets/{bucket}/revive?from={from}"), &[], &[])?;
            println!("bucket {bucket} is revived");
        }
    }
    Ok(Outcome::Done)
}

fn confirm(yes: bool, question: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        bail!("{question} Say --yes to do it without being asked");
    }
    eprint!("{question} [y/N] ");
    stderr().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { bail!("nothing was done") }
}
