//! What is to be done for one request. Commands only plan; the connection does.
//!
//! ```text
//!   arguments ─▶ execute ─▶ Plan ─┬ Reply  known already
//!                                 ├ Ask    one request to the core: the hot path
//!                                 ├ Fan    several at once
//!                                 └ Late   several in turn: what comes next on the connection waits for it
//! ```

use super::expect::{Expect, Gather, refusal};
use super::reply::Fault;
use super::scan::Rest;
use crate::call::{Call, Caller};
use crate::gateway::Gateway;
use atoll_node::shard::door::{Answer, Ask};
use atoll_types::{HashSlot, Payload, Position};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use tokio::sync::oneshot;

pub(crate) enum Plan {
    Reply(Vec<u8>),
    /// The last reply: the connection ends after it.
    Last(Vec<u8>),
    Ask(HashSlot, Ask, Expect),
    Fan(Vec<(HashSlot, Ask)>, Gather),
    Late {
        late: Late,
        blocks: bool,
    },
}

/// Nothing comes of one whose connection ends: what it has written stays, the rest is not done.
pub(crate) type Late = Pin<Box<dyn Future<Output = Said>>>;

/// What a late command says, and what the connection keeps of it.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) reply: Vec<u8>,
    pub(crate) rest: Option<Rest>,
}

impl Plan {
    pub(crate) fn ok() -> Plan {
        Plan::Reply(b"+OK\r\n".to_vec())
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plan::Reply(_) => "Reply",
            Plan::Last(_) => "Last",
            Plan::Ask(..) => "Ask",
            Plan::Fan(..) => "Fan",
            Plan::Late { .. } => "Late",
        })
    }
}

pub(crate) fn read(query: Payload) -> Ask {
    Ask::Read { query }
}

pub(crate) fn write(command: Payload) -> Ask {
    Ask::Write { usage: None, command }
}

/// Asks for late commands, in order with everything else on their connection.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) gateway: Gateway,
    pub(crate) connection: u64,
}

/// An answer that was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) payload: Payload,
    pub(crate) position: Position,
}

impl Asker {
    /// Under way at once; to be awaited in any order.
    pub(crate) fn send(&self, slot: HashSlot, ask: Ask) -> oneshot::Receiver<Answer> {
        let (caller, answer) = oneshot::channel();
        let (protocol, caller) = (crate::Protocol::Resp, Caller::Once(caller));
        let call = Call { protocol, connection: self.connection, slot, ask, caller };
        self.gateway.call(call);
        answer
    }

    pub(crate) async fn given(answer: oneshot::Receiver<Answer>) -> Result<Given, Fault> {
        // Only a node that stops drops a caller.
        match answer.await.unwrap_or(Answer::Unknown) {
            Answer::Done { payload, position, .. } => Ok(Given { payload, position }),
            refused @ (Answer::NotApplied(_) | Answer::Unknown) => Err(refusal(&refused)),
        }
    }

    pub(crate) async fn ask(&self, slot: HashSlot, ask: Ask) -> Result<Given, Fault> {
        Asker::given(self.send(slot, ask)).await
    }
}
