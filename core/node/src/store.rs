//! What a bucket holds: several state machines side by side. The first byte of a command or query says which is meant.
//!
//! Not here: what the machines do (`atoll-kv`, `atoll-stream`).

use atoll_types::{At, HashSlot, IMPORT, Malformed, Payload, Piece, StateMachine, Time};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first byte of what is meant for the key-value store.
pub const KV: u8 = 1;
/// The first byte of what is meant for the streams.
pub const STREAM: u8 = 2;
/// The first byte of what is meant for both: a batch of values, and streams that are looked for or deleted with it.
///
/// ```text
/// BOTH │ length u32 LE │ command for the values │ command for the streams
/// ```
pub const BOTH: u8 = 3;

/// A command for both.
pub fn both(values: &atoll_kv::Command<'_>, streams: &atoll_stream::Command<'_>) -> Payload {
    let mut bytes = vec![BOTH];
    put_first(&mut bytes, |out| values.encode(out));
    streams.encode(&mut bytes);
    bytes.into()
}

/// The two halves of what follows the first byte of such a command, or of the answer to one. The second half of an
/// answer is empty where nothing was done.
pub fn halves(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn put_first(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// Is this a command that the streams carry out, whatever they hold? Only then can it follow on another.
fn is_always_done(command: &[u8]) -> bool {
    let Some(atoll_stream::Command { operations }) = atoll_stream::Command::decode(command) else { return false };
    let slot = operations.first().map(|first| HashSlot::of(first.stream));
    let fits = |operation: &atoll_stream::Operation<'_>| {
        matches!(operation.action, atoll_stream::Action::Delete | atoll_stream::Action::Trim { .. })
            && operation.stream.len() <= atoll_stream::NAME_MOST
            && Some(HashSlot::of(operation.stream)) == slot
    };
    operations.len() <= atoll_stream::OPERATIONS_MOST && operations.iter().all(fits)
}

#[derive(Debug, Default)]
pub struct Store {
    values: atoll_kv::Store,
    streams: atoll_stream::Streams,
}

impl Store {
    pub fn new() -> Store {
        Store::default()
    }

    /// With the byte of each.
    fn parts(&self) -> [(u8, &dyn StateMachine); 2] {
        [(KV, &self.values), (STREAM, &self.streams)]
    }

    /// Which is meant, and what it is told.
    fn part<'a>(&self, bytes: &'a [u8]) -> Option<(&dyn StateMachine, &'a [u8])> {
        match bytes.split_first()? {
            (&KV, rest) => Some((&self.values, rest)),
            (&STREAM, rest) => Some((&self.streams, rest)),
            (_, _) => None,
        }
    }

    /// All of it or nothing: the streams follow if the values were written, and then cannot fail.
    fn apply_to_both(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>) {
        let Some((values, streams)) = halves(command).filter(|(_, streams)| is_always_done(streams)) else { return };
        let begin = answer.len() + 4;
        put_first(answer, |answer| self.values.apply(at, values, answer));
        if atoll_kv::is_done(&answer[begin..]) {
            self.streams.apply(at, streams, answer);
        }
    }
}

impl StateMachine for Store {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(Store::new())
    }

    fn apply(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>) {
        match command.split_first() {
            Some((&KV, command)) => self.values.apply(at, command, answer),
            Some((&STREAM, command)) => self.streams.apply(at, command, answer),
            Some((&BOTH, halves)) => self.apply_to_both(at, halves, answer),
            Some(_) | None => {}
        }
    }

    fn foresee(&self, command: &[u8]) {
        if let Some((part, command)) = self.part(command) {
            part.foresee(command);
        }
    }

    fn advance(&mut self, at: At) {
        self.values.advance(at);
        self.streams.advance(at);
    }

    fn due(&self) -> Option<Time> {
        self.values.due().into_iter().chain(self.streams.due()).min()
    }

    fn read(&self, at: At, query: &[u8], answer: &mut Vec<u8>) {
        match query.split_first() {
            Some((&KV, query)) => self.values.read(at, query, answer),
            Some((&STREAM, query)) => self.streams.read(at, query, answer),
            Some(_) | None => {}
        }
    }

    fn pieces(&self, at: At, most: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (byte, part) in self.parts() {
            pieces.extend(part.pieces(at, most).into_iter().map(|mut piece| {
                piece.bytes.insert(0, byte);
                piece
            }));
        }
        pieces
    }

    fn absorb(&mut self, at: At, slot: HashSlot, piece: &[u8]) -> Result<(), Malformed> {
        match piece.split_first() {
            Some((&KV, piece)) => self.values.absorb(at, slot, piece),
            Some((&STREAM, piece)) => self.streams.absorb(at, slot, piece),
            Some(_) | None => Err(Malformed),
        }
    }

    fn grows(&self, command: &[u8]) -> bool {
        if command.first() == Some(&IMPORT) {
            return true;
        }
        if let Some((&BOTH, rest)) = command.split_first() {
            return halves(rest).is_some_and(|(values, _)| self.values.grows(values));
        }
        self.part(command).is_some_and(|(part, command)| part.grows(command))
    }

    fn bytes(&self) -> usize {
        self.values.bytes() + self.streams.bytes()
    }

    fn count(&self) -> usize {
        self.values.count() + self.streams.count()
    }

    fn snapshot(&self) -> Vec<u8> {
        let parts = self.parts().map(|(_, part)| Payload::from(part.snapshot()));
        postcard::to_allocvec(&parts[..]).expect("a store always has bytes")
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let images: Vec<Payload> = postcard::from_bytes(bytes).map_err(|_| Malformed)?;
        let [values, streams] = &images[..] else { return Err(Malformed) };
        let mut whole = Store::new();
        whole.values.install(values.as_slice())?;
        whole.streams.install(streams.as_slice())?;
        *self = whole;
        Ok(())
    }

    fn split(&mut self, first: HashSlot) -> Box<dyn StateMachine> {
        Box::new(Store { values: self.values.halve(first), streams: self.streams.halve(first) })
    }

    fn digest(&self) -> u64 {
        let digests = [self.values.digest(), self.streams.digest()];
        digests.iter().fold(0, |digest, part| xxh3_64_with_seed(&part.to_le_bytes(), digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_kv::{Action, Answer, Command, Condition, Operation, Ttl};
    use atoll_stream::{Action as StreamAction, Answer as StreamAnswer, Command as StreamCommand, Id, Outcome};
    use atoll_types::Offset;

    fn apply(store: &mut Store, offset: u64, command: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        let at = At { offset: Offset(offset), time: Time(offset) };
        store.advance(at);
        store.apply(at, command, &mut answer);
        answer
    }

    fn with_a_stream() -> Store {
        let mut store = Store::new();
        let mut append = vec![STREAM];
        StreamCommand::one(b"s", StreamAction::Append { id: Id::Auto, payload: b"m" }).encode(&mut append);
        apply(&mut store, 1, &append);
        store
    }

    fn put_on<'a>(condition: Condition) -> Command<'a> {
        let put = Operation::new(b"s", Action::Put { value: b"v", ttl: Ttl::Never }).on(condition);
        Command { operations: vec![put].into() }
    }

    #[test]
    fn values_and_streams_are_changed_together_or_not_at_all() {
        let delete = StreamCommand::one(b"s", StreamAction::Delete);
        let mut store = with_a_stream();
        let before = store.digest();
        let answer = apply(&mut store, 2, both(&put_on(Condition::Present), &delete).as_slice());
        let (values, streams) = halves(&answer).expect("an answer");
        assert!(matches!(Answer::decode(values), Some(Answer::Failed { .. })) && streams.is_empty());
        let mut same = with_a_stream();
        same.values.advance(At { offset: Offset(2), time: Time(2) });
        assert_eq!((store.count(), before), (1, with_a_stream().digest()));
        assert_eq!(store.digest(), same.digest(), "nothing was done");
        let answer = apply(&mut store, 3, both(&put_on(Condition::Absent), &delete).as_slice());
        let (values, streams) = halves(&answer).expect("an answer");
        assert!(matches!(Answer::decode(values), Some(Answer::Done(_))));
        let removed = vec![Outcome::Removed { existed: true, count: 1 }];
        assert_eq!(StreamAnswer::decode(streams), Some(StreamAnswer::Done(removed)));
        assert_eq!(store.count(), 1, "the value, and no stream");
    }

    #[test]
    fn what_the_streams_might_refuse_is_no_command() {
        let mut store = with_a_stream();
        let append = StreamCommand::one(b"s", StreamAction::Append { id: Id::Auto, payload: b"m" });
        let crossed = [&b"s"[..], b"t"].map(|stream| atoll_stream::Operation { stream, action: StreamAction::Delete });
        let crossed = StreamCommand { operations: crossed.into() };
        let (append, crossed) = (both(&put_on(Condition::None), &append), both(&put_on(Condition::None), &crossed));
        for command in [append.as_slice(), crossed.as_slice(), &[BOTH], &[BOTH, 0, 0, 0, 0], &[BOTH, 9, 0, 0, 0, 1]] {
            let digest = store.digest();
            assert!(apply(&mut store, 2, command).is_empty());
            assert_eq!(store.digest(), digest);
        }
    }
}
