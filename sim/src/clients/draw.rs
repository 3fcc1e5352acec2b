//! What a client asks for next: drawn from few keys, so that clients get into each other's way, and from all buckets.
//!
//! | Begins with | Is |
//! |---|---|
//! | `r`, `s` | a value that is put, swapped and deleted; never the same twice |
//! | `c` | a number that is counted up |
//! | `a` | a text that is appended to |
//! | `f` | a value that goes by itself, sooner or later than it was first said |
//! | `m` | a stream that is trimmed now and then |

use super::act::Act;
use atoll_types::{HashSlot, Offset, Rng};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a client remembers of a key: the version and value it saw there, none where it saw nothing.
pub(crate) type Seen = BTreeMap<String, Option<(Offset, String)>>;

/// Tags whose slots are spread evenly over all slots.
pub(crate) fn tags(count: usize) -> Vec<String> {
    let width = usize::from(HashSlot::COUNT) / count.max(1);
    (0..count).map(|part| tag_within(part * width, (part + 1) * width - 1)).collect()
}

/// A tag whose slot is from `first` to `last`.
pub(crate) fn tag_within(first: usize, last: usize) -> String {
    let within = |tag: &String| (first..=last).contains(&usize::from(HashSlot::of(tag.as_bytes()).0));
    (0..).map(|number| format!("t{number}")).find(within).unwrap_or_default()
}

pub(crate) fn key(family: &str, age: u32, tag: &str) -> String {
    format!("{family}{age}.{{{tag}}}")
}

/// Draws one act. `name` gives the key of a family and tag that is in use now; `number` is unlike any other's.
pub(crate) fn act(rng: &mut Rng, tag: &str, number: usize, seen: &Seen, name: impl Fn(&str) -> String) -> Act {
    let value = format!("v{number}");
    let register = name(if rng.one_in(3) { "s" } else { "r" });
    match rng.below(23) {
        0..=2 => Act::Put { key: register, value, ttl: None },
        3..=5 => match seen.get(&register) {
            Some(seen) => Act::Swap { key: register, seen: seen.clone(), value },
            None => Act::Get { key: register },
        },
        6 => Act::Delete { key: register, number },
        7 => Act::Both { keys: [name("r"), name("s")], value },
        8..=10 => Act::Get { key: register },
        11 | 12 => Act::Increment { key: name("c"), by: number as i64 + 1 },
        13 => Act::Append { key: name("a"), value: format!("{number},") },
        14 => Act::Get { key: name(if rng.one_in(2) { "c" } else { "a" }) },
        15 => Act::Put { key: name("f"), value, ttl: Some(Duration::from_millis(20 + rng.below(4_000))) },
        16 => Act::Get { key: name("f") },
        17 => {
            let prefix = ["", "r", "f"][rng.below(3) as usize].to_owned();
            Act::Scan { prefix, slot: HashSlot::of(tag.as_bytes()) }
        }
        18 => Act::Publish { stream: name("m"), message: value },
        19 => Act::Exchange { key: register, value },
        20 => {
            // Some go at once, some stay.
            let after = match rng.below(8) {
                0 => Some(Duration::ZERO),
                1 => None,
                _later => Some(Duration::from_millis(20 + rng.below(4_000))),
            };
            Act::Expire { key: name("f"), after, number }
        }
        21 => match rng.below(4) {
            0 => Act::Trim { stream: name("m"), keep: rng.below(6), number },
            _more => Act::Publish { stream: name("m"), message: value },
        },
        _fetch => Act::Fetch { stream: name("m"), from: rng.one_in(2).then(|| rng.below(20)) },
    }
}

/// Any act at all, for a test of the model.
#[cfg(test)]
pub(crate) fn any(rng: &mut Rng, number: usize, version: Offset) -> Act {
    let tag = ["x", "y"][rng.below(2) as usize];
    let name = |family: &str| key(family, 0, tag);
    let seen = Seen::from([(name("r"), Some((version, String::new()))), (name("s"), None)]);
    act(rng, tag, number, &seen, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_reach_every_bucket() {
        for count in [1, 2, 8, 64] {
            let width = HashSlot::COUNT / count as u16;
            let parts: Vec<u16> = tags(count).iter().map(|tag| HashSlot::of(tag.as_bytes()).0 / width).collect();
            assert_eq!(parts, (0..count as u16).collect::<Vec<u16>>());
            let named = key("r", 3, &tags(count)[0]);
            assert_eq!(HashSlot::of(named.as_bytes()), HashSlot::of(tags(count)[0].as_bytes()));
        }
    }
}
