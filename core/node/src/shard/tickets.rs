//! Whatever waits, by its ticket.
//!
//! ```text
//!   first                          first + places.len()
//!     │ 7 │ 2 │ gone │ 5 │ gone │ 0 │      a ticket's number finds its place …
//!
//!     0   1   2   3   4   5   6   7        … and the place what waits there
//! ```
//! Tickets are numbers that go up, and every request may wait for the same time: so the order of tickets is that of the
//! deadlines, and whoever waits first is due first. One that waits long costs those after it four bytes each, no more.
//!
//! Invariant (`check`): the first ticket waits still; deadlines do not go down.

use super::lane::Waiting;
use atoll_replica::Ticket;
use std::collections::VecDeque;

const GONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Tickets {
    /// The number of the first ticket in `places`.
    first: u64,
    places: VecDeque<u32>,
    held: Vec<Option<Waiting>>,
    /// Places in `held` where nothing is.
    free: Vec<u32>,
}

impl Tickets {
    pub(crate) fn len(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// Gives it the next ticket.
    pub(crate) fn insert(&mut self, waiting: Waiting) -> Ticket {
        let ticket = Ticket(self.first + self.places.len() as u64);
        let place = match self.free.pop() {
            Some(place) => {
                self.held[place as usize] = Some(waiting);
                place
            }
            None => {
                self.held.push(Some(waiting));
                (self.held.len() - 1) as u32
            }
        };
        self.places.push_back(place);
        ticket
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        let index = ticket.0.checked_sub(self.first)?;
        self.places.get(index as usize).filter(|place| **place != GONE).map(|place| *place as usize)
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Waiting> {
        self.held[self.place(ticket)?].as_ref()
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiting> {
        let place = self.place(ticket)?;
        self.held[place].as_mut()
    }

    /// It waits no longer; tells what `look` sees of it.
    pub(crate) fn remove<T>(&mut self, ticket: Ticket, look: impl FnOnce(&Waiting) -> T) -> Option<T> {
        let place = self.place(ticket)?;
        self.places[(ticket.0 - self.first) as usize] = GONE;
        self.free.push(place as u32);
        while self.places.front() == Some(&GONE) {
            self.places.pop_front();
            self.first += 1;
        }
        let seen = self.held[place].as_ref().map(look);
        self.held[place] = None;
        seen
    }

    /// All, in the order of their tickets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &Waiting)> {
        self.from(self.first)
    }

    /// Those with later tickets, in order.
    pub(crate) fn after(&self, ticket: Ticket) -> impl Iterator<Item = (Ticket, &Waiting)> {
        self.from(self.first.max(ticket.0 + 1))
    }

    fn from(&self, first: u64) -> impl Iterator<Item = (Ticket, &Waiting)> {
        let numbers = first..self.first + self.places.len() as u64;
        numbers.filter_map(|number| Some((Ticket(number), self.get(Ticket(number))?)))
    }

    /// Whoever is due first.
    pub(crate) fn first(&self) -> Option<(Ticket, &Waiting)> {
        let ticket = Ticket(self.first);
        self.get(ticket).map(|waiting| (ticket, waiting))
    }

    pub(crate) fn check(&self) {
        assert!(self.places.front() != Some(&GONE), "the first ticket waits still");
        let deadlines = self.iter().map(|(_, waiting)| waiting.deadline);
        assert!(deadlines.is_sorted(), "deadlines do not go down");
        assert_eq!(self.iter().count(), self.len(), "whatever waits has a ticket");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::door::{Ask, Request, RequestId};
    use crate::shard::lane::{Caller, LaneKey, Where};
    use atoll_types::{HashSlot, NodeId, Payload, Principal, Time};

    fn waiting(deadline: u64) -> Waiting {
        Waiting {
            caller: Caller::Here(RequestId(deadline)),
            request: Request {
                connection: 1,
                slot: HashSlot(1),
                principal: Principal::ANONYMOUS,
                ask: Ask::Read { query: Payload::default() },
            },
            lane: LaneKey::new(0, NodeId::NOBODY, 0, 1),
            lane_place: 0,
            to_primary: false,
            hops: 0,
            place: Where::Queued,
            tainted: false,
            deadline: Time(deadline),
        }
    }

    #[test]
    fn one_that_waits_long_stays_first_and_places_are_used_again() {
        let mut tickets = Tickets::default();
        let long = tickets.insert(waiting(0));
        for deadline in 1..1000 {
            let ticket = tickets.insert(waiting(deadline));
            assert_eq!(tickets.remove(ticket, |waiting| waiting.deadline), Some(Time(deadline)));
            assert!(tickets.remove(ticket, |_| ()).is_none(), "a ticket counts once");
            tickets.check();
        }
        assert_eq!((tickets.len(), tickets.held.len()), (1, 2));
        assert_eq!(tickets.first().map(|(ticket, _)| ticket), Some(long));
        let last = tickets.insert(waiting(1000));
        assert!(tickets.after(long).map(|(ticket, _)| ticket).eq([last]));
        assert!(tickets.remove(long, |_| ()).is_some());
        tickets.check();
        assert_eq!((tickets.first().map(|(ticket, _)| ticket), tickets.places.len()), (Some(last), 1));
        assert!(tickets.get(long).is_none() && tickets.get(last).is_some());
    }
}
