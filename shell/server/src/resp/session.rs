//! What a connection remembers between requests, and which file handles which command.

use super::cluster;
use super::keys;
use super::parse::Arguments;
use super::plan::{Asker, Plan};
use super::range;
use super::reply::{Fault, Protocol, bytes};
use super::scan::{self, Rest};
use super::server;
use super::streams;
use super::strings;
use super::table::{self, Names, Server, Streams, Transaction as Step, Verb};
use super::tail;
use super::transaction::Transaction;
use crate::gateway::Gateway;
use crate::refused::Why;
use atoll_types::HashSlot;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) gateway: Gateway,
    /// The number of the connection: its requests to one bucket take effect in their order.
    pub(crate) number: u64,
    pub(crate) protocol: Protocol,
    pub(crate) name: Vec<u8>,
    /// Where the client is.
    pub(crate) from: String,
    /// The client has asked who serves what: it is sent there, not hopped.
    pub(crate) routed: bool,
    /// The last command.
    command: Option<&'static table::Entry>,
    transaction: Option<Transaction>,
    pub(crate) rest: Option<Rest>,
}

impl Session {
    pub(crate) fn new(gateway: Gateway, from: String) -> Session {
        Session {
            number: gateway.new_connection(),
            gateway,
            protocol: Protocol::Two,
            name: Vec::new(),
            from,
            routed: false,
            command: None,
            transaction: None,
            rest: None,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.protocol = Protocol::Two;
        self.name.clear();
        self.routed = false;
        self.transaction = None;
        self.rest = None;
    }

    fn asker(&self) -> Asker {
        Asker { gateway: self.gateway.clone(), connection: self.number }
    }

    pub(crate) fn plan(&mut self, arguments: Arguments<'_>) -> Plan {
        match self.try_plan(arguments) {
            Ok(plan) => plan,
            Err(fault) => {
                if !fault.0.starts_with("MOVED") && !fault.0.starts_with("EXECABORT") {
                    self.gateway.refused().count(Why::BadRequest);
                }
                Plan::Reply(bytes(self.protocol, |reply| reply.fault(&fault)))
            }
        }
    }

    fn try_plan(&mut self, arguments: Arguments<'_>) -> Result<Plan, Fault> {
        let entry = table::check(arguments, &mut self.command);
        if self.transaction.is_some() {
            return self.in_transaction(entry.map(|entry| entry.verb), arguments);
        }
        let plan = self.plan_of(entry?.verb, arguments)?;
        self.check_place(&plan)?;
        Ok(plan)
    }

    /// Sends a client that routes itself where it should have gone.
    fn check_place(&self, plan: &Plan) -> Result<(), Fault> {
        if !self.routed {
            return Ok(());
        }
        let slot = match plan {
            Plan::Ask(slot, ..) => Some(*slot),
            // What is in several slots is hopped: there is no one place for it.
            Plan::Fan(asks, _) => {
                let first = asks.first().map(|(slot, _)| *slot);
                first.filter(|first| asks.iter().all(|(slot, _)| slot == first))
            }
            Plan::Reply(_) | Plan::Last(_) | Plan::Late { .. } => None,
        };
        slot.map_or(Ok(()), |slot| self.check_slot(slot))
    }

    fn check_slot(&self, slot: HashSlot) -> Result<(), Fault> {
        if !self.routed {
            return Ok(());
        }
        cluster::moved(&self.gateway.board().routes(), slot).map_or(Ok(()), Err)
    }

    fn plan_of(&mut self, verb: Verb, arguments: Arguments<'_>) -> Result<Plan, Fault> {
        let most = self.gateway.settings().max_value;
        let key = arguments.get(1);
        match verb {
            Verb::Read(verb) => strings::look(verb, arguments),
            Verb::Write(verb) => strings::change(verb, arguments, most, self.protocol, || self.asker()),
            Verb::Names(Names::Del) => keys::delete(arguments.from(1)),
            Verb::Names(Names::Exists) => keys::exists(arguments.from(1)),
            Verb::Names(Names::Type) => keys::kind(key),
            Verb::Names(Names::Persist) => {
                self.check_slot(HashSlot::of(key))?;
                keys::persist(self.asker(), key, self.protocol)
            }
            Verb::Names(Names::Scan) => {
                let rest = self.rest.take();
                scan::plan(arguments, rest, self.protocol, self.asker())
            }
            Verb::Names(Names::Dbsize) => Ok(scan::size(self.protocol, self.asker())),
            Verb::Streams(Streams::Xlen) => streams::length(key),
            Verb::Streams(Streams::Xrange | Streams::Xrevrange) => {
                self.check_slot(HashSlot::of(key))?;
                let reverse = verb == Verb::Streams(Streams::Xrevrange);
                range::plan(arguments, reverse, self.protocol, self.asker())
            }
            Verb::Streams(Streams::Xread) => tail::plan(arguments, self.protocol, self.asker()),
            Verb::Streams(verb @ (Streams::Xadd | Streams::Xdel | Streams::Xtrim)) => {
                streams::batch(verb, arguments, most).unwrap_or(Err(Fault::SYNTAX)).map(streams::Batch::plan)
            }
            Verb::Transaction(Step::Multi) => {
                self.transaction = Some(Transaction::default());
                Ok(Plan::ok())
            }
            Verb::Transaction(Step::Exec) => Err(Fault::new("ERR EXEC without MULTI")),
            Verb::Transaction(Step::Discard) => Err(Fault::new("ERR DISCARD without MULTI")),
            Verb::Server(verb) => server::plan(verb, arguments, self),
        }
    }

    /// Between MULTI and EXEC.
    fn in_transaction(&mut self, verb: Result<Verb, Fault>, arguments: Arguments<'_>) -> Result<Plan, Fault> {
        let Some(mut transaction) = self.transaction.take() else { return Err(Fault::SYNTAX) };
        let most = self.gateway.settings().max_value;
        let queued = match verb {
            Ok(Verb::Transaction(Step::Exec)) => {
                let plan = transaction.execute(most, self.protocol)?;
                self.check_place(&plan)?;
                return Ok(plan);
            }
            Ok(Verb::Transaction(Step::Discard)) => return Ok(Plan::ok()),
            Ok(verb @ Verb::Server(Server::Quit | Server::Reset)) => return self.plan_of(verb, arguments),
            Ok(Verb::Transaction(Step::Multi)) => {
                // As everywhere: an error, but the transaction goes on.
                self.transaction = Some(transaction);
                return Err(Fault::new("ERR MULTI calls can not be nested"));
            }
            Ok(verb) => transaction.queue(verb, arguments, most, most + 64 * 1024),
            Err(fault) => Err(fault),
        };
        let queued = queued.and_then(|slot| self.check_slot(slot));
        if queued.is_err() {
            transaction.fail();
        }
        self.transaction = Some(transaction);
        queued?;
        Ok(Plan::Reply(bytes(self.protocol, |reply| reply.simple("QUEUED"))))
    }
}
