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

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let place = self.place(ticket)?;
        self.places[(ticket.0 - self.first) as usize] = GONE;
        self.free.push(place as u32);
        while self.places.front() == Some(&GONE) {
            self.places.pop_front();
            self.first += 1;
        }
        self.held[place].take()
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
