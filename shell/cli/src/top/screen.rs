//! What `atoll top` shows, for a terminal of 80 columns and 24 lines or more.

use super::choice::{Choice, Sort};
use super::rates::{BucketRow, Load, NodeRow, Shown};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::cmp::Reverse;

/// Of each kind of line, at most so many: the buckets are to have room as well.
const NODES_MOST: usize = 8;
const MOVES_MOST: usize = 3;
const TROUBLES_MOST: usize = 4;

pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown, choice: &mut Choice) {
    let troubles = troubles(shown);
    let moves = moves(shown);
    let nodes = shown.nodes.len().min(NODES_MOST) as u16 + 1;
    let heights = [
        Constraint::Length(3),
        Constraint::Length(nodes + 1),
        Constraint::Length(lines_of(&moves)),
        Constraint::Length(lines_of(&troubles)),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [head, top, middle, below, rest, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(title(shown, choice)), head);
    frame.render_widget(node_table(shown), top);
    frame.render_widget(Paragraph::new(moves), middle);
    frame.render_widget(Paragraph::new(troubles), below);
    draw_buckets(frame, rest, shown, choice);
    frame.render_widget(Paragraph::new(help(choice)), foot);
}

/// With an empty one behind them.
fn lines_of(lines: &[Line<'_>]) -> u16 {
    if lines.is_empty() { 0 } else { lines.len() as u16 + 1 }
}

fn title<'a>(shown: &'a Shown, choice: &Choice) -> Vec<Line<'a>> {
    let status = &shown.status;
    let health = match status.healthy {
        true => Span::styled("healthy", Style::new().fg(Color::Green)),
        false => Span::styled("NOT healthy", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)),
    };
    let leader = status.government.leader.as_deref().unwrap_or("nobody");
    let rest = format!("  leader {leader}  {} buckets × {}", status.buckets, status.copies);
    let paused = if choice.paused { "  PAUSED" } else { "" };
    let first = vec![Span::raw("atoll top  cluster "), Span::raw(&*status.cluster_id), Span::raw("  "), health];
    let first = first.into_iter().chain([Span::raw(rest), Span::raw(paused)]).collect::<Vec<_>>();
    let Load { reads, writes, failed, p50, p99, clients, .. } = &shown.total;
    let second = format!(
        "{} reads/s  {} writes/s  p50 {}  p99 {}  {} failed/s  {clients} clients",
        number(*reads),
        number(*writes),
        time(*p50),
        time(*p99),
        number(*failed)
    );
    vec![Line::from(first), Line::from(second), Line::default()]
}

fn heading<'a>(names: impl IntoIterator<Item = &'a str>) -> Row<'a> {
    Row::new(names.into_iter().map(Cell::from)).style(Style::new().add_modifier(Modifier::REVERSED))
}

fn node_table(shown: &Shown) -> Table<'_> {
    let leader = shown.status.government.leader.as_deref();
    let rows = shown.nodes.iter().take(NODES_MOST).map(|row| node_row(row, leader));
    let widths = [12, 9, 7, 7, 8, 8, 7, 7, 7].map(Constraint::Length);
    Table::new(rows, widths)
        .header(heading(["node", "state", "primary", "copies", "reads/s", "writes/s", "p50", "p99", "memory"]))
        .column_spacing(1)
}

fn node_row<'a>(row: &'a NodeRow, leader: Option<&str>) -> Row<'a> {
    let node = &row.node;
    let color = match node.state.as_str() {
        "present" => Color::Green,
        "absent" => Color::Red,
        _ => Color::Yellow,
    };
    let name = if leader == Some(&node.name) { format!("{}*", node.name) } else { node.name.clone() };
    let of_load = |show: fn(&Load) -> String| row.load.as_ref().map_or_else(|| "-".to_owned(), show);
    Row::new([
        Cell::from(name),
        Cell::from(&*node.state).style(Style::new().fg(color)),
        Cell::from(node.primaries.to_string()),
        Cell::from(node.copies.to_string()),
        Cell::from(of_load(|load| number(load.reads))),
        Cell::from(of_load(|load| number(load.writes))),
        Cell::from(of_load(|load| time(load.p50))),
        Cell::from(of_load(|load| time(load.p99))),
        Cell::from(of_load(|load| bytes(load.bytes))),
    ])
}

fn moves(shown: &Shown) -> Vec<Line<'_>> {
    let all = &shown.status.moves;
    let mut lines: Vec<Line<'_>> = all
        .iter()
        .take(MOVES_MOST)
        .map(|change| {
            let (from, to, percent) = (change.from.join(" "), change.to.join(" "), (change.progress * 100.0) as u32);
            Line::from(format!("move: bucket {} {} {from} → {to}  {percent}%", change.bucket, change.kind))
        })
        .collect();
    and_more(&mut lines, all.len(), "moves");
    lines
}

fn troubles(shown: &Shown) -> Vec<Line<'_>> {
    let status = &shown.status;
    let all: Vec<&str> =
        shown.trouble.iter().chain(&status.problems).chain(&status.alarms).map(String::as_str).collect();
    let red = Style::new().fg(Color::Red);
    let mut lines: Vec<Line<'_>> =
        all.iter().take(TROUBLES_MOST).map(|words| Line::styled(format!("! {words}"), red)).collect();
    and_more(&mut lines, all.len(), "problems; `atoll status` lists them");
    lines
}

fn and_more(lines: &mut Vec<Line<'_>>, all: usize, what: &str) {
    if all > lines.len() {
        lines.push(Line::from(format!("and {} more {what}", all - lines.len())));
    }
}

fn draw_buckets(frame: &mut Frame<'_>, area: Rect, shown: &Shown, choice: &mut Choice) {
    let mut rows: Vec<&BucketRow> = shown.buckets.iter().filter(|row| matches(row, &choice.filter)).collect();
    sort(&mut rows, choice.sort);
    let room = usize::from(area.height.saturating_sub(1));
    choice.scroll = choice.scroll.min(rows.len().saturating_sub(room));
    let widths = [7, 13, 9, 20, 10, 9, 8].map(Constraint::Length);
    let table = Table::new(rows.iter().skip(choice.scroll).take(room).map(|row| bucket_row(row)), widths)
        .header(heading(["bucket", "slots", "primary", "members", "state", "keys", "writes/s"]))
        .column_spacing(1);
    frame.render_widget(table, area);
}

/// Does any word of the row contain it?
fn matches(row: &BucketRow, filter: &str) -> bool {
    let bucket = &row.bucket;
    let number = bucket.bucket.to_string();
    let words = bucket.primary.iter().chain(&bucket.members).chain(&bucket.catching_up).chain([&bucket.state, &number]);
    words.into_iter().any(|word| word.contains(filter))
}

fn sort(rows: &mut [&BucketRow], sort: Sort) {
    match sort {
        Sort::Writes => rows.sort_by(|one, other| other.writes.total_cmp(&one.writes)),
        Sort::Keys => rows.sort_by_key(|row| Reverse(row.bucket.keys)),
        Sort::Bucket => rows.sort_by_key(|row| row.bucket.bucket),
        Sort::Primary => rows.sort_by(|one, other| one.bucket.primary.cmp(&other.bucket.primary)),
        // What is wrong stands first.
        Sort::State => rows.sort_by_key(|row| match row.bucket.state.as_str() {
            "lost" => 0,
            "paused" => 1,
            "short" => 2,
            "splitting" => 3,
            _ => 4,
        }),
    }
}

fn bucket_row(row: &BucketRow) -> Row<'_> {
    let bucket = &row.bucket;
    let color = match bucket.state.as_str() {
        "serving" => Color::Green,
        "lost" | "paused" => Color::Red,
        _ => Color::Yellow,
    };
    let mut members = bucket.members.join(" ");
    if !bucket.catching_up.is_empty() {
        members += &format!(" +{}", bucket.catching_up.join(" +"));
    }
    Row::new([
        Cell::from(bucket.bucket.to_string()),
        Cell::from(format!("{}-{}", bucket.slots[0], bucket.slots[1])),
        Cell::from(bucket.primary.as_deref().unwrap_or("nobody")),
        Cell::from(members),
        Cell::from(&*bucket.state).style(Style::new().fg(color)),
        Cell::from(bucket.keys.map_or_else(|| "-".to_owned(), |keys| keys.to_string())),
        Cell::from(number(row.writes)),
    ])
}

fn help(choice: &Choice) -> Line<'static> {
    if choice.typing {
        return Line::from(format!("filter: {}▏ Enter keeps it, Esc takes it away", choice.filter));
    }
    let filter = if choice.filter.is_empty() { String::new() } else { format!(" [{}]", choice.filter) };
    let text = format!("q quit  s sort [{}]  / filter{filter}  p pause  ↑↓ PgUp PgDn scroll", choice.sort.label());
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

/// `7`, `4321`, `12.3k`
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

/// `85µs`, `1.2ms`, `3.0s`
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 1e-3 => format!("{:.0}µs", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.1}ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1}s"),
    }
}

fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let (mut value, mut unit) = (value, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{value:.0}B") } else { format!("{value:.1}{}", UNITS[unit]) }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
