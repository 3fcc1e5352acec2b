//! Rules about Markdown: width, links that lead somewhere, decision records that are numbered without a gap.

use super::Complaint;
use super::source::{COLUMNS_MOST, numbered};

const DECISIONS: &str = "docs/decisions/";

/// A row of a table and an address on the web cannot be broken over two lines.
pub(super) fn check_width(path: &str, text: &str) -> Vec<Complaint> {
    let is_excepted = |content: &str| content.trim_start().starts_with('|') || content.contains("://");
    numbered(text)
        .map(|(line, content)| (line, content, content.chars().count()))
        .filter(|&(_, content, columns)| columns > COLUMNS_MOST && !is_excepted(content))
        .map(|(line, _, columns)| Complaint::new(path, line, format!("{columns} columns, more than {COLUMNS_MOST}")))
        .collect()
}

/// `exists` is asked with a path from the root.
pub(super) fn check_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (line, target) in links(text) {
        let file = target.split('#').next().unwrap_or_default();
        if file.is_empty() || is_elsewhere(&target) {
            continue;
        }
        match resolve(path, file) {
            Some(found) if exists(&found) => {}
            Some(found) => complaints.push(Complaint::new(path, line, format!("`{target}`: there is no `{found}`"))),
            // It may exist on this machine; it will not on the next.
            None => complaints.push(Complaint::new(path, line, format!("`{target}` leads out of the repository"))),
        }
    }
    complaints
}

/// Does the target name a scheme (`https:`, `mailto:`)?
fn is_elsewhere(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.chars().all(|character| character.is_ascii_alphanumeric() || character == '+')
    })
}

/// The targets of `[text](target)` and of `[name]: target`, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (line, content) in numbered(text) {
        let trimmed = content.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), Some(_) | None) => {}
            (None, None) => {
                let prose = without_code(content);
                found.extend(prose.split("](").skip(1).filter_map(target).map(|target| (line, target)));
                let defined = prose.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
                found.extend(defined.and_then(|(_, rest)| target(rest)).map(|target| (line, target)));
            }
        }
    }
    found
}

/// The target at the beginning of `rest`: `<a b>`, or up to a blank (a title follows) or the closing parenthesis.
fn target(rest: &str) -> Option<String> {
    let end = match rest.strip_prefix('<') {
        Some(quoted) => return quoted.split_once('>').map(|(target, _)| target.to_owned()),
        None => rest.find([')', ' ']).unwrap_or(rest.len()),
    };
    Some(rest[..end].to_owned()).filter(|target| !target.is_empty())
}

/// Blanks out what stands between backticks.
fn without_code(content: &str) -> String {
    let pieces: Vec<&str> = content.split('`').collect();
    let is_code = |index: usize| index % 2 == 1 && index + 1 < pieces.len();
    let kept = pieces.iter().enumerate().map(|(index, piece)| if is_code(index) { "" } else { piece });
    kept.collect::<Vec<&str>>().join("`")
}

/// The path from the root, or nothing if it leads above it.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => path.split('/').rev().skip(1).collect::<Vec<&str>>().into_iter().rev().collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Decision records are cited by number: no number twice, and none missing.
pub(super) fn check_decisions<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut records: Vec<(u32, &str)> = Vec::new();
    for path in paths {
        let Some(name) = path.strip_prefix(DECISIONS) else { continue };
        match number(name) {
            Some(number) => records.push((number, path)),
            None => complaints.push(Complaint::new(path, 1, "a decision record is named NNNN-title-in-lower-case.md")),
        }
    }
    records.sort_unstable();
    for ((number, path), expected) in records.into_iter().zip(1..) {
        if number != expected {
            let what = format!("numbered {number:04} where {expected:04} comes next: numbers are consecutive");
            complaints.push(Complaint::new(path, 1, what));
            break;
        }
    }
    complaints
}

fn number(name: &str) -> Option<u32> {
    let (digits, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_title = |character: char| matches!(character, 'a'..='z' | '0'..='9' | '-');
    let well_named = digits.len() == 4 && !title.is_empty() && title.chars().all(is_title);
    if well_named { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<usize> {
        let exists = |path: &str| ["README.md", "docs", "docs/protocol/paxos.md"].contains(&path);
        check_links("docs/guide.md", text, exists).iter().map(|complaint| complaint.line).collect()
    }

    #[test]
    fn links_lead_to_files_that_exist() {
        assert_eq!(broken("[a](../README.md), [b](protocol/paxos.md#why \"title\"), [c](/README.md)\n"), []);
        assert_eq!(broken("a\n[a](README.md) [b](protocol/paxos.md) [c](<no such.md>)\n"), [2, 2]);
        assert_eq!(broken("[a]: ../README.md\n[b]: other.md\n"), [2]);
        assert_eq!(broken("[a](#below) [b](https://example.org/x.md) [c](mailto:a@example.org)\n"), []);
    }

    #[test]
    fn links_do_not_leave_the_repository() {
        assert_eq!(broken("[a](../../README.md)"), [1]);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(broken("```\n[a](no.md)\n```\n`[a](no.md)`\n~~~text\n```\n[a](no.md)\n~~~\n[a](no.md)\n"), [9]);
    }

    #[test]
    fn long_lines_are_named_but_tables_and_addresses_are_not() {
        let long = "a".repeat(121);
        let text = format!("{}\n{long}\n| {long} |\nhttps://{long}\n", "a".repeat(120));
        let lines: Vec<usize> = check_width("a.md", &text).iter().map(|complaint| complaint.line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn decision_records_are_numbered_without_a_gap() {
        let check = |names: &[&str]| {
            let paths: Vec<String> = names.iter().map(|name| format!("docs/decisions/{name}")).collect();
            check_decisions(paths.iter().map(String::as_str)).len()
        };
        assert_eq!(check(&["0001-a.md", "0002-b-c.md"]), 0);
        assert_eq!(check(&["0001-a.md", "0003-b.md"]), 1);
        assert_eq!(check(&["0001-a.md", "0001-b.md"]), 1);
        assert_eq!(check(&["0001-a.md", "notes.md"]), 1);
        assert_eq!(check(&["0001-A.md"]), 1);
        assert_eq!(check_decisions(["docs/notes.md"].into_iter()), []);
    }
}
