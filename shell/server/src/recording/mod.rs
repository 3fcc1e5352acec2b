//! Recordings of a node that runs (`--record DIR`): a file for each of its machines, to be run again by `atoll replay`.
//!
//! ```text
//!   cluster thread ─┐                         ┌─▶ n1-cluster-….rec
//!   shard thread 0 ─┼─ bytes ─▶ one thread ───┼─▶ n1-shard-0-….rec
//!   shard thread 1 ─┘                         └─▶ n1-shard-1-….rec
//! ```
//!
//! A machine never waits for the files. Where they cannot be written in time, or have reached their limit, a recording
//! ends and says why; one with a gap would be worth nothing. What was not yet written is lost with the process.
//!
//! Not here: the bytes of a recording (`atoll_wire::recording`), what a machine is given (`taped`).

mod taped;

pub(crate) use taped::Taped;

use atoll_types::Time;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, info};

/// Bytes that may wait to be written. A disk that is slower than this for good cannot keep up.
const QUEUE_MOST: u64 = 64 << 20;
/// How long whoever may wait does so before it looks again.
const LOOK: Duration = Duration::from_millis(1);

/// What all machines of a node share.
#[derive(Debug)]
struct Shared {
    /// Bytes that may be recorded, over all machines; 0: as many as there are.
    limit: u64,
    /// Bytes that were recorded.
    taken: AtomicU64,
    /// Bytes that are not yet written.
    waiting: AtomicU64,
    /// The files could not be written: nobody records any more.
    failed: AtomicBool,
}

impl Shared {
    fn is_full(&self) -> bool {
        self.limit > 0 && self.taken.load(Ordering::Relaxed) >= self.limit
    }

    fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > QUEUE_MOST
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// To the end of a file.
#[derive(Debug)]
struct Piece {
    file: Arc<(PathBuf, File)>,
    bytes: Vec<u8>,
}

/// The recordings of a node. The thread that writes them ends when this and every `Reel` is gone.
#[derive(Debug)]
pub(crate) struct Recordings {
    folder: PathBuf,
    /// What the files of this node begin with.
    name: String,
    started: Time,
    shared: Arc<Shared>,
    pieces: Sender<Piece>,
    thread: JoinHandle<()>,
}

impl Recordings {
    /// Fails where nothing can be written to the folder: whoever wants a recording wants to know at once.
    pub(crate) fn start(folder: &Path, name: &str, limit: u64, now: Time) -> io::Result<Recordings> {
        // What clients write stands in it.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let shared = Shared { limit, taken: 0.into(), waiting: 0.into(), failed: false.into() };
        let shared = Arc::new(shared);
        let (pieces, incoming) = channel();
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new().name(format!("{name} recorder")).spawn(move || write(&incoming, &shared))?
        };
        info!(limit, "everything that this node is told is recorded in {}", folder.display());
        let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-', "_");
        Ok(Recordings { folder: folder.to_owned(), name, started: now, shared, pieces, thread })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file of its own, for one machine.
    pub(crate) fn reel(&self, machine: atoll_wire::Machine) -> io::Result<Reel> {
        let path = self.folder.join(format!("{}-{}-{machine}.rec", self.name, self.started.0));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Reel { file: Arc::new((path, file)), shared: self.shared.clone(), pieces: self.pieces.clone() })
    }

    /// Once the machines are gone: returns when all that they recorded is written.
    pub(crate) fn finish(self) {
        let Recordings { pieces, thread, .. } = self;
        drop(pieces);
        let _ = thread.join();
    }
}

fn write(incoming: &Receiver<Piece>, shared: &Shared) {
    while let Ok(Piece { file, bytes }) = incoming.recv() {
        let (path, file) = (&file.0, &file.1);
        let mut place: &File = file;
        if !shared.has_failed()
            && let Err(error) = place.write_all(&bytes)
        {
            shared.failed.store(true, Ordering::Relaxed);
            error!(%error, "{} cannot be written: the recordings of this node end; the node goes on", path.display());
        }
        shared.waiting.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
    }
}

/// The way to one file.
#[derive(Debug)]
pub(crate) struct Reel {
    file: Arc<(PathBuf, File)>,
    shared: Arc<Shared>,
    pieces: Sender<Piece>,
}

impl Reel {
    /// Never waits.
    fn send(&self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.shared.taken.fetch_add(length, Ordering::Relaxed);
        self.shared.waiting.fetch_add(length, Ordering::Relaxed);
        let _ = self.pieces.send(Piece { file: self.file.clone(), bytes });
    }

    /// Waits until there is room: for what a machine starts from, while nobody waits for it.
    fn send_in_time(&self, bytes: Vec<u8>) {
        while self.shared.is_behind() && !self.shared.has_failed() {
            std::thread::sleep(LOOK);
        }
        self.send(bytes);
    }

    fn path(&self) -> std::path::Display<'_> {
        self.file.0.display()
    }
}
