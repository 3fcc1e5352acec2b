//! The table against a naive one, which keeps plain lists, searches them from end to end, and knows the true numbers
//! where the table is given low bits; and a few examples to read.

use super::window::SERIES_COST;
use super::*;
use atoll_types::bugs::plant;
use atoll_types::{Epoch, Offset, Series};
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::RangeInclusive;

const SLOT: HashSlot = HashSlot(7);
const IDLE_SHORT: u64 = 100;

fn small() -> Sessions {
    let limits = Limits {
        idle: Duration::from_micros(IDLE_SHORT),
        sessions: 5,
        session_bytes: 4 * SERIES_COST + 100,
        bytes: 9 * SERIES_COST + 250,
    };
    Sessions::within(limits, Time::ZERO)
}

fn mark(offset: u64) -> Mark {
    Mark { epoch: Epoch::ZERO, offset: Offset(offset) }
}

fn full(opened: u64) -> SessionId {
    SessionId { opened: Time(opened), token: 1, counter: Counter::Full }
}

fn wrapping(opened: u64, bits: u8) -> SessionId {
    SessionId { counter: Counter::Wrapping { bits, slot: SLOT }, ..full(opened) }
}

fn usage(session: SessionId, series: u64, floor: u64) -> SessionUse {
    SessionUse { session, series: Series(series), floor: Series(floor), attempt: 0 }
}

/// Applies a write as a replica does.
fn write(sessions: &mut Sessions, time: u64, usage: &SessionUse, offset: u64, answer: &[u8]) -> Verdict {
    let foreseen = sessions.look(Time(time), SLOT, usage);
    let verdict = sessions.enter(Time(time), SLOT, usage);
    assert_eq!(foreseen, verdict, "a look foresees what apply does");
    if verdict == Verdict::New {
        sessions.store(usage, mark(offset), answer);
    }
    verdict
}

#[derive(Clone, Debug)]
struct NaiveSession {
    id: SessionId,
    used: u64,
    floor: i128,
    highest: i128,
    answers: Vec<(i128, Mark, Option<Vec<u8>>)>,
}

impl NaiveSession {
    fn bytes(&self) -> usize {
        self.answers.iter().map(|(_, _, answer)| SERIES_COST + answer.as_ref().map_or(0, Vec::len)).sum()
    }
}

#[derive(Debug)]
struct Naive {
    limits: Limits,
    horizon: u64,
    sessions: Vec<NaiveSession>,
    /// Everything that was ever new, and is never forgotten.
    applied: BTreeMap<(SessionId, i128), (Mark, Vec<u8>)>,
}

impl Naive {
    fn forget_one(&mut self, spare: SessionId) -> bool {
        let others = self.sessions.iter().filter(|session| session.id != spare);
        let Some((used, id)) = others.map(|session| (session.used, session.id)).min() else { return false };
        self.horizon = self.horizon.max(used);
        self.sessions.retain(|session| session.id != id);
        true
    }

    fn write(&mut self, time: u64, id: SessionId, series: i128, floor: i128, at: Mark, answer: &[u8]) -> Verdict {
        let since = time.saturating_sub(IDLE_SHORT);
        self.horizon = self.horizon.max(since);
        self.sessions.retain(|session| session.used > since);
        let window = match id.counter {
            Counter::Full => i128::from(WINDOW_MOST),
            Counter::Wrapping { bits, slot: _ } => i128::from(WINDOW_MOST).min(1 << (bits - 2)),
        };
        let known = self.sessions.iter().find(|session| session.id == id);
        if known.is_none() && id.opened.0 <= self.horizon {
            return Verdict::Refused(Refusal::Expired);
        }
        if known.is_none() && id.opened.0 > time + IDLE_SHORT {
            return Verdict::Refused(Refusal::OpenedAhead);
        }
        let lowest = known.map_or(floor, |session| session.floor.max(floor));
        if series < lowest {
            return Verdict::Refused(Refusal::BelowFloor);
        }
        if series - lowest >= window {
            return Verdict::Refused(Refusal::BeyondWindow { window: window as u64 });
        }
        let found = known.and_then(|session| session.answers.iter().find(|(other, _, _)| *other == series)).cloned();
        let verdict = match found {
            Some((_, mark, None)) => return Verdict::Refused(Refusal::AnswerGone { mark }),
            Some((_, mark, Some(answer))) => Verdict::Duplicate { mark, answer: answer.into() },
            None => Verdict::New,
        };
        if known.is_none() {
            while self.sessions.len() >= self.limits.sessions && self.forget_one(id) {}
            let used = id.opened.0;
            self.sessions.push(NaiveSession { id, used, floor, highest: series, answers: Vec::new() });
        }
        let most = self.limits.session_bytes;
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) {
            session.used = session.used.max(time);
            session.floor = session.floor.max(floor);
            session.highest = session.highest.max(series);
            session.answers.retain(|(other, _, _)| *other >= lowest);
            if verdict == Verdict::New {
                session.answers.push((series, at, Some(answer.to_vec())));
                session.answers.sort();
            }
            while session.bytes() > most
                && let Some(first) = session.answers.iter_mut().find(|(_, _, answer)| answer.is_some())
            {
                first.2 = None;
            }
        }
        while self.sessions.iter().map(NaiveSession::bytes).sum::<usize>() > self.limits.bytes && self.forget_one(id) {}
        verdict
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Log time goes on.
    Pass(u64),
    /// A client opens a session, by a clock of its own, and begins at some number.
    Open { client: usize, opened: i64, bits: u8, begin: u64 },
    /// A client, which may have any notion of what is outstanding, writes so far from the highest number seen.
    Write { client: usize, ahead: i128, below: i128, length: usize },
    /// The same message once more, however old.
    Repeat(usize),
    /// A member starts from a snapshot.
    Restore,
}

const CLIENTS: usize = 8;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let near: RangeInclusive<i128> = -6..=6;
    let ahead = prop_oneof![6 => near, 1 => -190..=64i128, 1 => -1100..=1100i128];
    let below = prop_oneof![6 => 0..8i128, 1 => 0..70i128, 1 => 0..1100i128, 1 => -2..0i128];
    let bits = prop_oneof![3 => Just(0u8), 3 => Just(8u8), 1 => Just(16u8), 1 => Just(63u8)];
    let length = prop_oneof![8 => 0..40usize, 1 => 0..600usize];
    let step = prop_oneof![
        2 => prop_oneof![8 => 0..5u64, 1 => 0..150u64].prop_map(Step::Pass),
        2 => (0..CLIENTS, -120..=120i64, bits, any::<u64>())
            .prop_map(|(client, opened, bits, begin)| Step::Open { client, opened, bits, begin }),
        12 => (0..CLIENTS, ahead, below, length)
            .prop_map(|(client, ahead, below, length)| Step::Write { client, ahead, below, length }),
        4 => (0..10_000usize).prop_map(Step::Repeat),
        1 => Just(Step::Restore),
    ];
    vec(step, 1..250)
}

/// One client's session, and the number it began at. Of a wrapping one, the true number has bits that are never sent.
type Client = (SessionId, i128);

fn low_bits(id: SessionId, number: i128) -> u64 {
    match id.counter {
        Counter::Full => number as u64,
        Counter::Wrapping { bits, slot: _ } => (number & ((1 << bits) - 1)) as u64,
    }
}

/// Can these numbers be sent, and are they near enough to the highest seen for their low bits to be told apart?
fn is_possible(id: SessionId, highest: Option<i128>, series: i128, floor: i128) -> bool {
    match id.counter {
        Counter::Full => (0..=u64::MAX.into()).contains(&series) && (0..=u64::MAX.into()).contains(&floor),
        Counter::Wrapping { bits, slot: _ } => {
            let (range, window) = (1i128 << bits, i128::from(WINDOW_MOST).min(1 << (bits - 2)));
            let near =
                highest.is_none_or(|highest| (highest + window - range + 1..=highest + window).contains(&series));
            near && (0..range).contains(&(series - floor))
        }
    }
}

fn run(steps: &[Step]) {
    let mut sessions = small();
    let mut naive = Naive { limits: small().limits, horizon: 0, sessions: Vec::new(), applied: BTreeMap::new() };
    let (mut time, mut offset, mut token) = (1000u64, 0, 0);
    let mut clients: Vec<Option<Client>> = vec![None; CLIENTS];
    let mut sent: Vec<(SessionId, i128, i128, usize)> = Vec::new();
    for step in steps {
        let message = match step {
            Step::Pass(by) => {
                time += by;
                sessions.advance(Time(time));
                None
            }
            Step::Open { client, opened, bits, begin } => {
                token += 1;
                let counter = match *bits {
                    0 => Counter::Full,
                    bits => Counter::Wrapping { bits, slot: SLOT },
                };
                let id = SessionId { opened: Time(time.saturating_add_signed(*opened)), token, counter };
                clients[*client] = Some((id, (1i128 << 70) * i128::from(*bits > 0) + i128::from(*begin)));
                None
            }
            Step::Write { client, ahead, below, length } => clients[*client].map(|(id, begin)| {
                let seen = naive.sessions.iter().find(|session| session.id == id).map(|session| session.highest);
                let series = seen.unwrap_or(begin) + ahead;
                (id, series, series - below, *length)
            }),
            Step::Repeat(which) => sent.get(which % sent.len().max(1)).copied(),
            Step::Restore => {
                let bytes = postcard::to_allocvec(&sessions).expect("a table has bytes");
                let restored: Sessions = postcard::from_bytes(&bytes).expect("and can be read from them");
                assert_eq!((&restored, restored.digest()), (&sessions, sessions.digest()));
                sessions = restored;
                None
            }
        };
        let Some((id, series, floor, length)) = message else { continue };
        let seen = naive.sessions.iter().find(|session| session.id == id).map(|session| session.highest);
        if !is_possible(id, seen, series, floor) {
            continue;
        }
        sent.push((id, series, floor, length));
        offset += 1;
        let answer = vec![offset as u8; length];
        let usage = usage(id, low_bits(id, series), low_bits(id, floor));
        let verdict = write(&mut sessions, time, &usage, offset, &answer);
        assert_eq!(verdict, naive.write(time, id, series, floor, mark(offset), &answer), "{id:?} {series} {floor}");
        match verdict {
            Verdict::New => {
                let before = naive.applied.insert((id, series), (mark(offset), answer));
                assert_eq!(before, None, "{id:?} {series} was applied twice");
            }
            Verdict::Duplicate { mark, answer } => {
                let (first, stored) = &naive.applied[&(id, series)];
                assert_eq!((mark, answer.as_slice()), (*first, stored.as_slice()), "the first answer, the first place");
            }
            Verdict::Refused(_) => {}
        }
        sessions.check();
        assert_eq!((sessions.len(), sessions.horizon().0), (naive.sessions.len(), naive.horizon));
        assert_eq!(sessions.stored, naive.sessions.iter().map(NaiveSession::bytes).sum::<usize>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_naive_table_and_nothing_counts_twice(steps in steps()) {
        run(&steps);
    }

    #[test]
    fn bytes_of_any_kind_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), series in any::<u64>()) {
        if let Ok(mut sessions) = postcard::from_bytes::<Sessions>(&bytes) {
            write(&mut sessions, 5, &usage(full(3), series, series), 1, b"x");
        }
    }
}

#[test]
fn a_duplicate_gets_the_first_answer_until_the_floor_passes_it() {
    let mut sessions = Sessions::default();
    let id = full(50);
    assert_eq!(write(&mut sessions, 60, &usage(id, 3, 2), 1, b"three"), Verdict::New);
    assert_eq!(write(&mut sessions, 61, &usage(id, 2, 2), 2, b"two"), Verdict::New, "they may come in any order");
    let first = Verdict::Duplicate { mark: mark(1), answer: b"three".as_slice().into() };
    assert_eq!(write(&mut sessions, 62, &usage(id, 3, 2), 3, b"other"), first);
    assert_eq!(write(&mut sessions, 63, &usage(id, 4, 4), 4, b"four"), Verdict::New);
    assert_eq!(write(&mut sessions, 64, &usage(id, 3, 2), 5, b"late"), Verdict::Refused(Refusal::BelowFloor));
    assert_eq!(write(&mut sessions, 64, &usage(id, 9, 10), 5, b"?"), Verdict::Refused(Refusal::BelowFloor));
    let beyond = Verdict::Refused(Refusal::BeyondWindow { window: WINDOW_MOST });
    assert_eq!(write(&mut sessions, 65, &usage(id, 4 + WINDOW_MOST, 4), 6, b"far"), beyond);
    let top = usage(id, u64::MAX, u64::MAX);
    assert_eq!(write(&mut sessions, 66, &top, 7, b"top"), Verdict::New);
    sessions.check();
}

#[test]
fn a_forgotten_session_never_comes_back() {
    let mut sessions = small();
    let id = full(1000);
    assert_eq!(write(&mut sessions, 1010, &usage(id, 1, 1), 1, b"one"), Verdict::New);
    sessions.advance(Time(1109));
    assert_eq!(sessions.len(), 1);
    sessions.advance(Time(1110));
    assert_eq!((sessions.len(), sessions.horizon()), (0, Time(1010)));
    assert_eq!(write(&mut sessions, 1110, &usage(id, 1, 1), 2, b"one"), Verdict::Refused(Refusal::Expired));
    // One that was never here, and could have been.
    assert_eq!(write(&mut sessions, 1110, &usage(full(1010), 1, 1), 2, b""), Verdict::Refused(Refusal::Expired));
    assert_eq!(write(&mut sessions, 1110, &usage(full(1011), 1, 1), 2, b""), Verdict::New);
}

#[test]
fn sessions_used_at_the_same_time_go_one_by_one() {
    let mut sessions = small();
    let ids: Vec<SessionId> = (0..7).map(|token| SessionId { token, ..full(1000) }).collect();
    for &id in &ids[..5] {
        assert_eq!(write(&mut sessions, 1000, &usage(id, 1, 1), 1, b""), Verdict::New);
    }
    let late = SessionId { opened: Time(1001), ..ids[5] };
    assert_eq!(write(&mut sessions, 1001, &usage(late, 1, 1), 1, b""), Verdict::New);
    assert_eq!((sessions.len(), sessions.horizon()), (5, Time(1000)));
    let verdicts: Vec<bool> =
        ids[..5].iter().map(|&id| write(&mut sessions, 1001, &usage(id, 1, 1), 2, b"") == Verdict::New).collect();
    assert_eq!(verdicts, [false; 5]);
    let expired = Verdict::Refused(Refusal::Expired);
    assert_eq!(write(&mut sessions, 1001, &usage(ids[0], 1, 1), 2, b""), expired, "the one that went");
    assert!(matches!(write(&mut sessions, 1001, &usage(ids[1], 1, 1), 2, b""), Verdict::Duplicate { .. }));
}

#[test]
fn a_session_from_the_far_future_cannot_take_the_horizon_along() {
    let mut sessions = small();
    let ahead = Verdict::Refused(Refusal::OpenedAhead);
    assert_eq!(write(&mut sessions, 1000, &usage(full(u64::MAX), 1, 1), 1, b""), ahead);
    assert_eq!(write(&mut sessions, 1000, &usage(full(1100), 1, 1), 1, b""), Verdict::New);
}

#[test]
fn a_wrapping_counter_wraps_for_ever() {
    for (bits, rounds) in [(8u8, 5000u64), (9, 5000), (16, 200_000)] {
        let mut sessions = Sessions::default();
        let id = wrapping(1, bits);
        let range = 1 << bits;
        for number in 250..250 + rounds {
            // Three are outstanding; each is sent twice, and once more when nobody waits for it.
            let usage = |number: u64, floor: u64| usage(id, number % range, floor % range);
            let now = usage(number, number - 3);
            assert_eq!(write(&mut sessions, 2, &now, number, b"ok"), Verdict::New, "{number}");
            let first = Verdict::Duplicate { mark: mark(number), answer: b"ok".as_slice().into() };
            assert_eq!(write(&mut sessions, 2, &now, 0, b""), first);
            if number > 250 + range {
                let old = usage(number - range / 2, number - range / 2 - 3);
                assert_eq!(write(&mut sessions, 2, &old, 0, b""), Verdict::Refused(Refusal::BelowFloor));
            }
        }
        sessions.check();
    }
}

#[test]
fn a_wrapping_counter_is_refused_where_it_makes_no_sense() {
    let mut sessions = Sessions::default();
    let refused = |sessions: &mut Sessions, id, series, floor| {
        let verdict = write(sessions, 2, &usage(id, series, floor), 1, b"");
        assert_eq!(sessions.len(), 0, "a refusal changes nothing");
        verdict
    };
    let bad = Verdict::Refused(Refusal::BadCounter);
    for bits in [0, 7, 64, 255] {
        assert_eq!(refused(&mut sessions, wrapping(1, bits), 0, 0), bad);
    }
    assert_eq!(refused(&mut sessions, wrapping(1, 8), 256, 255), bad);
    let beyond = Verdict::Refused(Refusal::BeyondWindow { window: 64 });
    assert_eq!(refused(&mut sessions, wrapping(1, 8), 10, 11), beyond, "the floor is above the series");
    let other = SessionId { counter: Counter::Wrapping { bits: 8, slot: HashSlot(8) }, ..full(1) };
    assert_eq!(refused(&mut sessions, other, 0, 0), Verdict::Refused(Refusal::OtherSlot));
}

#[test]
fn the_real_bounds_hold_and_the_most_recently_used_stay() {
    let mut sessions = Sessions::default();
    let id = |token| SessionId { token, ..full(token + 1) };
    let count = SESSIONS_MOST as u64 + 1000;
    for token in 0..count {
        assert_eq!(write(&mut sessions, token + 1, &usage(id(token), 1, 1), token, &[0; 1000]), Verdict::New);
    }
    assert!(sessions.bytes() <= STORED_BYTES_MOST + SESSIONS_MOST * SESSION_COST);
    assert!(sessions.len() > 10_000);
    sessions.check();
    let greedy = id(count);
    for series in 0..WINDOW_MOST {
        assert_eq!(write(&mut sessions, count + 1, &usage(greedy, series, 0), series, &[0; 100_000]), Verdict::New);
    }
    sessions.check();
    assert!(sessions.len() > 10_000, "one client's long answers push out its own");
    let first = write(&mut sessions, count + 1, &usage(greedy, 0, 0), 0, b"");
    assert_eq!(first, Verdict::Refused(Refusal::AnswerGone { mark: mark(0) }));
    plant(Some(Bug::DuplicateAnswerLost));
    let twice = sessions.look(Time(count + 1), SLOT, &usage(greedy, 0, 0));
    plant(None);
    assert_eq!(twice, Verdict::New, "the planted bug would show here");
    let last = write(&mut sessions, count + 1, &usage(greedy, WINDOW_MOST - 1, 0), 0, b"");
    assert!(matches!(last, Verdict::Duplicate { .. }));
}

#[test]
fn both_halves_of_a_split_know_what_they_need() {
    let mut sessions = Sessions::default();
    for id in [full(1), wrapping(1, 8)] {
        assert_eq!(write(&mut sessions, 2, &usage(id, 1, 1), 1, b"one"), Verdict::New);
    }
    let (lower, upper) = (sessions.split(|slot| slot.0 < 100), sessions.split(|slot| slot.0 >= 100));
    assert_eq!((&lower, lower.digest()), (&sessions, sessions.digest()));
    assert_eq!((upper.len(), upper.horizon()), (1, sessions.horizon()));
    assert!(matches!(upper.look(Time(3), HashSlot(200), &usage(full(1), 1, 1)), Verdict::Duplicate { .. }));
    upper.check();
}

#[test]
fn every_part_of_the_table_has_its_say_in_the_digest() {
    let table = |time, usages: &[(SessionId, u64, u64)], answer: &[u8]| {
        let mut sessions = Sessions::default();
        for (offset, &(id, series, floor)) in usages.iter().enumerate() {
            write(&mut sessions, time, &usage(id, series, floor), offset as u64, answer);
        }
        sessions
    };
    let tables = [
        table(5, &[], b"a"),
        table(5, &[(full(1), 1, 1)], b"a"),
        table(6, &[(full(1), 1, 1)], b"a"),
        table(5, &[(full(1), 1, 1)], b"b"),
        table(5, &[(full(1), 1, 0)], b"a"),
        table(5, &[(full(1), 2, 1)], b"a"),
        table(5, &[(full(2), 1, 1)], b"a"),
        table(5, &[(full(1), 1, 1), (full(1), 2, 1)], b"a"),
        table(5, &[(full(1), 2, 1), (full(1), 1, 1)], b"a"),
        Sessions::new(Duration::from_secs(1)),
    ];
    let digests: BTreeSet<u64> = tables.iter().map(Sessions::digest).collect();
    assert_eq!(digests.len(), tables.len());
}

#[test]
fn a_table_taken_in_by_another_still_makes_writes_count_once() {
    let (mut one, mut other) = (small(), small());
    // The client has written to two buckets that become one; of its second write the first bucket knows nothing.
    write(&mut one, 20, &usage(full(15), 1, 1), 1, b"one");
    write(&mut other, 30, &usage(full(15), 2, 1), 7, b"two");
    write(&mut other, 31, &usage(full(15), 3, 2), 8, b"three");
    write(&mut other, 31, &usage(wrapping(16, 8), 200, 200), 9, b"device");
    let mut all = Sessions::new(Duration::from_micros(IDLE_SHORT));
    for piece in one.pieces(1).into_iter().chain(other.pieces(1)) {
        all.absorb(piece.clone(), |_| true);
        all.absorb(piece, |_| true);
        all.check();
    }
    assert_eq!(write(&mut all, 40, &usage(full(15), 1, 1), 50, b""), Verdict::Refused(Refusal::BelowFloor));
    let second = Verdict::Duplicate { mark: mark(7), answer: b"two"[..].into() };
    assert_eq!(write(&mut all, 40, &usage(full(15), 2, 2), 50, b""), second);
    assert_eq!(write(&mut all, 40, &usage(full(15), 4, 2), 50, b"four"), Verdict::New);
    let device = Verdict::Duplicate { mark: mark(9), answer: b"device"[..].into() };
    assert_eq!(write(&mut all, 40, &usage(wrapping(16, 8), 200, 200), 51, b""), device);
    all.check();
}

#[test]
fn what_another_table_forgot_stays_forgotten() {
    let mut table = small();
    for opened in 1..=9 {
        write(&mut table, 50, &usage(full(opened), 1, 1), opened, b"x");
    }
    assert!(table.horizon() > Time::ZERO && table.len() == 5);
    let mut all = Sessions::new(Duration::from_micros(IDLE_SHORT));
    table.pieces(1 << 20).into_iter().for_each(|piece| all.absorb(piece, |_| true));
    assert_eq!(write(&mut all, 51, &usage(full(1), 1, 1), 60, b"again"), Verdict::Refused(Refusal::Expired));
    let mut few = small();
    let mut many = Sessions::new(Duration::from_micros(IDLE_SHORT));
    (60..80).for_each(|opened| drop(write(&mut many, 90, &usage(full(opened), 1, 1), opened, &[7; 90])));
    many.pieces(1 << 20).into_iter().for_each(|piece| few.absorb(piece, |_| false));
    few.check();
    assert_eq!(few.horizon(), Time(90), "what did not fit is not taken for new");
}
