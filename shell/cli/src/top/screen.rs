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
    frame.render_widget(node_table(shown, top.width), top);
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

/// What stands above a column, how wide it is, and how soon it goes where there is too little room: the highest first.
struct Column(&'static str, u16, u8);

const NODE_COLUMNS: [Column; 9] = [
    Column("node", 12, 0),
    Column("state", 9, 1),
    Column("primary", 7, 2),
    Column("copies", 7, 6),
    Column("reads/s", 8, 5),
    Column("writes/s", 8, 3),
    Column("p50", 7, 7),
    Column("p99", 7, 4),
    Column("memory", 7, 8),
];

const BUCKET_COLUMNS: [Column; 7] = [
    Column("bucket", 7, 0),
    Column("slots", 11, 6),
    Column("primary", 9, 1),
    Column("members", 20, 5),
    Column("state", 10, 2),
    Column("keys", 9, 4),
    Column("writes/s", 8, 3),
];

/// Which of the columns there is room for. Narrower ones would be cut to letters that say nothing.
fn fitting(columns: &[Column], room: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let width = |kept: &[usize]| kept.iter().map(|&index| columns[index].1 + 1).sum::<u16>().saturating_sub(1);
    while kept.len() > 1 && width(&kept) > room {
        let last = kept.iter().copied().max_by_key(|&index| columns[index].2);
        kept.retain(|&index| Some(index) != last);
    }
    kept
}

fn table<'a>(columns: &'static [Column], room: u16, rows: impl Iterator<Item = Vec<Cell<'a>>>) -> Table<'a> {
    let kept = fitting(columns, room);
    let rows = rows.map(|cells| {
        let cells = cells.into_iter().enumerate().filter(|(index, _)| kept.contains(index));
        Row::new(cells.map(|(_, cell)| cell).collect::<Vec<_>>())
    });
    let rows: Vec<Row<'a>> = rows.collect();
    let widths = kept.iter().map(|&index| Constraint::Length(columns[index].1));
    Table::new(rows, widths).header(heading(kept.iter().map(|&index| columns[index].0))).column_spacing(1)
}

fn node_table(shown: &Shown, room: u16) -> Table<'_> {
    let leader = shown.status.government.leader.as_deref();
    table(&NODE_COLUMNS, room, shown.nodes.iter().take(NODES_MOST).map(|row| node_row(row, leader)))
}

fn node_row<'a>(row: &'a NodeRow, leader: Option<&str>) -> Vec<Cell<'a>> {
    let node = &row.node;
    let color = match node.state.as_str() {
        "present" => Color::Green,
        "absent" => Color::Red,
        _ => Color::Yellow,
    };
    let name = if leader == Some(&node.name) { format!("{}*", node.name) } else { node.name.clone() };
    let of_load = |show: fn(&Load) -> String| row.load.as_ref().map_or_else(|| "-".to_owned(), show);
    vec![
        Cell::from(name),
        Cell::from(&*node.state).style(Style::new().fg(color)),
        Cell::from(node.primaries.to_string()),
        Cell::from(node.copies.to_string()),
        Cell::from(of_load(|load| number(load.reads))),
        Cell::from(of_load(|load| number(load.writes))),
        Cell::from(of_load(|load| time(load.p50))),
        Cell::from(of_load(|load| time(load.p99))),
        Cell::from(of_load(|load| bytes(load.bytes))),
    ]
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
    let shown = rows.iter().skip(choice.scroll).take(room).map(|row| bucket_row(row));
    frame.render_widget(table(&BUCKET_COLUMNS, area.width, shown), area);
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

fn bucket_row(row: &BucketRow) -> Vec<Cell<'_>> {
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
    vec![
        Cell::from(bucket.bucket.to_string()),
        Cell::from(format!("{}-{}", bucket.slots[0], bucket.slots[1])),
        Cell::from(bucket.primary.as_deref().unwrap_or("nobody")),
        Cell::from(members),
        Cell::from(&*bucket.state).style(Style::new().fg(color)),
        Cell::from(bucket.keys.map_or_else(|| "-".to_owned(), |keys| keys.to_string())),
        Cell::from(number(row.writes)),
    ]
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
