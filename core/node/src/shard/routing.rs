//! Where a request goes: to the copy here, to another node, or nowhere for now; and what becomes of it.
//!
//! Every request is answered exactly once: done, not applied with a reason, or unknown.

use super::Shard;
use super::door::{Answer, Ask, Reason, Request, RequestId, ShardOutput};
use super::lane::{Caller, LaneKey, Route, Waiting, Where};
use atoll_replica::{Outcome, Refusal, Replica, Ticket};
use atoll_types::{BucketId, Bug, Duty, NodeId, Offset, Payload, Position, planted};

/// A request is passed on at most this often.
pub(super) const HOPS_MOST: u8 = 3;
/// Requests in one hop.
pub(super) const HOP_REQUESTS_MOST: usize = 256;

impl Shard {
    pub(super) fn on_request(&mut self, id: RequestId, request: Request) {
        self.admit(Caller::Here(id), request, 0);
    }

    /// Takes a request in, or turns it away at once.
    pub(super) fn admit(&mut self, caller: Caller, request: Request, hops: u8) {
        let served_here = match self.may_enter(&request) {
            Ok(served_here) => served_here,
            Err(reason) => {
                if reason == Reason::Busy {
                    self.turned_away += 1;
                    if planted(Bug::FullBacklogSilent) {
                        return;
                    }
                }
                return self.tell(caller, Answer::NotApplied(reason));
            }
        };
        if let Some(answer) = self.look_here(&request) {
            return self.tell(caller, answer);
        }
        let (origin, shard) = match caller {
            Caller::Here(_) => (NodeId::NOBODY, 0),
            Caller::Hop { origin, shard, .. } => (origin, shard),
        };
        let root = self.root(request.slot);
        let lane = LaneKey::new(root, origin, shard, request.connection);
        let deadline = self.now + self.config.timing.request;
        let (lane_place, place, to_primary, tainted) = (self.lanes.lanes.place(lane), Where::Queued, false, false);
        let mut waiting = Waiting { caller, request, lane, lane_place, to_primary, hops, place, tainted, deadline };
        if let Some(bucket) = served_here {
            // Straight to the copy, if nobody waits who came before. Not to be queued saves most of a queue's work.
            if self.lanes.queued(root) == 0 && self.lanes.lanes.at(lane_place).is_open(Route::Here) {
                waiting.place = Where::Local;
                let ticket = self.lanes.enter(waiting);
                if !self.hand_over(ticket, bucket) {
                    self.back(ticket, false);
                }
                return;
            }
        }
        self.lanes.enqueue(waiting);
        self.pump.push(lane);
    }

    /// May this request wait here? Tells as well in which bucket it can be served here, if it can.
    fn may_enter(&self, request: &Request) -> Result<Option<BucketId>, Reason> {
        let Some((bucket, duty)) = self.duty_of(request.slot).filter(|_| self.signature.is_some()) else {
            return Err(Reason::NoTable);
        };
        if duty.lost {
            return Err(Reason::Lost);
        }
        let bytes = match &request.ask {
            Ask::Write { command, .. } => command.len(),
            Ask::Read { query } | Ask::Stale { query, .. } => query.len(),
        };
        if bytes > self.config.limits.write_bytes {
            return Err(Reason::TooLarge);
        }
        if self.lanes.queued(self.root(request.slot)) >= self.config.limits.backlog {
            return Err(Reason::Busy);
        }
        Ok(match (&request.ask, self.route(bucket, duty)) {
            // A read of a position may have to wait for that, on the way of all that wait.
            (Ask::Stale { .. }, _) | (_, Route::Nowhere) | (Ask::Write { .. }, Route::To(_)) => None,
            (Ask::Write { .. } | Ask::Read { .. }, Route::Here) => Some(bucket),
            (Ask::Read { .. }, Route::To(_)) => self.can_read_beside(bucket).then_some(bucket),
        })
    }

    /// Can the copy here answer a read, although another node is primary?
    fn can_read_beside(&self, bucket: BucketId) -> bool {
        self.replicas.get(&bucket).is_some_and(|replica| replica.may_read_beside(&self.sink))
    }

    /// A stale read that the copy here can answer.
    fn look_here(&self, request: &Request) -> Option<Answer> {
        let Ask::Stale { query, after } = &request.ask else { return None };
        let (bucket, _) = self.duty_of(request.slot)?;
        let replica = self.replicas.get(&bucket).filter(|replica| replica.is_following())?;
        // A primary that was deposed without knowing still tells its backup what it has: then the table is old.
        let current = if planted(Bug::StaleBehindDeposed) { self.now } else { self.current };
        let fresh = replica.fresh().min(current) + self.config.timing.max_stale >= self.now;
        let reached = after.is_none_or(|after| replica.copy().applied.offset >= after.mark.offset);
        (fresh && reached).then(|| {
            let (mark, payload) = replica.look(query);
            Answer::Done { payload, position: Position { bucket, mark }, duplicate: false }
        })
    }

    fn route(&self, bucket: BucketId, duty: &Duty) -> Route {
        let primary = duty.appointment.primary;
        if primary.is_nobody() || duty.lost {
            Route::Nowhere
        } else if primary != self.me() {
            Route::To(primary)
        } else if self.replicas.get(&bucket).is_some_and(Replica::is_serving) {
            Route::Here
        } else {
            Route::Nowhere
        }
    }

    /// Where it goes now, and which bucket it is for.
    fn route_of(&self, ticket: Ticket) -> (Route, BucketId) {
        let nowhere = (Route::Nowhere, BucketId::default());
        let Some(waiting) = self.lanes.waiting.get(ticket) else { return nowhere };
        let Some((bucket, duty)) = self.duty_of(waiting.request.slot) else { return nowhere };
        let route = self.route(bucket, duty);
        let is_read = matches!(waiting.request.ask, Ask::Read { .. }) && !waiting.to_primary;
        // With a write of its lane it goes along: on another way each would have to wait for the other to return.
        let is_alone = self.lanes.lanes.at(waiting.lane_place).writes == 0;
        let beside = is_read && is_alone && matches!(route, Route::To(_)) && self.can_read_beside(bucket);
        (if beside { Route::Here } else { route }, bucket)
    }

    /// Sends on what waits in this lane, in order, as far as it can go now.
    pub(super) fn pump_lane(&mut self, key: LaneKey) {
        loop {
            let Some(lane) = self.lanes.lanes.get(key) else { return };
            let Some(&ticket) = lane.queue.front() else { return };
            let (route, bucket) = self.route_of(ticket);
            // What went another way comes back first: it must not be overtaken. Of hops one is under way at a time,
            // since two may overtake each other.
            let blocked = lane.under_way > 0 && (lane.route != route || route != Route::Here);
            if blocked && !planted(Bug::LaneOvertakes) {
                return;
            }
            let goes_on = match route {
                Route::Nowhere => return,
                Route::Here => self.give_to_replica(ticket, bucket),
                Route::To(node) => self.hop_on(key, node),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Tells whether the lane may go on: this one was taken, and others are in the queue.
    fn give_to_replica(&mut self, ticket: Ticket, bucket: BucketId) -> bool {
        self.hand_over(ticket, bucket) && self.lanes.depart(ticket, Route::Here, Where::Local)
    }

    /// Tells whether the copy here took it.
    fn hand_over(&mut self, ticket: Ticket, bucket: BucketId) -> bool {
        let Some(waiting) = self.lanes.waiting.get(ticket) else { return false };
        let Some(replica) = self.replicas.get_mut(&bucket) else { return false };
        let slot = waiting.request.slot;
        let waited = waiting.deadline < self.now + self.config.timing.request;
        let (now, sink) = (self.now, &mut self.sink);
        let taken = match &waiting.request.ask {
            Ask::Write { usage, command } => {
                if planted(Bug::BacklogTwice) && waited {
                    replica.write(now, sink, ticket, slot, *usage, command.as_slice());
                }
                replica.write(now, sink, ticket, slot, *usage, command.as_slice())
            }
            Ask::Read { query } => replica.read(now, sink, ticket, query.clone()),
            Ask::Stale { query, after } => {
                // The primary may have been replaced without knowing: it asks its members, as for any other read.
                let applied = replica.copy().applied.offset;
                if after.is_some_and(|after| applied < after.mark.offset) {
                    self.parked.entry(bucket).or_default().push(ticket);
                    return true;
                }
                replica.read(now, sink, ticket, query.clone())
            }
        };
        // A read that waits for others to vouch leads to nothing here.
        let caller = waiting.caller;
        if taken && (waiting.is_write() || replica.is_stirred()) {
            self.dirty.push(bucket);
        }
        if taken {
            self.note_request(bucket, caller);
        }
        taken
    }

    /// The log of this bucket may have reached what reads wait for; or it is no longer for this node to say.
    pub(super) fn unpark(&mut self, bucket: BucketId) {
        let Some(tickets) = self.parked.remove(&bucket) else { return };
        let mut still = Vec::new();
        for ticket in tickets {
            // Whoever waited too long was told so.
            let Some(waiting) = self.lanes.waiting.get(ticket) else { continue };
            let Ask::Stale { query, after } = &waiting.request.ask else { continue };
            let (query, here) = (query.clone(), self.route_of(ticket) == (Route::Here, bucket));
            let offset = after.map_or(Offset::default(), |after| after.mark.offset);
            let Some(replica) = self.replicas.get_mut(&bucket).filter(|_| here) else {
                self.back(ticket, false);
                continue;
            };
            if replica.copy().applied.offset < offset && !planted(Bug::WaitingReadEarly) {
                still.push(ticket);
            } else if replica.read(self.now, &mut self.sink, ticket, query) {
                self.dirty.push(bucket);
            } else {
                self.back(ticket, false);
            }
        }
        if !still.is_empty() {
            self.parked.insert(bucket, still);
        }
    }

    /// After a change of the table: what waits may have to wait elsewhere.
    pub(super) fn unpark_all(&mut self) {
        for bucket in self.parked.keys().copied().collect::<Vec<_>>() {
            self.unpark(bucket);
        }
    }

    /// Passes on what this lane has for that node, all that is there at once.
    fn hop_on(&mut self, key: LaneKey, node: NodeId) -> bool {
        let Some(lane) = self.lanes.lanes.get(key) else { return false };
        let mut tickets = Vec::new();
        let mut exhausted = Vec::new();
        let mut bytes = 0;
        for &ticket in lane.queue.iter().take(HOP_REQUESTS_MOST) {
            let Some(waiting) = self.lanes.waiting.get(ticket) else { break };
            if self.route_of(ticket).0 != Route::To(node) || bytes > self.config.limits.frame_bytes {
                break;
            }
            if waiting.hops >= HOPS_MOST {
                exhausted.push(ticket);
                continue;
            }
            bytes += match &waiting.request.ask {
                Ask::Write { command, .. } => command.len(),
                Ask::Read { query } | Ask::Stale { query, .. } => query.len(),
            };
            tickets.push(ticket);
        }
        let none = exhausted.is_empty();
        exhausted.into_iter().for_each(|ticket| self.give_up(ticket, Reason::TooManyHops));
        if tickets.is_empty() {
            return !none;
        }
        self.join_hop(key, node, &tickets, bytes)
    }

    /// What a replica says of a request.
    pub(super) fn on_outcome(&mut self, ticket: Ticket, outcome: Outcome) {
        match outcome {
            Outcome::Done { position, payload, duplicate } => {
                self.answer(ticket, Answer::Done { payload, position, duplicate });
            }
            Outcome::Refused(refusal) => {
                let answer = self.refused(ticket, refusal);
                self.answer(ticket, answer);
            }
            Outcome::Full => self.answer(ticket, Answer::NotApplied(Reason::OutOfMemory)),
            Outcome::Cut => self.back(ticket, false),
            Outcome::Moved => {
                if let Some(waiting) = self.lanes.waiting.get_mut(ticket) {
                    waiting.to_primary = true;
                }
                self.back(ticket, false);
            }
            Outcome::Unknown => self.on_fate_unknown(ticket),
        }
    }

    fn refused(&self, ticket: Ticket, refusal: Refusal) -> Answer {
        let reason = match refusal {
            Refusal::AnswerGone { mark } => {
                // It was applied; what it answered then was too long to be kept.
                let slot = self.lanes.waiting.get(ticket).map(|waiting| waiting.request.slot);
                let bucket = slot.and_then(|slot| self.duty_of(slot)).map(|(bucket, _)| bucket).unwrap_or_default();
                let position = Position { bucket, mark };
                return Answer::Done { payload: Payload::default(), position, duplicate: true };
            }
            Refusal::Expired => Reason::SessionExpired,
            Refusal::BelowFloor => Reason::BelowFloor,
            Refusal::BeyondWindow { .. } => Reason::BeyondWindow,
            Refusal::OtherSlot | Refusal::BadCounter | Refusal::OpenedAhead => Reason::BadSession,
        };
        Answer::NotApplied(reason)
    }

    /// Sent on, and nobody can say what became of it. Repeated only where that does no harm.
    pub(super) fn on_fate_unknown(&mut self, ticket: Ticket) {
        let Some(waiting) = self.lanes.waiting.get(ticket) else { return };
        let repeatable = match &waiting.request.ask {
            Ask::Write { usage, .. } => usage.is_some() || planted(Bug::UnknownRepeated),
            Ask::Read { .. } | Ask::Stale { .. } => true,
        };
        let is_write = waiting.is_write();
        if repeatable { self.back(ticket, is_write) } else { self.answer(ticket, Answer::Unknown) }
    }

    fn back(&mut self, ticket: Ticket, tainted: bool) {
        if self.was_overtaken(ticket) {
            return self.answer(ticket, Answer::NotApplied(Reason::Paused));
        }
        if let Some(lane) = self.lanes.go_back(ticket, tainted) {
            self.pump.push(lane);
        }
    }

    /// A read that comes back while a later write of its lane is under way, or was answered before it since its own
    /// answer got lost: asked again it would see what was written after it.
    fn was_overtaken(&self, ticket: Ticket) -> bool {
        let Some(waiting) = self.lanes.waiting.get(ticket) else { return false };
        let answered = self.lanes.lanes.get(waiting.lane).is_some_and(|lane| lane.written > ticket);
        let mut later = self.lanes.waiting.after(ticket);
        let overtaken =
            later.any(|(_, other)| other.lane == waiting.lane && other.place != Where::Queued && other.is_write());
        (answered || overtaken) && !waiting.is_write()
    }

    /// It waited too long, or there is no sense in waiting.
    pub(super) fn give_up(&mut self, ticket: Ticket, reason: Reason) {
        let Some(waiting) = self.lanes.waiting.get(ticket) else { return };
        let is_write = waiting.is_write();
        let sent = waiting.tainted || waiting.place != Where::Queued;
        let answer = if is_write && sent { Answer::Unknown } else { Answer::NotApplied(reason) };
        self.answer(ticket, answer);
    }

    pub(super) fn expire(&mut self) {
        while let Some(ticket) = self.lanes.overdue(self.now) {
            let waiting = self.lanes.waiting.get(ticket);
            let named = waiting.is_some_and(|waiting| matches!(waiting.request.ask, Ask::Stale { after: Some(_), .. }));
            self.give_up(ticket, if named { Reason::TooStale } else { Reason::Paused });
        }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        let Some(finished) = self.lanes.finish(ticket) else { return };
        let answer = match answer {
            // Not here; an earlier sending may have been, where nobody could say.
            Answer::NotApplied(_) if finished.tainted => Answer::Unknown,
            Answer::NotApplied(_) | Answer::Done { .. } | Answer::Unknown => answer,
        };
        if let Where::Hopped { number, place } = finished.place {
            self.hops.forget(number, place);
        }
        if finished.others {
            self.pump.push(finished.lane);
        }
        self.tell(finished.caller, answer);
    }

    pub(super) fn tell(&mut self, caller: Caller, answer: Answer) {
        match caller {
            Caller::Here(id) => self.outputs.push_back(ShardOutput::Answer { id, answer }),
            Caller::Hop { origin, shard, number, place } => {
                let guest = self.guests.get_mut(&(origin, shard));
                let Some(taken) = guest.and_then(|guest| guest.taken.get_mut(&number)) else { return };
                if let Some(known) = taken.answers.get_mut(place as usize)
                    && known.is_none()
                {
                    *known = Some(answer);
                    if taken.fresh.is_empty() {
                        self.answered.insert((origin, shard, number));
                    }
                    taken.fresh.push(place);
                }
            }
        }
    }
}
