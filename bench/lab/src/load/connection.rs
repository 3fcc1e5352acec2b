//! One connection of a load: sends a batch, waits until all of it is answered, sends the next. What fails moves on to
//! the next address.

use super::protocol::{Event, Protocol};
use super::{Load, Target, key};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Bytes asked of a socket at a time.
const READ: usize = 8 << 10;

/// What all connections of a load share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) load: Load,
    pub(crate) value: Vec<u8>,
    /// Connections that have tried to connect.
    pub(crate) arrived: Cell<usize>,
    /// Only what is answered meanwhile counts.
    pub(crate) recording: Cell<bool>,
    pub(crate) stopped: Cell<bool>,
    /// Keys given out, of a load that writes each key once.
    pub(crate) given: Cell<u64>,
    pub(crate) tally: RefCell<Tally>,
}

#[derive(Debug)]
pub(crate) struct Tally {
    /// Microseconds, one for each operation.
    pub(crate) latency: Histogram<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: String,
    last: Option<Instant>,
    /// The longest time without an answer, and when it began.
    pub(crate) gap: Duration,
    pub(crate) gap_began: Option<Instant>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let latency = Histogram::new_with_bounds(1, 120_000_000, 3).expect("fixed bounds");
        Tally { latency, errors: 0, first_error: String::new(), last: None, gap: Duration::ZERO, gap_began: None }
    }

    fn answered(&mut self, count: usize, now: Instant, took: Duration) {
        self.latency.saturating_record_n(took.as_micros() as u64, count as u64);
        self.look_at_gap(now);
        self.last = Some(now);
    }

    /// At an answer, and at the end: a gap that no answer ended is one as well.
    pub(crate) fn look_at_gap(&mut self, now: Instant) {
        let gap = self.last.map_or(Duration::ZERO, |last| now - last);
        if gap > self.gap {
            self.gap = gap;
            self.gap_began = self.last;
        }
    }

    /// The longest gap is that from here on. One that has begun already counts from its beginning.
    pub(crate) fn begin_gap(&mut self) {
        self.gap = Duration::ZERO;
        self.gap_began = None;
    }

    fn failed(&mut self, error: String) {
        self.errors += 1;
        if self.first_error.is_empty() {
            self.first_error = error;
        }
    }
}

pub(crate) async fn run(shared: Rc<Shared>, number: u64, target: Target) {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut at = number as usize % target.addresses.len();
    let mut batch = Batch::default();
    let mut first = true;
    while !shared.stopped.get() {
        let address = &target.addresses[at];
        let mut link = Link::new(&shared, number);
        let opened = timeout(shared.load.timeout, link.open(address)).await;
        if std::mem::take(&mut first) {
            shared.arrived.set(shared.arrived.get() + 1);
        }
        let lost = match opened {
            Ok(Ok(stream)) => match link.work(stream, &target, &mut batch, &mut random).await {
                Ok(()) => return,
                Err(error) => error,
            },
            Ok(Err(error)) => error,
            Err(_) => "connecting takes too long".to_owned(),
        };
        if !shared.stopped.get() {
            shared.tally.borrow_mut().failed(format!("{address}: {lost}"));
        }
        at = (at + 1) % target.addresses.len();
        sleep(Duration::from_millis(1 + random.below(8))).await;
    }
}

/// The keys of the batch under way. They are asked for again if it failed and each key must be written.
#[derive(Debug, Default)]
struct Batch {
    first: Option<u64>,
}

struct Link {
    shared: Rc<Shared>,
    protocol: Box<dyn Protocol>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Link {
    fn new(shared: &Rc<Shared>, number: u64) -> Link {
        let protocol = shared.load.kind.protocol(number);
        Link { shared: shared.clone(), protocol, input: Vec::new(), output: Vec::new() }
    }

    async fn open(&mut self, address: &str) -> Result<TcpStream, String> {
        let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut ready = self.protocol.greet(&mut self.output);
        while !ready {
            self.exchange(&mut stream).await?;
            while let Some(event) = self.next()? {
                ready |= event == Event::Ready;
            }
        }
        Ok(stream)
    }

    /// Sends what is to be sent, and waits for more to come.
    async fn exchange(&mut self, stream: &mut TcpStream) -> Result<(), String> {
        if !self.output.is_empty() {
            stream.write_all(&self.output).await.map_err(|error| error.to_string())?;
            self.output.clear();
        }
        self.input.reserve(READ);
        match stream.read_buf(&mut self.input).await {
            Ok(0) => Err("closed".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next event of what has come, if a whole one has.
    fn next(&mut self) -> Result<Option<Event>, String> {
        let (taken, event) = self.protocol.take(&self.input, &mut self.output);
        // Most answers are all there is, and then nothing has to be moved.
        if taken == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..taken);
        }
        match event {
            Event::Part => Ok(None),
            Event::Failed(why) => Err(why),
            Event::Nothing | Event::Ready | Event::Done(_) => Ok(Some(event)),
        }
    }

    /// Ok when the load is over.
    async fn work(
        &mut self,
        mut stream: TcpStream,
        target: &Target,
        batch: &mut Batch,
        random: &mut Random,
    ) -> Result<(), String> {
        let shared = self.shared.clone();
        let load = &shared.load;
        let mut made = Vec::new();
        loop {
            if shared.stopped.get() {
                return Ok(());
            }
            let keys: Vec<&str> = match load.count {
                None => (0..load.depth)
                    .map(|_| target.keys[random.below(target.keys.len() as u64) as usize].as_str())
                    .collect(),
                Some(count) => {
                    let Some(range) = self.give(batch, count) else { return Ok(()) };
                    made = range.map(key).collect();
                    made.iter().map(String::as_str).collect()
                }
            };
            self.protocol.ask(load.work, &keys, &shared.value, &mut self.output);
            let begun = Instant::now();
            let answers = self.answers(&mut stream, keys.len(), begun);
            timeout(load.timeout, answers).await.map_err(|_| "no answer in time".to_owned())??;
            batch.first = None;
            made.clear();
        }
    }

    async fn answers(&mut self, stream: &mut TcpStream, count: usize, begun: Instant) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            self.exchange(stream).await?;
            while let Some(event) = self.next()? {
                if let Event::Done(done) = event {
                    left = left.saturating_sub(done);
                    if self.shared.recording.get() {
                        let now = Instant::now();
                        self.shared.tally.borrow_mut().answered(done, now, now - begun);
                    }
                }
            }
        }
        Ok(())
    }

    /// The next numbers to be written; those of the batch that failed, if one did.
    fn give(&self, batch: &mut Batch, count: u64) -> Option<std::ops::Range<u64>> {
        let depth = self.shared.load.depth as u64;
        let first = batch.first.unwrap_or_else(|| {
            let first = self.shared.given.get();
            self.shared.given.set(first + depth);
            first
        });
        batch.first = Some(first);
        (first < count).then(|| first..(first + depth).min(count))
    }
}

/// Xorshift: which key comes next need not be a secret.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_from_the_last_answer_to_the_next_or_to_the_end() {
        let (mut tally, begun) = (Tally::new(), Instant::now());
        let at = |milliseconds: u64| begun + Duration::from_millis(milliseconds);
        for (milliseconds, count) in [(0, 1), (90, 1), (100, 16)] {
            tally.answered(count, at(milliseconds), Duration::from_millis(1));
        }
        assert_eq!(tally.gap, Duration::from_millis(90));
        assert_eq!(tally.latency.len(), 18);
        tally.begin_gap();
        tally.answered(1, at(105), Duration::from_millis(1));
        tally.look_at_gap(at(165));
        assert_eq!((tally.gap, tally.gap_began), (Duration::from_millis(60), Some(at(105))));
    }

    #[test]
    fn the_first_error_is_the_one_that_is_told() {
        let mut tally = Tally::new();
        tally.failed("one".to_owned());
        tally.failed("two".to_owned());
        assert_eq!((tally.errors, tally.first_error.as_str()), (2, "one"));
    }
}
