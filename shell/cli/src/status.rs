//! `atoll status`: is the cluster healthy, and if not, why?

use crate::Outcome;
use crate::remote::Server;
use atoll_server::status::{NodeStatus, Status};
use comfy_table::{Attribute, Cell, Color, Table, presets};
use std::io::{IsTerminal, Write, stdout};
use std::thread::sleep;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    /// As the node says it, for programs
    #[arg(long)]
    json: bool,
    /// Departed nodes as well
    #[arg(long)]
    all: bool,
    /// Again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Asks only the node at the other end, for scripts: is its process alive, or is it ready for clients?
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["json", "all", "watch"])]
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Probe {
    /// The process answers
    Alive,
    /// It belongs to a cluster that has a leader
    Ready,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if let Some(probe) = arguments.probe {
        let path = match probe {
            Probe::Alive => "/healthz",
            Probe::Ready => "/readyz",
        };
        stdout().write_all(&arguments.server.ask("GET", path, &[], &[])?.body)?;
        return Ok(Outcome::Done);
    }
    loop {
        let reply = arguments.server.ask("GET", "/v1/cluster", &[], &[])?;
        let status: Status = reply.json()?;
        let mut out = stdout().lock();
        if arguments.watch && out.is_terminal() {
            // Clears the screen and begins at its top.
            write!(out, "\x1b[2J\x1b[H")?;
        }
        if arguments.json {
            out.write_all(&reply.body)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", screen(&status, arguments.all))?;
        }
        out.flush()?;
        drop(out);
        if !arguments.watch {
            return Ok(if status.healthy { Outcome::Done } else { Outcome::Failed });
        }
        sleep(Duration::from_secs(1));
    }
}

fn screen(status: &Status, all: bool) -> String {
    if status.cluster_id.is_empty() {
        return status.problems.join("\n");
    }
    let mut text = String::new();
    let health = if status.healthy { "healthy" } else { "NOT healthy" };
    text += &format!("cluster {}  {health}\n", status.cluster_id);
    text += &match &status.government.leader {
        Some(leader) => format!("leader {leader} since slot {}", status.government.slot),
        None => "no leader".to_owned(),
    };
    let (buckets, copies) = (count(status.buckets, "bucket", "buckets"), count(status.copies, "copy", "copies"));
    text += &format!(", table {}, {buckets} × {copies}\n", status.table_version);
    text += &format!("voters {} | {}", status.government.majority.join(" "), status.government.minority.join(" "));
    text += &format!("  learners {}\n\n", status.government.learners.join(" "));
    text += &nodes(status, all);
    let departed = status.nodes.iter().filter(|node| is_departed(node)).count();
    if departed > 0 && !all {
        text += &format!("\n{} not shown (--all)", count(departed, "departed node is", "departed nodes are"));
    }
    if !status.moves.is_empty() {
        text += &format!("\n\n{} under way:", count(status.moves.len(), "move", "moves"));
        for change in status.moves.iter().take(8) {
            let (from, to) = (change.from.join(" "), change.to.join(" "));
            let percent = (change.progress * 100.0) as u32;
            text += &format!("\n  bucket {:<6} {:<7} {from} → {to}  {percent}%", change.bucket, change.kind);
        }
        if let Some(more) = status.moves.len().checked_sub(8).filter(|more| *more > 0) {
            text += &format!("\n  and {more} more");
        }
    }
    if !status.problems.is_empty() {
        text += &format!("\n\nproblems:\n  {}", status.problems.join("\n  "));
    }
    if !status.alarms.is_empty() {
        text += "\n\nalarms:";
        let advice = status.advice.iter().map(String::as_str).chain(std::iter::repeat(""));
        for (alarm, advice) in status.alarms.iter().zip(advice) {
            text += &format!("\n  {alarm}");
            if !advice.is_empty() {
                text += &format!("\n    {advice}");
            }
        }
    }
    text
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn is_departed(node: &NodeStatus) -> bool {
    node.state == "departed"
}

fn nodes(status: &Status, all: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["node", "state", "primaries", "copies", "http", "resp", "peer", "zone"]);
    for node in status.nodes.iter().filter(|node| all || !is_departed(node)) {
        let color = match node.state.as_str() {
            "present" => Color::Green,
            "absent" => Color::Red,
            "departed" => Color::DarkGrey,
            _ => Color::Yellow,
        };
        let mut name = Cell::new(&node.name);
        if status.government.leader.as_ref() == Some(&node.name) {
            name = name.add_attribute(Attribute::Bold);
        }
        table.add_row([
            name,
            Cell::new(&node.state).fg(color),
            Cell::new(node.primaries),
            Cell::new(node.copies),
            Cell::new(&node.http),
            Cell::new(&node.resp),
            Cell::new(&node.peer),
            Cell::new(&node.zone),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, state: &str) -> NodeStatus {
        let (name, state) = (name.to_owned(), state.to_owned());
        let nowhere = String::new;
        let (peer, http, resp, zone) = (nowhere(), nowhere(), nowhere(), nowhere());
        NodeStatus { name, id: 1, state, peer, http, resp, zone, primaries: 1, copies: 1 }
    }

    #[test]
    fn departed_nodes_are_counted_and_listed_only_if_asked_for() {
        let nodes = vec![node("n1", "present"), node("gone", "departed")];
        let status = Status { cluster_id: "c".to_owned(), buckets: 1, copies: 1, nodes, ..Status::default() };
        let text = screen(&status, false);
        assert!(!text.contains("gone") && text.contains("1 departed node is not shown (--all)"), "{text}");
        assert!(text.contains("no leader, table 0, 1 bucket × 1 copy\n"), "{text}");
        let text = screen(&status, true);
        assert!(text.contains("gone") && !text.contains("--all"), "{text}");
    }

    #[test]
    fn an_alarm_comes_with_what_to_do() {
        let (alarms, advice) = (vec!["one".to_owned(), "two".to_owned()], vec!["do this".to_owned()]);
        let text = screen(&Status { cluster_id: "c".to_owned(), alarms, advice, ..Status::default() }, false);
        assert!(text.ends_with("alarms:\n  one\n    do this\n  two"), "{text}");
    }

    #[test]
    fn a_node_without_a_cluster_says_only_that() {
        let problems = vec!["this node belongs to no cluster yet: waiting".to_owned()];
        assert_eq!(screen(&Status { problems: problems.clone(), ..Status::default() }, false), problems[0]);
    }
}
