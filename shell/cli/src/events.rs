//! `atoll events`: what happened in the cluster, and what led to what.

use crate::Outcome;
use crate::remote::Server;
use crate::show;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};

/// What was shown is remembered for so many events, to know what they led to.
const KNOWN_MOST: usize = 10_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Goes on, as things happen, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// As the node says it, a line for each event, for programs
    #[arg(long)]
    json: bool,
    /// How many of the last
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Clone, Debug, Deserialize)]
struct Event {
    id: u64,
    cause: Option<u64>,
    slot: u64,
    /// In microseconds since 1970.
    time: u64,
    grade: String,
    text: String,
}

/// What a stream of them brings at a time.
#[derive(Debug, Deserialize)]
struct News {
    events: Vec<Value>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut teller = Teller { json: arguments.json, color: stdout().is_terminal(), known: BTreeMap::new() };
    let last: Vec<Value> = arguments.server.get(&format!("/v1/events?limit={}", arguments.limit))?;
    last.into_iter().try_for_each(|event| teller.tell(event))?;
    if !arguments.follow {
        return Ok(Outcome::Done);
    }
    show::follow(&arguments.server, "/v1/events?only=events", |kind, data| {
        if kind != "events" {
            return Ok(());
        }
        let news: News = serde_json::from_str(data)?;
        news.events.into_iter().try_for_each(|event| teller.tell(event))
    })
}

struct Teller {
    json: bool,
    color: bool,
    /// By its number: what it said, and how many others had led to it.
    known: BTreeMap<u64, (String, usize)>,
}

impl Teller {
    fn tell(&mut self, event: Value) -> anyhow::Result<()> {
        let read: Event = serde_json::from_value(event.clone())?;
        match self.line(&read) {
            Some(_) if self.json => show::line(event.to_string().as_bytes()),
            Some(line) => show::line(line.as_bytes()),
            None => Ok(()),
        }
    }

    /// None: it was told before, in the same words.
    fn line(&mut self, event: &Event) -> Option<String> {
        let depth = event.cause.and_then(|cause| self.known.get(&cause)).map_or(0, |(_, depth)| depth + 1);
        let before = self.known.insert(event.id, (event.text.clone(), depth));
        while self.known.len() > KNOWN_MOST {
            self.known.pop_first();
        }
        if before.as_ref().is_some_and(|(text, _)| *text == event.text) {
            return None;
        }
        let again = if before.is_some() { "(now) " } else { "" };
        let arrow = if depth > 0 { format!("{}→ ", "  ".repeat(depth - 1)) } else { String::new() };
        let text = self.colored(&event.grade, &event.text);
        Some(format!("{}  {arrow}{again}{text}  [{}]", when(event.time), event.slot))
    }

    fn colored(&self, grade: &str, text: &str) -> String {
        let color = match grade {
            "good" => 32,
            "warning" => 33,
            "bad" => 31,
            _ => 0,
        };
        if self.color && color > 0 { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `2026-11-17 02:07:34.123`, in universal time.
fn when(micros: u64) -> String {
    let (seconds, millis) = (micros / 1_000_000, micros / 1_000 % 1_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the odd day is at their end; eras of 400 years are all alike.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, cause: Option<u64>, text: &str) -> Event {
        Event { id, cause, slot: 812, time: 1_794_815_204_732_586, grade: "plain".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn what_led_to_what_is_shown_by_arrows() {
        let mut teller = Teller { json: false, color: false, known: BTreeMap::new() };
        let mut line = |event| teller.line(&event);
        let time = "2026-11-16 07:46:44.732";
        assert_eq!(line(event(1, None, "n3 is silent")), Some(format!("{time}  n3 is silent  [812]")));
        assert_eq!(line(event(2, Some(1), "n3 departed")), Some(format!("{time}  → n3 departed  [812]")));
        let took_over = line(event(3, Some(2), "n1 took over")).unwrap_or_default();
        assert_eq!(took_over, format!("{time}    → n1 took over  [812]"));
        assert_eq!(line(event(2, Some(1), "n3 departed")), None, "told before");
        let again = line(event(3, Some(2), "n1 took over, longest pause 41 ms")).unwrap_or_default();
        assert_eq!(again, format!("{time}    → (now) n1 took over, longest pause 41 ms  [812]"));
        // Of what came before the first one that is known nothing can be said.
        assert_eq!(line(event(9, Some(7), "n5 arrived")), Some(format!("{time}  n5 arrived  [812]")));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(when(0), "1970-01-01 00:00:00.000");
        assert_eq!(when(951_782_400_000_000), "2000-02-29 00:00:00.000");
        assert_eq!(when(4_107_542_399_999_000), "2100-02-28 23:59:59.999");
    }
}
