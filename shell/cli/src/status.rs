//! `atoll status`: is the cluster healthy, and if not, why?

use crate::Outcome;
use crate::remote::Server;
use atoll_server::status::Status;
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
    /// Again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
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
            writeln!(out, "{}", screen(&status))?;
        }
        out.flush()?;
        drop(out);
        if !arguments.watch {
            return Ok(if status.healthy { Outcome::Done } else { Outcome::Failed });
        }
        sleep(Duration::from_secs(1));
    }
}

fn screen(status: &Status) -> String {
    let mut text = String::new();
    let health = if status.healthy { "healthy" } else { "NOT healthy" };
    let leader = status.government.leader.as_deref().unwrap_or("nobody");
    text += &format!("cluster {}  {health}\n", status.cluster_id);
    text += &format!(
        "leader {leader} since slot {}, table {}, {} buckets × {} copies\n",
        status.government.slot, status.table_version, status.buckets, status.copies
    );
    text += &format!("voters {} | {}", status.government.majority.join(" "), status.government.minority.join(" "));
    text += &format!("  learners {}\n\n", status.government.learners.join(" "));
    text += &nodes(status);
    if !status.moves.is_empty() {
        text += &format!("\n\n{} moves under way:", status.moves.len());
        for change in status.moves.iter().take(8) {
            let (from, to) = (change.from.join(" "), change.to.join(" "));
            let percent = (change.progress * 100.0) as u32;
            text += &format!("\n  bucket {:<6} {:<7} {from} → {to}  {percent}%", change.bucket, change.kind);
        }
        if let Some(more) = status.moves.len().checked_sub(8).filter(|more| *more > 0) {
            text += &format!("\n  and {more} more");
        }
    }
    for (title, lines) in [("problems", &status.problems), ("alarms", &status.alarms)] {
        if !lines.is_empty() {
            text += &format!("\n\n{title}:\n  {}", lines.join("\n  "));
        }
    }
    text
}

fn nodes(status: &Status) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["node", "state", "primaries", "copies", "http", "resp", "peer", "zone"]);
    for node in &status.nodes {
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
