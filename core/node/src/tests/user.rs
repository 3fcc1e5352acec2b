//! A machine of the user's own on the cluster log: the same on every node, in snapshots, answered to the submitter.

use super::town::{Town, config};
use crate::{Event, Input};
use atoll_types::{At, HashSlot, Malformed, Payload, StateMachine, Time};

/// Keeps every command, and answers which one it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Diary {
    pages: Vec<(u64, Vec<u8>)>,
}

impl StateMachine for Diary {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(Diary::default())
    }

    fn apply(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>) {
        self.pages.push((at.offset.0, command.to_vec()));
        answer.extend_from_slice(format!("page {}", self.pages.len()).as_bytes());
    }

    fn advance(&mut self, _at: At) {}

    fn due(&self) -> Option<Time> {
        None
    }

    fn read(&self, _at: At, query: &[u8], answer: &mut Vec<u8>) {
        let count = self.pages.iter().filter(|(_, page)| page.starts_with(query)).count();
        answer.extend_from_slice(count.to_string().as_bytes());
    }

    fn grows(&self, _command: &[u8]) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.pages.len()
    }

    fn count(&self) -> usize {
        self.pages.len()
    }

    fn snapshot(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.pages).unwrap()
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.pages = postcard::from_bytes(bytes).map_err(|_| Malformed)?;
        Ok(())
    }

    fn split(&mut self, _first: HashSlot) -> Box<dyn StateMachine> {
        Box::new(self.clone())
    }

    fn digest(&self) -> u64 {
        self.pages.len() as u64
    }
}

fn answers(town: &Town, house: usize) -> Vec<(u64, Payload)> {
    let submitted = town.events(house).filter_map(|event| {
        let Event::Submitted { ticket, answer, .. } = event else { return None };
        Some((*ticket, answer.clone()))
    });
    submitted.collect()
}

#[test]
fn what_is_submitted_is_applied_on_every_node_and_answered_to_its_submitter() {
    let diary = Diary::default();
    let mut town = Town::founded(&["n1", "n2", "n3"], true, Some(&diary));
    assert!(town.run(20, |town| town.present() == 3), "all are there");
    for (ticket, house) in [(1, 0), (2, 1), (3, 2)] {
        town.give(house, Input::Submit { ticket, payload: Payload::from(&b"dear"[..]) });
        assert!(town.run(5, |town| !answers(town, house).is_empty()), "it is answered");
        let page = Payload::from(format!("page {ticket}").into_bytes());
        assert_eq!(answers(&town, house), [(ticket, page)]);
    }
    town.add(config("n4", &["n1", "n2", "n3"]), Some(&diary));
    assert!(town.run(20, |town| town.present() == 4 && town.is_level()), "a newcomer gets it with its snapshot");
    let read = |town: &Town, house: usize| town.node(house).cluster().query(b"de");
    assert!((0..4).all(|house| read(&town, house) == Payload::from(&b"3"[..])));
    // From its disk as well.
    town.houses[2].node = None;
    assert!(town.run(5, |town| town.present() == 3), "it is missed");
    town.start(2);
    assert!(town.run(20, |town| town.present() == 4 && town.is_level()), "it is back");
    assert_eq!(read(&town, 2), Payload::from(&b"3"[..]));
}

#[test]
fn a_node_without_the_machine_does_not_take_the_snapshot_of_a_cluster_that_has_one() {
    let diary = Diary::default();
    let mut town = Town::founded(&["n1"], false, Some(&diary));
    assert!(town.run(20, |town| town.present() == 1), "it is founded");
    town.add(config("n2", &["n1"]), None);
    assert!(town.run(20, |town| town.node(1).view().counters.snapshots_refused > 0), "it is refused");
    assert!(town.node(1).view().state.is_none());
}
