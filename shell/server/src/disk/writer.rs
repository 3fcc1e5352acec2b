//! The thread that writes: everything that waits goes out in one write and one sync, then whoever ordered it hears.
//!
//! A second thread does what takes long and nobody waits for: images, and files made ready.

use super::Meter;
use crate::cluster::ToCluster;
use crate::scheduling::{Scheduling, schedule};
use crate::shard::ToShard;
use crate::switch::Switch;
use atoll_journal::{Batch, Files, Image, Journal, Lsn, Owner};
use atoll_node::Input;
use atoll_node::shard::door::ShardInput;
use atoll_types::{BucketId, BucketRecord, HashSlot, JournalSeq, Record};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// With nothing to write for this long, the log itself says how far it is safe.
const IDLE: Duration = Duration::from_millis(100);
/// What was asked for and has not come is asked for again.
const AGAIN: Duration = Duration::from_secs(10);

/// A machine of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Cluster,
    Shard(usize),
}

#[derive(Debug)]
enum Work {
    Records { machine: Machine, through: JournalSeq, batch: Batch, since: Instant },
    Imaged { bucket: BucketId, lsn: Lsn, length: u64 },
    Spare(String),
    Failed(io::Error),
    Stop,
}

#[derive(Debug)]
enum Chore {
    Image(Image),
    Spare(String, u64),
}

/// Where a machine puts what is to be written. Nothing is sent before `send`, and then all at once.
#[derive(Debug)]
pub(crate) struct Desk {
    machine: Machine,
    batch: Batch,
    through: JournalSeq,
    writer: Sender<Work>,
    switch: Arc<Switch>,
}

impl Desk {
    pub(crate) fn add(&mut self, seq: JournalSeq, record: &Record) {
        if matches!(record, Record::Bucket(BucketRecord::Copied { .. })) {
            Meter::add(&self.switch.disk.copied, 1);
        }
        self.batch.add(record);
        self.through = seq;
    }

    pub(crate) fn send(&mut self) {
        if !self.batch.is_empty() {
            let (machine, through, batch) = (self.machine, self.through, std::mem::take(&mut self.batch));
            // A writer that is gone has failed or was stopped: nothing is safe any more, and nobody says so.
            let _ = self.writer.send(Work::Records { machine, through, batch, since: Instant::now() });
        }
    }
}

/// The writer's thread. Stopped, it writes what has reached it.
#[derive(Debug)]
pub(crate) struct Writer {
    sender: Sender<Work>,
    switch: Arc<Switch>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// `files` are those of the journal, for the second thread. `taken` is kept until both have ended. `failed` hears
    /// the one fault there can be.
    pub(crate) fn start<F: Files + Send + 'static>(
        name: &str,
        scheduling: Scheduling,
        taken: impl Send + 'static,
        journal: Journal<F>,
        files: F,
        switch: Arc<Switch>,
        failed: impl Fn(io::Error) + Send + 'static,
    ) -> io::Result<Writer> {
        let (sender, receiver) = channel();
        let (chores, for_chores) = channel();
        let back = sender.clone();
        let named = |what: &str| std::thread::Builder::new().name(format!("{name} {what}"));
        // As the system schedules it: the log grows for as long as an image takes.
        let chores_thread = named("images").spawn(move || do_chores(files, &for_chores, &back))?;
        let desk = Desktop { journal, switch: switch.clone(), chores, asked: Instant::now() };
        let thread = named("disk").spawn(move || {
            schedule(scheduling);
            let _taken = taken; // Until the last write is done, of either thread.
            if let Err(error) = desk.run(&receiver) {
                failed(error);
            }
            drop(receiver);
            let _ = chores_thread.join();
        })?;
        Ok(Writer { sender, switch, thread: Some(thread) })
    }

    pub(crate) fn desk(&self, machine: Machine) -> Desk {
        let (writer, switch) = (self.sender.clone(), self.switch.clone());
        Desk { machine, batch: Batch::default(), through: JournalSeq(0), writer, switch }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.sender.send(Work::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Desktop<F> {
    journal: Journal<F>,
    switch: Arc<Switch>,
    chores: Sender<Chore>,
    /// When what is missing was last asked for.
    asked: Instant,
}

impl<F: Files> Desktop<F> {
    fn run(mut self, receiver: &Receiver<Work>) -> io::Result<()> {
        self.order_chores();
        let mut safe: Vec<(Machine, JournalSeq)> = Vec::new();
        let mut handed: Vec<Instant> = Vec::new();
        loop {
            let first = match receiver.recv_timeout(IDLE) {
                Ok(work) => work,
                Err(RecvTimeoutError::Timeout) => {
                    self.journal.mark()?;
                    self.order_chores();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut stop = false;
            for work in std::iter::once(first).chain(receiver.try_iter()) {
                match work {
                    Work::Records { machine, through, batch, since } => {
                        Meter::add(&self.switch.disk.records, batch.len() as u64);
                        Meter::add(&self.switch.disk.bytes, batch.bytes() as u64);
                        self.journal.add(&batch)?;
                        handed.push(since);
                        match safe.iter_mut().find(|(other, _)| *other == machine) {
                            Some((_, last)) => *last = through,
                            None => safe.push((machine, through)),
                        }
                    }
                    Work::Imaged { bucket, lsn, length } => {
                        Meter::add(&self.switch.disk.images, 1);
                        self.journal.on_image(bucket, lsn, length);
                    }
                    Work::Spare(name) => self.journal.add_spare(name),
                    Work::Failed(error) => return Err(error),
                    Work::Stop => stop = true,
                }
            }
            if !safe.is_empty() {
                let begun = Instant::now();
                self.journal.sync()?;
                self.switch.disk.synced(begun.elapsed(), self.journal.log_bytes());
                safe.drain(..).for_each(|(machine, through)| self.tell(machine, through));
                handed.drain(..).for_each(|since| self.switch.persist.count(since.elapsed()));
            }
            if stop {
                return Ok(());
            }
            self.journal.trim()?;
            self.order_chores();
            self.switch.live_bytes.set(self.journal.live_bytes());
        }
    }

    fn tell(&self, machine: Machine, through: JournalSeq) {
        match machine {
            Machine::Cluster => self.switch.cluster.push(ToCluster::Input(Input::Persisted(through))),
            Machine::Shard(shard) => self.switch.shards[shard].push(ToShard::Input(ShardInput::Persisted(through))),
        }
    }

    /// What makes the log shorter, and the next file.
    fn order_chores(&mut self) {
        if self.asked.elapsed() >= AGAIN {
            self.journal.ask_again();
            self.asked = Instant::now();
        }
        while let Some(owner) = self.journal.wants_image() {
            match owner {
                Owner::Cluster => self.switch.cluster.push(ToCluster::Input(Input::Condense(None))),
                Owner::Bucket(bucket) => {
                    let shard = self.switch.shard_of(HashSlot(bucket.0));
                    self.switch.shards[shard].push(ToShard::Input(ShardInput::Condense(bucket)));
                }
            }
        }
        for image in self.journal.take_images() {
            let _ = self.chores.send(Chore::Image(image));
        }
        if let Some((name, length)) = self.journal.wants_spare() {
            let _ = self.chores.send(Chore::Spare(name, length));
        }
    }
}

fn do_chores(mut files: impl Files, chores: &Receiver<Chore>, back: &Sender<Work>) {
    while let Ok(chore) = chores.recv() {
        let done = match chore {
            Chore::Image(image) => {
                let (bucket, lsn, length) = (image.bucket, image.lsn, image.len());
                let written = image.write(&mut files);
                // An open file keeps its room on the disk, also when a later image has taken its place.
                files.close_all();
                written.map(|()| Work::Imaged { bucket, lsn, length })
            }
            Chore::Spare(name, length) => {
                let made = files.create(&name, length).and_then(|()| files.sync(&name));
                files.close_all(); // It is the writer's from now on.
                made.map(|()| Work::Spare(name))
            }
        };
        if back.send(done.unwrap_or_else(Work::Failed)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_journal::Settings;
    use atoll_journal::memory::Memory;
    use atoll_types::Slot;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// Files whose syncs or writes fail when that is wanted.
    #[derive(Debug, Default)]
    struct Faulty {
        files: Memory,
        fails: Arc<Fails>,
    }

    #[derive(Debug, Default)]
    struct Fails {
        sync: AtomicBool,
        write: AtomicBool,
        create: AtomicBool,
        syncs: AtomicU32,
        /// A sync waits for whoever holds it.
        gate: Mutex<()>,
    }

    fn fault(is: &AtomicBool) -> io::Result<()> {
        // Once: whoever tried again would succeed, and must not.
        if is.swap(false, Ordering::SeqCst) { Err(io::Error::other("no luck")) } else { Ok(()) }
    }

    impl Files for Faulty {
        fn list(&self) -> io::Result<Vec<String>> {
            self.files.list()
        }
        fn read(&self, name: &str) -> io::Result<Vec<u8>> {
            self.files.read(name)
        }
        fn create(&mut self, name: &str, length: u64) -> io::Result<()> {
            fault(&self.fails.create).and_then(|()| self.files.create(name, length))
        }
        fn write(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
            fault(&self.fails.write).and_then(|()| self.files.write(name, at, bytes))
        }
        fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
            self.files.cut(name, length)
        }
        fn sync(&mut self, name: &str) -> io::Result<()> {
            self.fails.syncs.fetch_add(1, Ordering::SeqCst);
            drop(self.fails.gate.lock());
            fault(&self.fails.sync).and_then(|()| self.files.sync(name))
        }
        fn sync_directory(&mut self) -> io::Result<()> {
            self.files.sync_directory()
        }
        fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
            self.files.rename(from, to)
        }
        fn remove(&mut self, name: &str) -> io::Result<()> {
            self.files.remove(name)
        }
    }

    struct Bench {
        fails: Arc<Fails>,
        switch: Arc<Switch>,
        writer: Writer,
        told: Receiver<String>,
    }

    fn bench() -> Bench {
        let fails = Arc::new(Fails::default());
        let files = Faulty { fails: fails.clone(), ..Faulty::default() };
        let settings = Settings { segment: 64 << 10, log_least: 1 << 20, log_factor: 4, spares: 1 };
        let (journal, _) = Journal::open(files, settings, &mut |_| {}).expect("nothing to read");
        let (switch, (tell, told)) = (Arc::new(Switch::new(1)), channel());
        let failed = move |error: io::Error| drop(tell.send(error.to_string()));
        let writer = Writer::start("test", Scheduling::Normal, (), journal, Faulty::default(), switch.clone(), failed)
            .expect("threads");
        Bench { fails, switch, writer, told }
    }

    /// Hands one record in and waits: for its being safe, or for the fault.
    fn write(bench: &Bench, seq: u64) -> Result<(), String> {
        let mut desk = bench.writer.desk(Machine::Cluster);
        desk.add(JournalSeq(seq), &Record::Decided(Slot(seq)));
        desk.send();
        let begun = Instant::now();
        let mut batch = Vec::new();
        while begun.elapsed() < Duration::from_secs(20) {
            bench.switch.cluster.take(&mut batch);
            let safe =
                |item: &ToCluster| matches!(item, ToCluster::Input(Input::Persisted(safe)) if *safe == JournalSeq(seq));
            if batch.drain(..).any(|item| safe(&item)) {
                return Ok(());
            }
            if let Ok(error) = bench.told.recv_timeout(Duration::from_millis(1)) {
                bench.switch.cluster.take(&mut batch);
                assert!(!batch.iter().any(safe), "nothing is safe after a fault");
                return Err(error);
            }
        }
        panic!("neither safe nor failed")
    }

    #[test]
    fn a_failed_sync_is_final_and_nothing_is_reported_safe_after_it() {
        let bench = bench();
        assert_eq!(write(&bench, 1), Ok(()));
        bench.fails.sync.store(true, Ordering::SeqCst);
        assert_eq!(write(&bench, 2), Err("no luck".to_owned()));
        // The writer has ended: a second sync, which would succeed, is never tried.
        let syncs = bench.fails.syncs.load(Ordering::SeqCst);
        let mut desk = bench.writer.desk(Machine::Cluster);
        desk.add(JournalSeq(3), &Record::Decided(Slot(3)));
        desk.send();
        let Bench { fails, switch, writer, .. } = bench;
        drop(writer);
        let mut batch = Vec::new();
        switch.cluster.take(&mut batch);
        assert!(batch.is_empty(), "{batch:?}");
        assert_eq!(fails.syncs.load(Ordering::SeqCst), syncs);
    }

    #[test]
    fn a_failed_write_is_final_as_well() {
        let bench = bench();
        assert_eq!(write(&bench, 1), Ok(()));
        bench.fails.write.store(true, Ordering::SeqCst);
        assert_eq!(write(&bench, 2), Err("no luck".to_owned()));
    }

    #[test]
    fn what_waits_shares_a_sync() {
        let bench = bench();
        let mut desks: Vec<Desk> = (0..8).map(|_| bench.writer.desk(Machine::Cluster)).collect();
        let before = Meter::read(&bench.switch.disk.syncs);
        let held = bench.fails.gate.lock();
        for seq in 1..=400 {
            let desk = &mut desks[seq as usize % 8];
            desk.add(JournalSeq(seq), &Record::Decided(Slot(seq)));
            desk.send();
        }
        drop(held);
        assert_eq!(write(&bench, 401), Ok(()));
        let (syncs, records) = (Meter::read(&bench.switch.disk.syncs), Meter::read(&bench.switch.disk.records));
        assert_eq!(records, 401);
        assert!(syncs - before <= 3, "{syncs}: the one that was held up, one for all that came meanwhile, the last");
    }
}
