//! A thread that owns one shard of the core: takes all that waits for it, lets the core work, sends once.

use crate::call::{Call, Caller};
use crate::clock::Clock;
use crate::cluster::ToCluster;
use crate::inbox::Inbox;
use crate::peers::Links;
use crate::status::CopyStatus;
use crate::switch::Switch;
use atoll_node::shard::door::{Answer, Directive, Request, RequestId, ShardInput, ShardOutput};
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Envelope, Input, Message, Shard};
use atoll_replica::message::Body;
use atoll_types::{Address, Time};
use std::pin::pin;
use std::sync::Arc;
use tokio::select;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

#[derive(Debug)]
pub(crate) enum ToShard {
    Directive(Directive),
    Message {
        from: Address,
        envelope: Envelope,
    },
    Call(Call),
    /// What is here, for people.
    Look(oneshot::Sender<Vec<CopyStatus>>),
}

pub(crate) struct ShardThread {
    pub(crate) core: Shard,
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox<ToShard>>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) links: Links,
    /// For what is large and not urgent.
    pub(crate) bulk: Links,
    pub(crate) callers: Callers,
    pub(crate) wake: Time,
}

impl ShardThread {
    /// For as long as the thread lives.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::new();
        let mut alarm = pin!(sleep_until(Instant::from_std(self.clock.instant(Time::NEVER))));
        let mut alarm_at = Time::NEVER;
        let inbox = self.inbox.clone();
        loop {
            inbox.take(&mut batch);
            let now = self.clock.now();
            batch.drain(..).for_each(|item| self.give(now, item));
            if self.wake <= now {
                self.wake = Time::NEVER;
                self.core.handle(now, ShardInput::Wake);
            }
            self.carry_out();
            self.links.flush();
            self.bulk.flush();
            // An alarm that is too early costs one idle round; setting it anew for every write would cost more.
            if self.wake < alarm_at || alarm_at <= now {
                alarm_at = self.wake;
                alarm.as_mut().reset(Instant::from_std(self.clock.instant(alarm_at)));
            }
            select! {
                () = inbox.filled() => {}
                () = &mut alarm => {}
            }
        }
    }

    fn give(&mut self, now: Time, item: ToShard) {
        match item {
            ToShard::Directive(directive) => self.core.handle(now, ShardInput::Directive(directive)),
            ToShard::Message { from, envelope } => self.core.handle(now, ShardInput::Message { from, envelope }),
            ToShard::Call(call) => {
                let id = self.callers.keep(call.caller);
                let request = Request { connection: call.connection, slot: call.slot, ask: call.ask };
                self.core.handle(now, ShardInput::Request { id, request });
            }
            ToShard::Look(asker) => drop(asker.send(self.look())),
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.core.poll() {
            match output {
                ShardOutput::Send { to, envelope } => self.send(&to, envelope),
                ShardOutput::Answer { id, answer } => self.callers.answer(id, answer),
                ShardOutput::WakeAt(time) => self.wake = time,
                ShardOutput::Reports(reports) => self.switch.cluster.push(ToCluster::Input(Input::Reports(reports))),
                // Nothing outlives this process, so there is nothing to wait for.
                ShardOutput::Persist { seq, .. } => self.core.handle(self.clock.now(), ShardInput::Persisted(seq)),
                ShardOutput::Event(_) => {}
            }
        }
    }

    /// Pieces of snapshots go their own way: whatever else there is must not wait behind them.
    fn send(&mut self, to: &Address, mut envelope: Envelope) {
        if let Message::Shard(ShardMessage::Replicas(messages)) = &mut envelope.message
            && messages.iter().any(is_bulky)
        {
            let (bulky, rest) = std::mem::take(messages).into_iter().partition(is_bulky);
            *messages = rest;
            let others = !messages.is_empty();
            let message = Message::Shard(ShardMessage::Replicas(bulky));
            self.bulk.send(to, &Envelope { message, ..envelope.clone() });
            if !others {
                return;
            }
        }
        self.links.send(to, &envelope);
    }

    fn look(&self) -> Vec<CopyStatus> {
        let replicas = self.core.replicas().iter();
        let look = replicas.map(|(&bucket, replica)| CopyStatus {
            bucket: bucket.0,
            serving: replica.is_serving(),
            offset: replica.committed().0,
            keys: replica.copy().machine.count() as u64,
            bytes: replica.bytes() as u64,
            sessions: replica.copy().sessions.len() as u64,
        });
        look.collect()
    }
}

fn is_bulky(message: &atoll_replica::Message) -> bool {
    matches!(message.body, Body::Piece(_))
}

/// Who waits for which answer. Numbers are given again once they are free.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    waiting: Vec<Option<Caller>>,
    free: Vec<usize>,
}

impl Callers {
    fn keep(&mut self, caller: Caller) -> RequestId {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.waiting.push(None);
                self.waiting.len() - 1
            }
        };
        self.waiting[place] = Some(caller);
        RequestId(place as u64)
    }

    fn answer(&mut self, id: RequestId, answer: Answer) {
        let place = id.0 as usize;
        if let Some(caller) = self.waiting.get_mut(place).and_then(Option::take) {
            self.free.push(place);
            caller.answer(answer);
        }
    }
}
