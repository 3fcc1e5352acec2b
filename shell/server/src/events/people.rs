//! What entries say of members: who came, went, was heard again, was elected; and what operators wanted.

use super::book::{Book, Draft};
use super::chronicle::{Chronicle, Class, Noted, Place, SoughtAt};
use super::{Grade, Kind, count};
use atoll_types::{Cause, Edict, Government, Newcomer, NodeId, Operation, Report, Request, Why};
use std::collections::BTreeMap;

/// Reports told one by one of an entry; of more, how many.
const TOLD_MOST: usize = 4;

impl Chronicle {
    /// Writes something about one node, as part of what is told of it, or as the beginning of something new.
    fn write(&mut self, book: &Book, node: NodeId, draft: Draft) -> u64 {
        let name = self.name(node);
        let event = book.write(Draft { nodes: vec![name.clone()], ..draft });
        self.stories.insert(name, event);
        event
    }

    fn story(&self, node: NodeId) -> Option<u64> {
        self.stories.get(&self.name(node)).copied()
    }

    /// It is well again: what happens next to it is another story.
    fn close(&mut self, node: NodeId) {
        let name = self.name(node);
        self.stories.remove(&name);
    }

    pub(super) fn on_government(&mut self, place: Place, government: &Government, book: &Book) -> Option<Noted> {
        let slot = place.slot;
        let removal = |event| Some(Noted { class: Class::Removal, time: place.time, event: Some(event) });
        let before = std::mem::replace(&mut self.leader, government.leader());
        match &government.cause {
            Cause::Founded { cluster, founder, .. } => {
                self.names.insert(founder.node, founder.name.to_string());
                let text = format!("{} founded the cluster {cluster}", founder.name);
                let event = self.write(book, founder.node, place.draft(None, Kind::Founded, Grade::Good, text));
                self.close(founder.node);
                self.triggers(event);
                None
            }
            Cause::Elected => {
                self.on_election(place, before, government, book);
                None
            }
            Cause::Arrived(newcomer) => {
                self.on_arrival(place, newcomer, book);
                None
            }
            Cause::Departed { node, why } => {
                let cause = self.suspect(place, *node, *why, book);
                self.absent.remove(node);
                self.arriving.remove(node);
                let text = format!("{} departed at slot {slot}", self.name(*node));
                let grade = if *why == Why::Ordered { Grade::Plain } else { Grade::Warning };
                let event = self.write(book, *node, place.draft(cause, Kind::Departed, grade, text));
                self.triggers(event);
                removal(event)
            }
            Cause::Seated | Cause::Rearranged => {
                let voters: Vec<String> = government.voters().map(|voter| self.name(voter)).collect();
                let text = if government.cause == Cause::Rearranged {
                    format!("{} lead for now", self.list(&government.majority))
                } else if voters.len() == 1 {
                    format!("{} votes alone", voters[0])
                } else {
                    format!("{} vote", voters.join(", "))
                };
                let draft = place.draft(self.trigger, Kind::Seated, Grade::Plain, text);
                book.write(Draft { nodes: voters, ..draft });
                None
            }
            Cause::Recovered { generation } => {
                let text = format!("an operator had the cluster go on from {}", self.name(government.leader()));
                let text = format!("{text}: generation {generation}");
                let draft = place.draft(None, Kind::Recovered, Grade::Bad, text);
                let event = self.write(book, government.leader(), draft);
                self.close(government.leader());
                self.triggers(event);
                removal(event)
            }
        }
    }

    fn on_election(&mut self, place: Place, before: NodeId, government: &Government, book: &Book) {
        let leader = government.leader();
        let (name, slot) = (self.name(leader), place.slot);
        if before == leader || before.is_nobody() {
            let text = format!("{name} was elected leader at slot {slot}");
            let draft = place.draft(self.story(leader), Kind::Elected, Grade::Plain, text);
            book.write(Draft { nodes: vec![name], ..draft });
            return;
        }
        let old = self.name(before);
        // One that an operator sends away, or that is absent already, has a story. Else this is how it begins.
        let cause = self.story(before).unwrap_or_else(|| {
            let text = format!("{old}, which led, was not heard");
            self.write(book, before, place.draft(None, Kind::Suspected, Grade::Warning, text))
        });
        let text = format!("{name} was elected leader in place of {old} at slot {slot}");
        let draft = place.draft(Some(cause), Kind::Elected, Grade::Plain, text);
        let event = book.write(Draft { nodes: vec![name, old.clone()], ..draft });
        self.stories.insert(old, event);
    }

    fn on_arrival(&mut self, place: Place, newcomer: &Newcomer, book: &Book) {
        let (node, name, slot) = (newcomer.node, newcomer.name.to_string(), place.slot);
        self.names.insert(node, name.clone());
        self.arriving.insert(node);
        let cause = self.story(node);
        let again = if cause.is_some() { " again" } else { "" };
        let text = format!("{name} arrived{again} at slot {slot}, as {node}");
        self.write(book, node, place.draft(cause, Kind::Arrived, Grade::Plain, text));
    }

    /// Why somebody is absent or departs, where that is not said yet.
    fn suspect(&mut self, place: Place, node: NodeId, why: Why, book: &Book) -> Option<u64> {
        let name = self.name(node);
        let known = self.story(node);
        let text = match why {
            Why::Silent => format!("{name} stopped answering"),
            Why::Dead => format!("the process of {name} is gone"),
            Why::Replaced => format!("a new process came under the name {name}"),
            Why::Unreachable => format!("{name} was never reached"),
            Why::AbsentTooLong => format!("{name} was absent for too long"),
            Why::LevelTooLow => format!("{name} came back with a version that is too old"),
            Why::Stopped => format!("{name} stopped in good order"),
            Why::Stalled => format!("the disk or a thread of {name} does not move"),
            // The operator's word is an event of its own.
            Why::Ordered if known.is_some() => return known,
            Why::Ordered => format!("an operator wanted {name} gone"),
        };
        let grade = match why {
            Why::Ordered | Why::Stopped | Why::Replaced => Grade::Plain,
            Why::Silent | Why::Dead | Why::Unreachable | Why::AbsentTooLong | Why::LevelTooLow | Why::Stalled => {
                Grade::Warning
            }
        };
        Some(self.write(book, node, place.draft(known, Kind::Suspected, grade, text)))
    }

    pub(super) fn on_edict(&mut self, place: Place, edict: &Edict, book: &Book) -> Option<Noted> {
        let slot = place.slot;
        match edict {
            Edict::Absent { node, why, .. } => {
                if !self.absent.insert(*node) {
                    return None;
                }
                let cause = self.suspect(place, *node, *why, book);
                Some(self.leave(place, *node, cause, book))
            }
            Edict::Present { node, .. } => {
                if !self.absent.remove(node) {
                    return None;
                }
                let text = format!("{} was heard again at slot {slot}", self.name(*node));
                let draft = place.draft(self.story(*node), Kind::Returned, Grade::Good, text);
                let event = self.write(book, *node, draft);
                self.close(*node);
                self.triggers(event);
                None
            }
            Edict::Restarted { node, incarnation, .. } => {
                let was_absent = self.absent.remove(node);
                let (name, life) = (self.name(*node), incarnation.life);
                let text = format!("{name} restarted with its data at slot {slot}, life {life}");
                let draft = place.draft(self.story(*node), Kind::Restarted, Grade::Good, text);
                let event = self.write(book, *node, draft);
                self.close(*node);
                self.triggers(event);
                // Nothing its last life was primary of is served as if nothing had happened.
                (!was_absent).then_some(Noted { class: Class::Removal, time: place.time, event: Some(event) })
            }
            // Shown as an alarm for as long as it is so.
            Edict::Skewed { .. } => None,
            Edict::Level(level) => {
                let text = format!("every node understands feature level {}", level.0);
                book.write(place.draft(None, Kind::Level, Grade::Plain, text));
                None
            }
        }
    }

    fn leave(&mut self, place: Place, node: NodeId, cause: Option<u64>, book: &Book) -> Noted {
        let text = format!("{} is absent as of slot {}", self.name(node), place.slot);
        let event = self.write(book, node, place.draft(cause, Kind::Absent, Grade::Warning, text));
        self.triggers(event);
        Noted { class: Class::Removal, time: place.time, event: Some(event) }
    }

    pub(super) fn on_request(&mut self, place: Place, from: NodeId, request: &Request, book: &Book) -> Option<Noted> {
        match request {
            Request::User(_) | Request::Broadcast(_) | Request::Answer { .. } | Request::Reached(_) => None,
            Request::Acclimated => {
                if self.arriving.remove(&from) {
                    let text = format!("{} is in step", self.name(from));
                    let draft = place.draft(self.story(from), Kind::InStep, Grade::Good, text);
                    let event = self.write(book, from, draft);
                    self.close(from);
                    self.triggers(event);
                }
                None
            }
            Request::Depart { node } => {
                self.order(place, *node, format!("an operator removes {}", self.name(*node)), book);
                None
            }
            Request::Pause => {
                if !self.absent.insert(from) {
                    return None;
                }
                let cause = self.suspect(place, from, Why::Stopped, book);
                Some(self.leave(place, from, cause, book))
            }
            Request::Operate(operation) => {
                self.on_operation(place, operation, book);
                None
            }
            Request::Reports(reports) => self.on_reports(place, from, reports, book),
        }
    }

    fn order(&mut self, place: Place, node: NodeId, text: String, book: &Book) {
        let event = self.write(book, node, place.draft(self.story(node), Kind::Operator, Grade::Plain, text));
        self.triggers(event);
    }

    fn on_operation(&mut self, place: Place, operation: &Operation, book: &Book) {
        match operation {
            Operation::Drain { node } => {
                self.order(place, *node, format!("an operator drains {}", self.name(*node)), book);
            }
            Operation::Undrain { node } => {
                self.order(place, *node, format!("an operator has {} stay after all", self.name(*node)), book);
                self.close(*node);
            }
            Operation::HandOver { node } => {
                self.order(place, *node, format!("{} is about to stop and hands over", self.name(*node)), book);
            }
            Operation::Split { bucket } => {
                let what = bucket.map_or_else(|| "every bucket".to_owned(), |bucket| format!("bucket {bucket}"));
                self.begin_with(place, Grade::Plain, format!("an operator halves {what}"), book);
            }
            Operation::Rebalance => {
                self.begin_with(place, Grade::Plain, "an operator has buckets levelled out".to_owned(), book);
            }
            Operation::Revive { bucket, from } => {
                let text = match from {
                    Some(node) => format!("an operator revives bucket {bucket} from the copy of {}", self.name(*node)),
                    None => format!("an operator gives up the data of bucket {bucket}"),
                };
                self.begin_with(place, Grade::Bad, text, book);
            }
        }
    }

    fn begin_with(&mut self, place: Place, grade: Grade, text: String, book: &Book) {
        let event = book.write(place.draft(None, Kind::Operator, grade, text));
        self.triggers(event);
    }

    /// Complaints and damage take somebody out of a bucket's set; the rest is for others to tell.
    fn on_reports(&mut self, place: Place, from: NodeId, reports: &[Report], book: &Book) -> Option<Noted> {
        let mut told = 0;
        let mut last = None;
        for report in reports {
            let (kind, about, text) = match report {
                Report::Complain { bucket, about, .. } => {
                    let (teller, about_name) = (self.name(from), self.name(*about));
                    let text = match *about == from {
                        true => format!("{teller} cannot go on with bucket {bucket}"),
                        false => format!("{teller} waits in vain for {about_name} in bucket {bucket}"),
                    };
                    (Kind::Complaint, *about, text)
                }
                Report::Damaged { bucket, .. } => {
                    let text = format!("the copy of bucket {bucket} on {} is damaged", self.name(from));
                    (Kind::Damaged, from, text)
                }
                Report::Ready { .. } | Report::Settled { .. } | Report::Divided { .. } | Report::Sought { .. } => {
                    continue;
                }
            };
            told += 1;
            if told > TOLD_MOST {
                continue;
            }
            let draft = place.draft(last.or(self.story(about)), kind, Grade::Warning, text);
            last = Some(book.write(Draft { nodes: vec![self.name(about)], buckets: 1, ..draft }));
        }
        if let (Some(event), true) = (last, told > TOLD_MOST) {
            book.revise(event, |event| {
                event.text += &format!(", and {} more like it", told - TOLD_MOST);
                event.buckets = told - TOLD_MOST + 1;
            });
        }
        let time = place.time;
        if let Some(event) = last {
            self.triggers(event);
            return Some(Noted { class: Class::Removal, time, event: last });
        }
        self.on_sought(place, reports, book);
        let divided = reports.iter().any(|report| matches!(report, Report::Divided { .. }));
        divided.then_some(Noted { class: Class::Order, time, event: None })
    }

    /// Where requests come in, since primaries go there.
    fn on_sought(&mut self, place: Place, reports: &[Report], book: &Book) {
        let mut sought: BTreeMap<NodeId, usize> = BTreeMap::new();
        for report in reports {
            if let Report::Sought { at, .. } = report {
                *sought.entry(*at).or_insert(0) += 1;
            }
        }
        for (at, buckets) in sought {
            let (whose, nodes) = match at.is_nobody() {
                true => ("all over again".to_owned(), Vec::new()),
                false => (self.name(at), vec![self.name(at)]),
            };
            let text = |buckets: usize| format!("requests for {} come in at {whose}", count(buckets, "bucket"));
            // Each primary says it of its own: told as one, as long as nothing else happens.
            let told = self.sought.filter(|told| told.at == at && self.trigger == Some(told.event));
            let buckets = buckets + told.map_or(0, |told| told.buckets);
            let event = match told {
                Some(told) => told.event,
                None => {
                    let draft = place.draft(None, Kind::Sought, Grade::Plain, text(buckets));
                    let event = book.write(Draft { nodes, buckets, ..draft });
                    self.triggers(event);
                    event
                }
            };
            book.revise(event, |event| (event.text, event.buckets) = (text(buckets), buckets));
            self.sought = Some(SoughtAt { at, event, buckets });
        }
    }

    fn list(&self, nodes: &[NodeId]) -> String {
        let names: Vec<String> = nodes.iter().map(|&node| self.name(node)).collect();
        names.join(", ")
    }
}
