//! A state machine of one's own: a table of high scores, in one file. Nothing but the trait is needed.
//!
//! A command is `name score`, a query is a name or nothing for the best; both in text.

use atoll_types::{At, HashSlot, Malformed, Offset, StateMachine, Time};
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The best score of each player.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HighScores(BTreeMap<String, u64>);

fn parse(line: &str) -> Option<(&str, u64)> {
    let (name, score) = line.rsplit_once(' ')?;
    Some((name, score.parse().ok()?))
}

impl StateMachine for HighScores {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(HighScores::default())
    }

    fn apply(&mut self, _: At, command: &[u8], answer: &mut Vec<u8>) {
        let Some((name, score)) = std::str::from_utf8(command).ok().and_then(parse) else {
            return answer.extend(b"a command is `name score`");
        };
        let best = self.0.entry(name.to_owned()).or_default();
        *best = score.max(*best);
        answer.extend(best.to_string().bytes());
    }

    // Scores stay for ever.
    fn advance(&mut self, _: At) {}

    fn due(&self) -> Option<Time> {
        None
    }

    fn read(&self, _: At, query: &[u8], answer: &mut Vec<u8>) {
        let score = match query {
            [] => self.0.values().max(),
            name => std::str::from_utf8(name).ok().and_then(|name| self.0.get(name)),
        };
        answer.extend(score.map_or("nobody".to_owned(), u64::to_string).bytes());
    }

    fn grows(&self, command: &[u8]) -> bool {
        std::str::from_utf8(command).ok().and_then(parse).is_some_and(|(name, _)| !self.0.contains_key(name))
    }

    fn bytes(&self) -> usize {
        self.0.keys().map(|name| name.len() + 40).sum()
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(name, score)| format!("{name} {score}\n").into_bytes()).collect()
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
        let scores = text.lines().map(|line| parse(line).map(|(name, score)| (name.to_owned(), score)));
        self.0 = scores.collect::<Option<_>>().ok_or(Malformed)?;
        Ok(())
    }

    fn split(&mut self, first: HashSlot) -> Box<dyn StateMachine> {
        let goes = |name: &String| HashSlot::of(name.as_bytes()) >= first;
        let (gone, stay) = std::mem::take(&mut self.0).into_iter().partition(|(name, _)| goes(name));
        self.0 = stay;
        Box::new(HighScores(gone))
    }

    fn digest(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        hasher.write(&self.snapshot());
        hasher.digest()
    }
}

fn apply(machine: &mut dyn StateMachine, offset: u64, command: &str) -> String {
    let at = At { offset: Offset(offset), time: Time(offset) };
    let mut answer = Vec::new();
    machine.advance(at);
    machine.apply(at, command.as_bytes(), &mut answer);
    String::from_utf8(answer).expect("answers are text")
}

#[test]
fn the_trait_is_enough() {
    let mut machine: Box<dyn StateMachine> = Box::new(HighScores::default());
    assert_eq!(apply(&mut *machine, 1, "ann 7"), "7");
    assert_eq!(apply(&mut *machine, 2, "ann 5"), "7", "the best one counts");
    assert_eq!(apply(&mut *machine, 3, "ben 9"), "9");
    assert_eq!(apply(&mut *machine, 4, "nonsense"), "a command is `name score`");

    let mut copy = machine.empty();
    copy.install(&machine.snapshot()).expect("a snapshot can be installed");
    assert_eq!((copy.digest(), copy.count()), (machine.digest(), 2));

    let first = HashSlot::of(b"ann").max(HashSlot::of(b"ben"));
    let upper = copy.split(first);
    assert_eq!((copy.count(), upper.count()), (1, 1));
    let best = |machine: &dyn StateMachine| {
        let mut answer = Vec::new();
        machine.read(At { offset: Offset::ZERO, time: Time::ZERO }, b"", &mut answer);
        String::from_utf8(answer).expect("answers are text")
    };
    assert_eq!(best(&*machine), "9");
    assert_ne!(best(&*copy), best(&*upper));
}
