//! Rust source with the insides of comments, strings and characters blanked out, so that a rule about code does not
//! complain about a sentence. Lines and columns stay where they were.
//!
//! Not here: a Rust parser. Knowing where code ends and text begins is enough for every rule.

/// The same text, in which each character of a comment or literal is a space. The quotes stay.
pub(super) fn mask(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let previous = at.checked_sub(1).map(|before| characters[before]);
        let taken = match rest {
            ['/', '/', ..] => rest.iter().position(|&character| character == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['"', ..] => string(rest),
            ['r', '"' | '#', ..] if !previous.is_some_and(is_word) => raw_string(rest, 1),
            ['b' | 'c', 'r', '"' | '#', ..] if !previous.is_some_and(is_word) => raw_string(rest, 2),
            ['\'', ..] => character(rest),
            [_, ..] | [] => 0,
        };
        if taken == 0 {
            masked.push(characters[at]);
            at += 1;
            continue;
        }
        let quoted = !rest.starts_with(&['/']);
        for (index, &character) in rest[..taken].iter().enumerate() {
            let is_edge = quoted && (index == 0 || index + 1 == taken);
            masked.push(if character == '\n' || is_edge { character } else { ' ' });
        }
        at += taken;
    }
    masked
}

pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Block comments nest.
fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `prefix`: how many letters stand before the hashes. Zero if it is a raw identifier, `r#type`, and no string.
fn raw_string(rest: &[char], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|&&character| character == '#').count();
    if rest.get(prefix + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    let begin = prefix + hashes + 1;
    match rest[begin..].windows(end.len()).position(|window| window == end) {
        Some(inside) => begin + inside + end.len(),
        None => rest.len(),
    }
}

/// Zero if it is a lifetime and no character.
fn character(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => {
            tail.iter().position(|&character| character == '\'').map_or(rest.len(), |inside| inside + 4)
        }
        ['\'', _, '\'', ..] => 3,
        [..] => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank_and_code_stays() {
        assert_eq!(mask("let a = \"b\\\"c\"; // d\ne"), "let a = \"    \";     \ne");
        assert_eq!(mask("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(mask("r#\"a\"b\"# c"), "r      # c");
        assert_eq!(mask("br\"a\" c"), "b   \" c");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(mask("fn a<'b>(r#type: &'b str)"), "fn a<'b>(r#type: &'b str)");
    }

    #[test]
    fn a_quoted_quote_opens_no_string() {
        assert_eq!(mask(r"('\'', '\\', '\u{7f}') todo"), r"('  ', '  ', '      ') todo");
        assert_eq!(mask("('\"', 'a') todo"), "(' ', ' ') todo");
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "\"a\nb\"\n/* c\n*/ d";
        assert_eq!(mask(text).lines().count(), text.lines().count());
    }
}
