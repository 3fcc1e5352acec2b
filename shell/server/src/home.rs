//! What the tasks of one shard's thread share: the shard itself, and the clients whose connections the thread serves.
//!
//! ```text
//!   client ──requests──▶ core ◀──frames── peer     every task gives the core at once what it has read …
//!     ▲                   │
//!     └────one write──── turn ────one write──▶ peer     … and when all have had their go, the core works, once
//! ```
//!
//! Everything in here is touched by its own thread only, and by one task at a time: nothing is borrowed over an await.
//! Other threads put what they have into the inbox (`switch.rs`).

use crate::call::{Call, Caller};
use crate::lookout::Lookout;
use crate::shard::ShardThread;
use crate::switch::Switch;
use atoll_node::Envelope;
use atoll_node::shard::door::Answer;
use atoll_types::{Address, Time};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// A connection that is served by this thread. Called by the thread's turn.
pub(crate) trait Client {
    /// The answer to what it asked for under this number.
    fn answer(&mut self, number: u64, answer: Answer);

    /// All answers of this turn are there: writes what can be written.
    fn flush(&mut self);
}

/// Names a client of one thread, and no other that comes after it in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId {
    place: u32,
    life: u32,
}

#[derive(Default)]
struct Place {
    life: u32,
    client: Option<Rc<RefCell<dyn Client>>>,
    /// It has answers that are not written yet.
    answered: bool,
}

/// The clients of one thread.
#[derive(Default)]
pub(crate) struct Clients {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Places of those that have answers.
    answered: Vec<u32>,
}

impl Clients {
    fn enter(&mut self, client: Rc<RefCell<dyn Client>>) -> ClientId {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(Place::default());
                (self.places.len() - 1) as u32
            }
        };
        let held = &mut self.places[place as usize];
        held.client = Some(client);
        ClientId { place, life: held.life }
    }

    fn leave(&mut self, id: ClientId) {
        let place = &mut self.places[id.place as usize];
        if place.life == id.life && place.client.take().is_some() {
            place.life = place.life.wrapping_add(1);
            self.free.push(id.place);
        }
    }

    /// One that has gone misses nothing.
    pub(crate) fn answer(&mut self, id: ClientId, number: u64, answer: Answer) {
        let Some(place) = self.places.get_mut(id.place as usize).filter(|place| place.life == id.life) else { return };
        let Some(client) = &place.client else { return };
        client.borrow_mut().answer(number, answer);
        if !std::mem::replace(&mut place.answered, true) {
            self.answered.push(id.place);
        }
    }

    pub(crate) fn flush(&mut self) {
        for place in self.answered.drain(..) {
            let place = &mut self.places[place as usize];
            place.answered = false;
            if let Some(client) = &place.client {
                client.borrow_mut().flush();
            }
        }
    }
}

/// Rung and waited for on one thread.
#[derive(Default)]
struct Bell {
    rung: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Bell {
    fn ring(&self) {
        if !self.rung.replace(true)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    /// Whether it was rung since it was last asked. If not, whoever asks is woken by the next ring.
    fn is_rung(&self, asker: &Waker) -> bool {
        let waker = &mut *self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(asker)) {
            *waker = Some(asker.clone());
        }
        self.rung.replace(false)
    }
}

pub(crate) struct Home {
    index: usize,
    switch: Arc<Switch>,
    thread: RefCell<ShardThread>,
    clients: RefCell<Clients>,
    bell: Bell,
    /// How long this thread looks for more before it sleeps.
    busy_poll: Duration,
    /// Whoever reads borrows it, and mostly gives it back before anybody else reads: one that waits for its client
    /// holds no memory, and none is taken for each request.
    buffer: Cell<Vec<u8>>,
}

/// A larger buffer is not kept for others.
const BUFFER_MOST: usize = 64 << 10;

impl Home {
    pub(crate) fn new(index: usize, switch: Arc<Switch>, thread: ShardThread, busy_poll: Duration) -> Home {
        let (thread, clients) = (RefCell::new(thread), RefCell::default());
        Home { index, switch, thread, clients, bell: Bell::default(), busy_poll, buffer: Cell::default() }
    }

    /// Serves a connection until `poll`, which is asked whenever its task is woken, says that it is over.
    pub(crate) async fn serve<C, E>(
        self: &Rc<Home>,
        client: C,
        mut poll: impl FnMut(&mut C, &Guest, &mut Context<'_>) -> Poll<E>,
    ) -> (C, E)
    where
        C: Client + 'static,
    {
        let client = Rc::new(RefCell::new(client));
        let guest = Guest { home: self.clone(), id: self.clients.borrow_mut().enter(client.clone()) };
        let end = poll_fn(|context| poll(&mut client.borrow_mut(), &guest, context)).await;
        drop(guest);
        let client = Rc::into_inner(client).expect("nobody knows a client that has left");
        (client.into_inner(), end)
    }

    /// A frame of a peer, and the memory it takes.
    pub(crate) fn deliver(&self, from: &Address, envelope: Box<Envelope>, bytes: usize) {
        self.switch.divide(from, envelope, bytes, |shard, envelope| {
            if shard != self.index {
                return Some(envelope);
            }
            self.thread.borrow_mut().take_message(from, envelope);
            self.bell.ring();
            None
        });
    }

    /// For as long as the thread lives.
    pub(crate) async fn run(&self) {
        let (mut batch, inbox) = (Vec::new(), self.switch.shards[self.index].clone());
        let clock = *self.thread.borrow().clock();
        let mut alarm = pin!(sleep_until(Instant::from_std(clock.instant(Time::NEVER))));
        let mut alarm_at = Time::NEVER;
        let mut lookout = Lookout::new(self.busy_poll);
        loop {
            let waited = inbox.take(&mut batch);
            let turn = self.thread.borrow_mut().turn(&mut batch, waited, &mut self.clients.borrow_mut());
            // An alarm that is too early costs one idle turn; setting it anew for every write would cost more.
            if turn.wake < alarm_at || alarm_at <= turn.begun {
                alarm_at = turn.wake;
                alarm.as_mut().reset(Instant::from_std(clock.instant(alarm_at)));
            }
            let mut has_more = |context: &mut Context<'_>| {
                // All are asked: each has to know whom to wake.
                let rung = self.bell.is_rung(context.waker());
                let filled = inbox.poll_filled(context).is_ready();
                let due = alarm.as_mut().poll(context).is_ready();
                rung || filled || due
            };
            if !lookout.finds(turn.under_way, &mut has_more).await {
                poll_fn(|context| if has_more(context) { Poll::Ready(()) } else { Poll::Pending }).await;
            }
        }
    }
}

/// A client's way into the core. When it is dropped the client is gone, and nobody answers it any more.
pub(crate) struct Guest {
    home: Rc<Home>,
    id: ClientId,
}

impl Guest {
    /// Whom an answer under this number is for.
    pub(crate) fn caller(&self, number: u64) -> Caller {
        Caller::Client { thread: self.home.index, client: self.id, number }
    }

    /// An empty buffer, perhaps with room.
    pub(crate) fn borrow_buffer(&self) -> Vec<u8> {
        self.home.buffer.take()
    }

    /// What is in it is done with.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_MOST {
            buffer.clear();
            self.home.buffer.set(buffer);
        }
    }

    /// Gives the core a request, as of now.
    pub(crate) fn call(&self, now: Time, call: Call) {
        let Home { index, switch, thread, bell, .. } = &*self.home;
        if switch.shard_of(call.slot) == *index {
            thread.borrow_mut().take_call(now, call);
            bell.ring();
        } else {
            switch.call(call);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.home.clients.borrow_mut().leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard {
        answers: Vec<u64>,
        flushed: usize,
    }

    impl Client for Heard {
        fn answer(&mut self, number: u64, _: Answer) {
            self.answers.push(number);
        }

        fn flush(&mut self) {
            self.flushed += 1;
        }
    }

    #[test]
    fn who_comes_after_a_client_is_not_given_its_answers() {
        let mut clients = Clients::default();
        let (first, second) = (Rc::<RefCell<Heard>>::default(), Rc::<RefCell<Heard>>::default());
        let gone = clients.enter(first.clone());
        clients.answer(gone, 1, Answer::Unknown);
        clients.leave(gone);
        clients.leave(gone);
        let here = clients.enter(second.clone());
        assert_eq!(gone.place, here.place);
        clients.answer(gone, 2, Answer::Unknown);
        clients.answer(here, 3, Answer::Unknown);
        clients.answer(here, 4, Answer::Unknown);
        clients.flush();
        clients.flush();
        assert_eq!((&first.borrow().answers[..], first.borrow().flushed), (&[1][..], 0));
        assert_eq!((&second.borrow().answers[..], second.borrow().flushed), (&[3, 4][..], 1));
    }
}
