//! Lengths of time as people write them: `100ms`, `5s`, `10m`, `1h`; a bare number counts seconds.

use serde::{Deserialize, Deserializer, de};
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| format!("`{text}`: a number and a unit, like 100ms or 5s"))?;
        let span = match unit {
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            "s" | "" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.saturating_mul(60)),
            "h" => Duration::from_secs(number.saturating_mul(3600)),
            _ => return Err(format!("`{unit}` is no unit of time: us, ms, s, m or h")),
        };
        Ok(Span(span))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0);
        assert_eq!(read("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(read("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(read("7"), Ok(Duration::from_secs(7)));
        assert!(read("soon").is_err());
        assert!(read("5 weeks").is_err());
    }
}
