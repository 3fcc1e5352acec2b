//! Which seeds to run: `A..B`, both ends included.

use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    /// Included; not less than `first`.
    pub(crate) last: u64,
}

impl Seeds {
    pub(crate) fn one(seed: u64) -> Seeds {
        Seeds { first: seed, last: seed }
    }

    /// All 2^64 seeds at once would be one more than fits; nobody lives to see the last of them.
    pub(crate) fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// The seed at this place, counted from zero; none beyond the last.
    pub(crate) fn at(self, place: u64) -> Option<u64> {
        self.first.checked_add(place).filter(|&seed| seed <= self.last)
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let wrong = || format!("`{text}` is not of the form A..B, for example 1..2000");
        let (first, last) = text.split_once("..").ok_or_else(wrong)?;
        let first: u64 = first.parse().map_err(|_| wrong())?;
        // `..=` is how Rust writes a range that includes its end: it means the same here.
        let last: u64 = last.strip_prefix('=').unwrap_or(last).parse().map_err(|_| wrong())?;
        if first > last {
            return Err(format!("the first seed, {first}, is greater than the last, {last}"));
        }
        Ok(Seeds { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_included() {
        let seeds: Seeds = "1..2000".parse().unwrap();
        assert_eq!(seeds.count(), 2000);
        assert_eq!((seeds.at(0), seeds.at(1999), seeds.at(2000)), (Some(1), Some(2000), None));
        assert_eq!("1..=2000".parse(), Ok(seeds));
        assert_eq!("7..7".parse(), Ok(Seeds::one(7)));
    }

    #[test]
    fn the_greatest_seeds_do_not_overflow() {
        let seeds = Seeds { first: u64::MAX - 1, last: u64::MAX };
        assert_eq!((seeds.count(), seeds.at(1), seeds.at(2)), (2, Some(u64::MAX), None));
        assert_eq!(Seeds { first: 0, last: u64::MAX }.count(), u64::MAX);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "1", "1..", "..2", "2..1", "a..b", "1...2", "-1..2"] {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }
}
