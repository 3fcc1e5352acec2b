//! The table of targets: what was wanted, what was found, and whether that is enough.

use std::fmt::Write;

/// What is wanted: of a ratio, or of the figure itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// Atoll's figure is at least so many times the other's.
    AtLeast(f64),
    AtMost(f64),
    /// The figure itself is at most so much, whatever the other's is.
    Below(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Microseconds,
    Milliseconds,
    Bytes,
    BytesPerSecond,
    /// Of one core.
    Percent,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) own: f64,
    pub(crate) other: f64,
    /// Not own by other: it is taken within rounds.
    pub(crate) ratio: f64,
    /// The part of the machine that was taken by others meanwhile.
    pub(crate) disturbed: f64,
}

impl Found {
    pub(crate) fn new(own: f64, other: f64, disturbed: f64) -> Found {
        Found { own, other, ratio: own / other, disturbed }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) against: String,
    pub(crate) wanted: Wanted,
    pub(crate) unit: Unit,
    /// Or why there is nothing.
    pub(crate) found: Result<Found, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached,
    NotReached,
    NotMeasured(String),
}

impl Row {
    pub(crate) fn verdict(&self) -> Verdict {
        let found = match &self.found {
            Ok(found) => found,
            Err(why) => return Verdict::NotMeasured(why.clone()),
        };
        let is_number = match self.wanted {
            Wanted::Below(_) => found.own.is_finite(),
            Wanted::AtLeast(_) | Wanted::AtMost(_) => found.ratio.is_finite(),
        };
        if !is_number {
            return Verdict::NotMeasured("nothing was answered".to_owned());
        }
        let is_reached = match self.wanted {
            Wanted::AtLeast(least) => found.ratio >= least,
            Wanted::AtMost(most) => found.ratio <= most,
            Wanted::Below(most) => found.own <= most,
        };
        if is_reached { Verdict::Reached } else { Verdict::NotReached }
    }

    fn cells(&self) -> Vec<String> {
        let wanted = match self.wanted {
            Wanted::AtLeast(ratio) => format!("≥ {ratio} ×"),
            Wanted::AtMost(ratio) => format!("≤ {ratio} ×"),
            Wanted::Below(most) => format!("≤ {}", figure(most, self.unit)),
        };
        let (own, other, ratio, disturbed) = match &self.found {
            Ok(found) => {
                let ratio = if found.ratio.is_finite() { format!("{:.2}", found.ratio) } else { "–".to_owned() };
                let share = format!("{:.0}%", found.disturbed * 100.0);
                (figure(found.own, self.unit), figure(found.other, self.unit), ratio, share)
            }
            Err(_) => ("–".to_owned(), "–".to_owned(), "–".to_owned(), "–".to_owned()),
        };
        let verdict = match self.verdict() {
            Verdict::Reached => "reached".to_owned(),
            Verdict::NotReached => "**not reached**".to_owned(),
            Verdict::NotMeasured(why) => format!("could not be measured: {why}"),
        };
        vec![self.work.clone(), self.against.clone(), wanted, own, other, ratio, disturbed, verdict]
    }
}

/// One row by itself, while a run goes on.
pub(crate) fn line(row: &Row) -> String {
    row.cells().join("  ")
}

const HEAD: [&str; 8] = ["Work", "Against", "Wanted", "Atoll", "Other", "Ratio", "Disturbed", "Verdict"];

/// In Markdown, with columns that a terminal shows one below the other.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut cells: Vec<Vec<String>> = vec![HEAD.iter().map(|&word| word.to_owned()).collect()];
    cells.extend(rows.iter().map(Row::cells));
    let widths: Vec<usize> =
        (0..HEAD.len()).map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (number, row) in cells.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let blanks = width - cell.chars().count();
            let _ = write!(out, "| {}{} ", cell.replace('|', "/"), " ".repeat(blanks));
        }
        out += "|\n";
        if number == 0 {
            out += &format!("{}|\n", "|---".repeat(HEAD.len()));
        }
    }
    let count = |wanted: fn(&Verdict) -> bool| rows.iter().filter(|row| wanted(&row.verdict())).count();
    let reached = count(|verdict| *verdict == Verdict::Reached);
    let missed = count(|verdict| *verdict == Verdict::NotReached);
    let _ = writeln!(
        out,
        "\n{reached} reached, {missed} not reached, {} could not be measured.",
        rows.len() - reached - missed
    );
    out
}

/// As people read it.
pub(crate) fn figure(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match unit {
        Unit::PerSecond => format!("{}/s", grouped(value)),
        Unit::Microseconds => format!("{} µs", if value < 100.0 { format!("{value:.1}") } else { grouped(value) }),
        Unit::Milliseconds => format!("{} ms", grouped(value)),
        Unit::Bytes => format!("{} B", grouped(value)),
        Unit::BytesPerSecond => format!("{:.1} MB/s", value / 1e6),
        Unit::Percent => format!("{:.2}%", value * 100.0),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(wanted: Wanted, found: Result<Found, String>) -> Row {
        Row { work: "writes".to_owned(), against: "other".to_owned(), wanted, unit: Unit::PerSecond, found }
    }

    fn verdict(wanted: Wanted, own: f64, other: f64) -> Verdict {
        row(wanted, Ok(Found::new(own, other, 0.0))).verdict()
    }

    #[test]
    fn what_is_exactly_wanted_is_reached() {
        assert_eq!(verdict(Wanted::AtLeast(1.25), 125.0, 100.0), Verdict::Reached);
        assert_eq!(verdict(Wanted::AtLeast(1.25), 124.0, 100.0), Verdict::NotReached);
        assert_eq!(verdict(Wanted::AtMost(0.8), 80.0, 100.0), Verdict::Reached);
        assert_eq!(verdict(Wanted::AtMost(0.8), 81.0, 100.0), Verdict::NotReached);
        assert_eq!(verdict(Wanted::Below(150.0), 149.0, f64::NAN), Verdict::Reached);
        assert_eq!(verdict(Wanted::Below(150.0), 151.0, 9000.0), Verdict::NotReached);
    }

    #[test]
    fn nothing_measured_is_never_reached() {
        let nothing = Verdict::NotMeasured("nothing was answered".to_owned());
        assert_eq!(verdict(Wanted::AtLeast(1.0), 0.0, 0.0), nothing);
        assert_eq!(verdict(Wanted::AtLeast(1.0), 5.0, 0.0), nothing);
        assert_eq!(verdict(Wanted::Below(1.0), f64::NAN, 1.0), nothing);
        let missing = row(Wanted::AtLeast(1.0), Err("no package".to_owned()));
        assert_eq!(missing.verdict(), Verdict::NotMeasured("no package".to_owned()));
    }

    #[test]
    fn the_ratio_of_the_rounds_decides_and_not_that_of_the_medians() {
        let found = Found { own: 100.0, other: 100.0, ratio: 2.0, disturbed: 0.0 };
        assert_eq!(row(Wanted::AtLeast(1.5), Ok(found)).verdict(), Verdict::Reached);
    }

    #[test]
    fn the_table_says_it_in_words_and_counts() {
        let rows = [
            row(Wanted::AtLeast(2.0), Ok(Found::new(250_000.0, 100_000.0, 0.031))),
            row(Wanted::AtMost(1.0), Ok(Found::new(2.0, 1.0, 0.0))),
            row(Wanted::AtLeast(1.0), Err("no package".to_owned())),
        ];
        let text = render(&rows);
        assert!(text.contains("| ≥ 2 × "), "{text}");
        assert!(text.contains("| 250,000/s | 100,000/s | 2.50  | 3% "), "{text}");
        assert!(text.contains("could not be measured: no package"), "{text}");
        assert!(text.ends_with("1 reached, 1 not reached, 1 could not be measured.\n"), "{text}");
    }

    #[test]
    fn figures_are_written_as_people_read_them() {
        assert_eq!(figure(1_234_567.4, Unit::PerSecond), "1,234,567/s");
        assert_eq!(figure(12.34, Unit::Microseconds), "12.3 µs");
        assert_eq!(figure(999.6, Unit::Milliseconds), "1,000 ms");
        assert_eq!(figure(0.0123, Unit::Percent), "1.23%");
        assert_eq!(figure(f64::NAN, Unit::Bytes), "–");
    }
}
