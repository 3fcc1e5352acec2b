//! What a page says: commands, and what they print.

/// A command of a page.
pub(crate) struct Step {
    /// Where it stands.
    pub(crate) line: usize,
    pub(crate) command: String,
    /// What it prints, as the page shows it; nothing, if it shows nothing.
    pub(crate) output: String,
}

/// All commands of the blocks that are to be run.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if !inside {
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: index + 1, command: command.to_owned(), output: String::new() });
            goes_on = command.ends_with('\\');
        } else if let Some(step) = steps.last_mut() {
            if goes_on {
                step.command += &format!("\n{line}");
                goes_on = line.ends_with('\\');
            } else {
                step.output += &format!("{line}\n");
            }
        }
    }
    steps
}

/// Is it what the page shows? Numbers and ids differ from run to run, and so do widths of columns. `…` on a line of its
/// own stands for any lines.
pub(crate) fn is_like(printed: &str, shown: &str) -> bool {
    let lines = |text: &str| text.lines().map(plain).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let shown = lines(shown);
    shown.is_empty() || matches(&lines(printed), &shown)
}

fn matches(printed: &[String], shown: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=printed.len()).any(|left_out| matches(&printed[left_out..], rest))
        }
        Some((first, rest)) => printed.first() == Some(first) && matches(&printed[1..], rest),
    }
}

/// A line without what may differ: numbers, ids, spaces.
fn plain(line: &str) -> String {
    let words: Vec<String> =
        line.split_whitespace().map(|word| if is_id(word) { "id".to_owned() } else { digits(word) }).collect();
    words.join(" ")
}

fn is_id(word: &str) -> bool {
    word.len() == 16 && word.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// Every number becomes 0, but not that of a node: `n3` is somebody else than `n1`.
fn digits(word: &str) -> String {
    if word.len() == 2 && word.starts_with('n') {
        return word.to_owned();
    }
    let mut plain = String::new();
    for letter in word.chars() {
        match letter {
            '0'..='9' if plain.ends_with('0') => {}
            '0'..='9' => plain.push('0'),
            other => plain.push(other),
        }
    }
    plain
}
