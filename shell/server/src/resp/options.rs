//! Small things that many commands read the same way.

use super::parse::integer;
use super::reply::Fault;
use atoll_kv::KEY_MOST;
use std::time::Duration;

pub(crate) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

pub(crate) fn number(argument: &[u8]) -> Result<i64, Fault> {
    integer(argument).ok_or(Fault::NOT_AN_INTEGER)
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), Fault> {
    if key.len() <= KEY_MOST {
        return Ok(());
    }
    Err(Fault::new(format!("ERR the key has {} bytes; {KEY_MOST} is the most", key.len())))
}

pub(crate) fn check_value(value: &[u8], most: usize) -> Result<(), Fault> {
    if value.len() <= most {
        return Ok(());
    }
    Err(Fault::new(format!("ERR the value has {} bytes; this node takes {most} at most (--max-value)", value.len())))
}

/// A time or a span in thousandths or whole seconds; none if it is beyond what can be counted.
pub(crate) fn milliseconds(number: i64, whole_seconds: bool) -> Option<i64> {
    if whole_seconds { number.checked_mul(1000) } else { Some(number) }
}

/// What is below zero counts as zero.
pub(crate) fn span(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

pub(crate) fn invalid_expire(command: &str) -> Fault {
    Fault::new(format!("ERR invalid expire time in '{command}' command"))
}

/// Does the text match the pattern? `*`, `?`, `[a-z]`, `[^a]` and `\` as in a shell.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where the last star was, and what it has swallowed: only that one ever has to be tried again.
    let (mut pattern_at, mut text_at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while text_at < text.len() {
        if pattern.get(pattern_at) == Some(&b'*') {
            star = Some((pattern_at, text_at));
            pattern_at += 1;
            continue;
        }
        match one(&pattern[pattern_at..], text[text_at]) {
            Some(length) => {
                pattern_at += length;
                text_at += 1;
            }
            None => {
                let Some((at, swallowed)) = star else { return false };
                star = Some((at, swallowed + 1));
                (pattern_at, text_at) = (at + 1, swallowed + 1);
            }
        }
    }
    pattern[pattern_at..].iter().all(|&byte| byte == b'*')
}

/// How much of the pattern this byte matches.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let (negated, set) = rest.strip_prefix(b"^").map_or((false, rest), |set| (true, set));
            let end = set.iter().position(|&byte| byte == b']').unwrap_or(set.len());
            let mut found = false;
            let mut at = 0;
            while at < end {
                if at + 2 < end && set[at + 1] == b'-' {
                    let (low, high) = (set[at].min(set[at + 2]), set[at].max(set[at + 2]));
                    found |= (low..=high).contains(&byte);
                    at += 3;
                } else {
                    found |= set[at] == byte;
                    at += 1;
                }
            }
            let length = 1 + usize::from(negated) + (end + 1).min(set.len());
            (found != negated).then_some(length)
        }
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("user:*:name", "user:12:name", true),
            ("user:*:name", "user:12:mail", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^ae]llo", "hallo", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[", "h[", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} on {text}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[a\\[\\]^*?\\\\-]{0,12}", text in "[ab\\[-]{0,12}") {
            matches(pattern.as_bytes(), text.as_bytes());
        }

        #[test]
        fn every_text_matches_itself_between_stars(text in "[a-z]{0,8}", around in "[a-z]{0,4}") {
            let whole = format!("{around}{text}{around}");
            let pattern = format!("*{text}*");
            prop_assert!(matches(pattern.as_bytes(), whole.as_bytes()));
        }
    }
}
