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
pub(crate) struct Forget {
    #[command(flatten)]
    server: Server,
    /// The name that the departed node had
    name: String,
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
        #[arg(long, conflicts_with = "empty", required_unless_present_any = ["empty", "plan"])]
        from: Option<String>,
        /// Begin with nothing
        #[arg(long)]
        empty: bool,
        /// Shows which copies are left and what would be missing, and does nothing
        #[arg(long)]
        plan: bool,
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

pub(crate) fn forget(arguments: &Forget) -> anyhow::Result<Outcome> {
    let name = &arguments.name;
    let status: Status = arguments.server.get("/v1/cluster")?;
    // The same request would remove one that is still a member.
    match status.nodes.iter().find(|node| node.name == *name).map(|node| node.state.as_str()) {
        Some("departed") => {}
        Some(state) => bail!("{name} is {state}: only a node that departed is forgotten (`atoll remove {name}` first)"),
        None => bail!("no departed node of the name {name} is listed by this node"),
    }
    let told: Value = arguments.server.ask("DELETE", &node_path(name), &[], &[])?.json()?;
    let by = told["by"].as_array().map_or(0, Vec::len);
    println!("{name} is forgotten, by {by} nodes");
    Ok(Outcome::Done)
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
    if let Some(why) = plan.get("refused").and_then(Value::as_str) {
        show::line(format!("it would be refused: {why}").as_bytes())?;
        return Ok(Outcome::Failed);
    }
    let moves = plan.get("moves").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if moves.is_empty() {
        show::line(b"nothing would move")?;
    }
    for step in moves {
        show::line(in_words(step).as_bytes())?;
    }
    if !moves.is_empty() {
        show::line(in_all(moves).as_bytes())?;
    }
    for alarm in plan.get("alarms").and_then(Value::as_array).into_iter().flatten() {
        let alarm = alarm.as_str().map_or_else(|| alarm.to_string(), str::to_owned);
        show::line(format!("afterwards: {alarm}").as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// `in all: 21 hand-overs, 64 copies made`
fn in_all(moves: &[Value]) -> String {
    let kinds = [
        ("lead", "hand-over", "hand-overs"),
        ("copy", "copy made", "copies made"),
        ("drop", "copy given up", "copies given up"),
        ("halve", "bucket halved", "buckets halved"),
    ];
    let counts = kinds.iter().filter_map(|(kind, one, many)| {
        let count = moves.iter().filter(|step| step["kind"] == *kind).count();
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    });
    format!("in all: {}", counts.collect::<Vec<_>>().join(", "))
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
        What::Bucket { bucket, from, empty, plan, yes } => {
            let path = format!("/v1/cluster/buckets/{bucket}/revive");
            let remains: Value = server.ask("POST", &format!("{path}?plan=true"), &[], &[])?.json()?;
            println!("{}", what_is_missing(&remains, from.as_deref(), *empty)?);
            if *plan {
                return Ok(Outcome::Done);
            }
            confirm(*yes, "Go on?")?;
            let from = from.as_ref().map_or("empty".to_owned(), |name| encoded(name.as_bytes()));
            server.ask("POST", &format!("{path}?from={from}"), &[], &[])?;
            println!("bucket {bucket} is revived, in a new generation; `atoll status` shows when it serves");
        }
    }
    Ok(Outcome::Done)
}

/// What an operator should know before a bucket goes on without its last members.
fn what_is_missing(remains: &Value, from: Option<&str>, empty: bool) -> anyhow::Result<String> {
    let (bucket, epoch) = (&remains["bucket"], remains["epoch"].as_str().unwrap_or("?"));
    let copies = remains["copies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let describe = |copy: &Value| {
        let (name, last) = (copy["node"].as_str().unwrap_or("?"), copy["last_epoch"].as_str().unwrap_or("?"));
        format!("  {name}: ends at {last}/{} with {} keys", copy["last_offset"], copy["keys"])
    };
    let mut lines: Vec<String> = copies.iter().map(describe).collect();
    let heading = if lines.is_empty() { "no present node has a copy of it" } else { "copies (epoch/offset):" };
    lines.insert(0, format!("Bucket {bucket} lost its last eligible copy in epoch {epoch}; {heading}"));
    let found = copies.iter().find(|copy| copy["node"].as_str() == from);
    lines.push(match (from, found) {
        (None, _) if !empty => "Choose one with --from, or --empty to begin with nothing.".to_owned(),
        (None, _) => format!("Everything that was ever written to bucket {bucket} will be missing."),
        (Some(name), None) => {
            let rest = lines.join("\n");
            bail!(
                "{name} has no copy of bucket {bucket}. {rest}\nChoose one of these, or --empty to begin with nothing"
            )
        }
        (Some(name), Some(copy)) => format!(
            "Of what was acknowledged, everything after {}/{} may be missing in the copy of {name}.",
            copy["last_epoch"].as_str().unwrap_or("?"),
            copy["last_offset"]
        ),
    });
    Ok(lines.join("\n"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_is_summed_up() {
        let step = |kind: &str| json!({"kind": kind, "bucket": 0, "from": "n1", "to": "n2"});
        let moves = [step("lead"), step("copy"), step("copy")];
        assert_eq!(in_all(&moves), "in all: 1 hand-over, 2 copies made");
        assert_eq!(in_words(&moves[1]), "bucket 0: a copy from n1 to n2");
    }

    #[test]
    fn what_is_left_of_a_bucket_is_told_before_anything_is_done() {
        let copy = json!({"node": "n2", "last_epoch": "7", "last_offset": 12, "keys": 3});
        let remains = json!({"bucket": 5, "epoch": "9", "copies": [copy]});
        let plan = what_is_missing(&remains, None, false).expect("a plan");
        assert!(plan.contains("n2: ends at 7/12 with 3 keys") && plan.contains("--from"), "{plan}");
        assert!(what_is_missing(&remains, None, true).expect("a plan").contains("Everything"));
        assert!(what_is_missing(&remains, Some("n2"), false).expect("a plan").contains("after 7/12"));
        assert!(what_is_missing(&remains, Some("n9"), false).is_err());
    }
}
