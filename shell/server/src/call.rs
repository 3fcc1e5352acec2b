//! A request on its way into the core, and how its answer finds back.

use crate::home::ClientId;
use crate::inbox::Inbox;
use crate::latency::Protocol;
use atoll_node::shard::door::{Answer, Ask};
use atoll_types::HashSlot;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A request for a bucket. Its caller gets exactly one answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) protocol: Protocol,
    /// Requests of one connection to one bucket take effect in their order.
    pub(crate) connection: u64,
    pub(crate) slot: HashSlot,
    pub(crate) ask: Ask,
    pub(crate) caller: Caller,
}

#[derive(Debug)]
pub(crate) enum Caller {
    /// Somebody who waits for this answer alone.
    Once(oneshot::Sender<Answer>),
    /// A connection that a shard's thread serves; the number is its own name for this request.
    Client { thread: usize, client: ClientId, number: u64 },
    /// Somebody who waits for several answers, in whichever order they come.
    Mailbox(Arc<Mailbox>, u64),
}

/// Where the answers to several requests arrive, in any order.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    answers: Inbox<(u64, Answer)>,
}

impl Mailbox {
    pub(crate) fn new() -> Arc<Mailbox> {
        Arc::new(Mailbox::default())
    }

    /// From any thread.
    pub(crate) fn put(&self, number: u64, answer: Answer) {
        self.answers.push((number, answer));
    }

    /// Takes all there are into `batch`, which must be empty.
    pub(crate) fn take(&self, batch: &mut Vec<(u64, Answer)>) {
        self.answers.take(batch);
    }

    /// Returns once there is something to take.
    pub(crate) async fn filled(&self) {
        self.answers.filled().await;
    }
}
