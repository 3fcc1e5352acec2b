//! A request on its way into the core, and how its answer finds back.

use crate::inbox::Inbox;
use crate::latency::Protocol;
use atoll_node::shard::door::{Answer, Ask};
use atoll_types::HashSlot;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A request for a bucket. Its caller gets exactly one answer.
#[derive(Debug)]
pub struct Call {
    pub protocol: Protocol,
    /// Requests of one connection to one bucket take effect in their order.
    pub connection: u64,
    pub slot: HashSlot,
    pub ask: Ask,
    pub caller: Caller,
}

#[derive(Debug)]
pub enum Caller {
    /// Somebody who waits for this answer alone.
    Once(oneshot::Sender<Answer>),
    /// A connection with many requests under way; the number is its own name for this one.
    Mailbox(Arc<Mailbox>, u64),
}

impl Caller {
    /// One who is gone misses nothing.
    pub(crate) fn answer(self, answer: Answer) {
        match self {
            Caller::Once(caller) => drop(caller.send(answer)),
            Caller::Mailbox(mailbox, number) => mailbox.answers.push((number, answer)),
        }
    }
}

/// Where the answers to one connection's requests arrive, in any order.
#[derive(Debug, Default)]
pub struct Mailbox {
    answers: Inbox<(u64, Answer)>,
}

impl Mailbox {
    pub fn new() -> Arc<Mailbox> {
        Arc::new(Mailbox::default())
    }

    /// Takes all there are into `batch`, which must be empty.
    pub fn take(&self, batch: &mut Vec<(u64, Answer)>) {
        self.answers.take(batch);
    }

    /// Returns once there is something to take.
    pub async fn filled(&self) {
        self.answers.filled().await;
    }
}
