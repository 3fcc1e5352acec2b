//! The screen as people see it.

use super::*;
use atoll_server::status::{BucketStatus, GovernmentStatus, MoveStatus, NodeStatus, Status};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn node(name: &str, state: &str, load: Option<Load>) -> NodeRow {
    let nowhere = String::new;
    let (peer, http, resp, zone) = (nowhere(), nowhere(), nowhere(), nowhere());
    let (name, state) = (name.to_owned(), state.to_owned());
    NodeRow { node: NodeStatus { name, id: 1, state, peer, http, resp, zone, primaries: 22, copies: 64 }, load }
}

fn bucket(number: u16, primary: &str, state: &str, writes: f64) -> BucketRow {
    let bucket = BucketStatus {
        bucket: number,
        slots: [number, number + 255],
        epoch: "6".to_owned(),
        primary: Some(primary.to_owned()),
        home: None,
        members: vec!["n1".to_owned(), "n2".to_owned(), "n3".to_owned()],
        catching_up: Vec::new(),
        state: state.to_owned(),
        keys: Some(u64::from(number) + 1),
        offset: Some(7),
    };
    BucketRow { bucket, writes }
}

fn shown() -> Shown {
    let load = Load { reads: 1234.0, writes: 56_789.0, p50: Some(85e-6), p99: Some(0.0123), ..Load::default() };
    let government = GovernmentStatus { leader: Some("n1".to_owned()), ..GovernmentStatus::default() };
    let status = Status {
        cluster_id: "ece051a0".to_owned(),
        healthy: true,
        buckets: 64,
        copies: 3,
        government,
        ..Status::default()
    };
    Shown {
        status,
        nodes: vec![node("n1", "present", Some(load.clone())), node("n2", "absent", None)],
        buckets: (0..64).map(|number| bucket(number * 256, "n1", "serving", f64::from(number))).collect(),
        total: load,
        trouble: None,
    }
}

/// The lines of a terminal of this size.
fn lines(shown: &Shown, choice: &mut Choice, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, shown, choice)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    (0..height).map(|row| line(row).trim_end().to_owned()).collect()
}

#[test]
fn everything_is_there_at_80_by_24() {
    let lines = lines(&shown(), &mut Choice::default(), 80, 24);
    assert_eq!(lines[0], "atoll top  cluster ece051a0  healthy  leader n1  64 buckets × 3");
    assert_eq!(lines[1], "1234 reads/s  56.8k writes/s  p50 85µs  p99 12.3ms  0 failed/s  0 clients");
    assert_eq!(lines[3], "node         state     primary copies  reads/s  writes/s p50     p99     memory");
    assert_eq!(lines[4], "n1*          present   22      64      1234     56.8k    85µs    12.3ms  0B");
    assert_eq!(lines[5], "n2           absent    22      64      -        -        -       -       -");
    assert_eq!(lines[7], "bucket  slots       primary   members              state      keys      writes/s");
    // The hottest first.
    assert_eq!(lines[8], "16128   16128-16383 n1        n1 n2 n3             serving    16129     63");
    assert_eq!(lines[22].split(' ').next(), Some("12544"), "{lines:#?}");
    assert_eq!(lines[23], "q quit  s sort [writes]  / filter  p pause  ↑↓ PgUp PgDn scroll");
}

#[test]
fn what_is_wrong_and_what_moves_is_told() {
    let mut shown = shown();
    shown.status.healthy = false;
    shown.status.problems = (1..=6).map(|node| format!("n{node} is absent")).collect();
    let (from, to) = (vec!["n1".to_owned()], vec!["n4".to_owned()]);
    shown.status.moves = vec![MoveStatus { bucket: 256, kind: "expand".to_owned(), from, to, progress: 0.8 }];
    let text = lines(&shown, &mut Choice::default(), 80, 24).join("\n");
    assert!(text.contains("NOT healthy"), "{text}");
    assert!(text.contains("move: bucket 256 expand n1 → n4  80%"), "{text}");
    assert!(text.contains("! n4 is absent\nand 2 more problems"), "{text}");
    assert!(text.contains("16128"), "{text}");
}

#[test]
fn buckets_are_filtered_sorted_and_scrolled() {
    let mut shown = shown();
    shown.buckets[3] = bucket(768, "n2", "lost", 0.0);
    let first =
        |shown: &Shown, choice: &mut Choice| lines(shown, choice, 80, 24)[8].split(' ').next().map(str::to_owned);
    let mut choice = Choice { sort: Sort::State, ..Choice::default() };
    assert_eq!(first(&shown, &mut choice).as_deref(), Some("768"));
    choice = Choice { sort: Sort::Bucket, scroll: 2, ..Choice::default() };
    assert_eq!(first(&shown, &mut choice).as_deref(), Some("512"));
    choice = Choice { filter: "lost".to_owned(), scroll: 50, ..Choice::default() };
    assert_eq!(first(&shown, &mut choice).as_deref(), Some("768"));
    assert_eq!(choice.scroll, 0, "there is nothing further down");
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (20, 5), (79, 10), (300, 100)] {
        lines(&shown(), &mut Choice { typing: true, ..Choice::default() }, width, height);
    }
}

#[test]
fn numbers_are_short() {
    assert_eq!([0.4, 9_999.0, 12_345.0, 2e6].map(number), ["0", "9999", "12.3k", "2.0M"]);
    assert_eq!([None, Some(85e-6), Some(0.0012), Some(3.0)].map(time), ["-", "85µs", "1.2ms", "3.0s"]);
    assert_eq!([512.0, 2048.0, 3.5 * 1024.0 * 1024.0].map(bytes), ["512B", "2.0K", "3.5M"]);
}

#[test]
fn a_narrow_terminal_has_fewer_columns_and_none_that_is_cut() {
    let names = |columns: &[Column], room| -> Vec<&str> {
        fitting(columns, room).into_iter().map(|index| columns[index].0).collect()
    };
    assert_eq!(names(&NODE_COLUMNS, 80).len(), 9);
    assert_eq!(names(&NODE_COLUMNS, 50), ["node", "state", "primary", "writes/s", "p99"]);
    assert_eq!(names(&BUCKET_COLUMNS, 80).len(), 7);
    assert_eq!(names(&BUCKET_COLUMNS, 50), ["bucket", "primary", "state", "keys", "writes/s"]);
    assert_eq!(names(&BUCKET_COLUMNS, 20), ["bucket", "primary"]);
    assert_eq!(names(&BUCKET_COLUMNS, 0), ["bucket"]);
}
