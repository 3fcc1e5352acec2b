//! Writing: batches go into the last file of the log, one sync makes all of them safe.
//!
//! ```text
//!   write ─▶ write ─▶ sync ─▶ all of it is safe
//!     └─ the file is full: the next one, a spare if there is one, gets its name once its head is safe
//! ```
//! A fault is final: after one, nothing more is written, and nothing that was not safe before is reported as such.

use crate::files::Files;
use crate::frame::{Batch, Effect, Header, Lsn, Owner};
use crate::image::{self, Image};
use crate::ledger::Ledger;
use crate::recovery::{self, Recovered};
use crate::segment::{self, HEAD, Head, Segment};
use atoll_types::{BucketId, Bug, planted};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use thiserror::Error;

/// Images that are asked for or written at a time. All at once would stop the shards for as long as everything takes;
/// one after another would let the log grow by a group for each.
const IMAGES_MOST: usize = 16;
/// What was added is written at once when it is as long as this.
const BUFFER_MOST: usize = 1 << 20;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of one file of the log.
    pub segment: u64,
    /// The log may be this long in any case…
    pub log_least: u64,
    /// … and this many times as long as what it is the log of.
    pub log_factor: u64,
    /// Files kept to be used again.
    pub spares: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::of(256 << 20)
    }
}

impl Settings {
    /// With a log of at least this length.
    pub fn of(log_least: u64) -> Settings {
        let segment = (log_least / 16).clamp(64 << 10, 16 << 20);
        Settings { segment, log_least, log_factor: 4, spares: 2 }
    }
}

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("cannot read {what}: {error}")]
    Read { what: String, error: io::Error },
    #[error("cannot write {what}: {error}")]
    Write { what: String, error: io::Error },
    #[error("{file} was written by a later version (format {format}); this one reads up to {}", segment::FORMAT)]
    Newer { file: String, format: u32 },
}

impl OpenError {
    pub(crate) fn reading(what: &str) -> impl Fn(io::Error) -> OpenError {
        move |error| OpenError::Read { what: what.to_owned(), error }
    }

    fn writing(what: &str) -> impl Fn(io::Error) -> OpenError {
        move |error| OpenError::Write { what: what.to_owned(), error }
    }
}

#[derive(Debug)]
pub struct Journal<F> {
    files: F,
    settings: Settings,
    /// In order; the last one is written to. Never empty.
    segments: VecDeque<Segment>,
    spares: VecDeque<String>,
    /// A file is being made ready.
    preparing: bool,
    /// Where the next frame goes in the last file.
    at: u64,
    next: Lsn,
    synced: Lsn,
    /// How far the log itself says that it was synced.
    marked: Lsn,
    ledger: Ledger,
    /// Images to be written.
    images: Vec<Image>,
    /// Buckets of which an image was asked for or is being written.
    imaging: BTreeSet<Owner>,
    buffer: Vec<u8>,
    failed: bool,
}

impl<F: Files> Journal<F> {
    /// Reads what is there and gets ready to go on behind it, in a new file. `progress` hears of bytes read.
    pub fn open(
        mut files: F,
        settings: Settings,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Journal<F>, Recovered), OpenError> {
        let read = recovery::read(&files, progress)?;
        let failed = OpenError::writing("the directory");
        for name in &read.rubbish {
            files.remove(name).map_err(&failed)?;
        }
        let mut segments: VecDeque<Segment> = read.segments.into();
        let last = segments.back().map_or(0, |segment| segment.number);
        if let (Some((number, end)), Some(segment)) = (read.end, segments.back_mut())
            && number == segment.number
            && (end as u64) < segment.length
        {
            // What stands behind the end must not be taken for a record later.
            let name = segment::name(number);
            files.cut(&name, end as u64).map_err(OpenError::writing(&name))?;
            files.sync(&name).map_err(OpenError::writing(&name))?;
            segment.length = end as u64;
        }
        let mut journal = Journal {
            files,
            settings,
            segments,
            spares: VecDeque::new(),
            preparing: false,
            at: 0,
            next: read.next,
            synced: Lsn(read.next.0 - 1),
            marked: Lsn(0),
            ledger: read.ledger,
            images: Vec::new(),
            imaging: BTreeSet::new(),
            buffer: Vec::new(),
            failed: false,
        };
        journal.begin_segment(last + 1).map_err(failed)?;
        Ok((journal, read.recovered))
    }

    /// Where the next record will stand.
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// Writes them at the end of the log. They are safe after the next `sync`.
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        self.add(batch)?;
        let written = self.flush();
        self.failed |= written.is_err();
        written
    }

    /// The same, without a write of their own: what was added goes out together, at the next `sync` at the latest.
    pub fn add(&mut self, batch: &Batch) -> io::Result<()> {
        self.refuse_after_fault()?;
        let added = self.add_parts(batch);
        self.failed |= added.is_err();
        added
    }

    fn add_parts(&mut self, batch: &Batch) -> io::Result<()> {
        let mut begin = 0;
        for part in &batch.parts {
            let body = &batch.bodies[begin..begin + part.length as usize];
            begin += body.len();
            let lsn = self.next;
            if let (Effect::Image, Owner::Bucket(bucket)) = (part.effect, part.owner) {
                // Its place in the log stays empty; it counts once it is safe.
                self.frame(None, &[], 0)?;
                if self.ledger.takes_image(bucket) {
                    self.images.push(Image::new(bucket, lsn, body, part.crc));
                } else {
                    self.imaging.remove(&part.owner);
                }
                continue;
            }
            self.frame(Some(part.owner), body, part.crc)?;
            self.ledger.note(lsn, part.owner, part.effect);
            if part.effect != Effect::Adds {
                self.imaging.remove(&part.owner);
            }
        }
        if self.buffer.len() >= BUFFER_MOST { self.flush() } else { Ok(()) }
    }

    /// One frame, into the buffer, and into the next file where this one is full.
    fn frame(&mut self, owner: Option<Owner>, body: &[u8], body_crc: u32) -> io::Result<()> {
        let header = Header { owner, lsn: self.next, synced: self.synced, length: body.len() as u32, body_crc };
        let place = self.at + self.buffer.len() as u64;
        let room = self.segments.back().map_or(0, |segment| segment.length);
        if place + header.size() as u64 > room {
            self.roll(header.size() as u64)?;
        }
        let salt = self.segments.back().map_or(0, |segment| segment.number);
        let begin = self.buffer.len();
        header.put(salt, &mut self.buffer);
        self.buffer.extend_from_slice(body);
        self.buffer.resize(begin + header.size(), 0);
        self.next = self.next.next();
        self.marked = self.synced;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(segment) = self.segments.back() else { return Ok(()) };
        if !self.buffer.is_empty() {
            self.files.write(&segment::name(segment.number), self.at, &self.buffer)?;
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Goes on in the next file, which has room for a frame of this size.
    fn roll(&mut self, size: u64) -> io::Result<()> {
        self.flush()?;
        let Some(number) = self.segments.back().map(|segment| segment.number) else { return Ok(()) };
        self.files.sync(&segment::name(number))?;
        self.synced = Lsn(self.next.0 - 1);
        if size + HEAD as u64 > self.settings.segment {
            self.begin_with(number + 1, size + HEAD as u64)
        } else {
            self.begin_segment(number + 1)
        }
    }

    fn begin_segment(&mut self, number: u64) -> io::Result<()> {
        match self.spares.pop_front() {
            Some(spare) => self.name_segment(spare, number, self.settings.segment),
            None => self.begin_with(number, self.settings.segment),
        }
    }

    fn begin_with(&mut self, number: u64, length: u64) -> io::Result<()> {
        let aside = format!("{}.new", segment::name(number));
        self.files.create(&aside, length)?;
        self.name_segment(aside, number, length)
    }

    /// A file gets its name in the log only once its head is safe.
    fn name_segment(&mut self, spare: String, number: u64, length: u64) -> io::Result<()> {
        let head = Head { number, first: self.next, synced: self.synced };
        self.files.write(&spare, 0, &head.bytes())?;
        self.files.sync(&spare)?;
        self.files.rename(&spare, &segment::name(number))?;
        self.files.sync_directory()?;
        self.segments.push_back(Segment { number, first: self.next, length });
        self.at = HEAD as u64;
        Ok(())
    }

    /// Makes everything safe that was written. A fault is final: what the disk has then, nobody knows.
    pub fn sync(&mut self) -> io::Result<()> {
        self.refuse_after_fault()?;
        let Some(number) = self.segments.back().map(|segment| segment.number) else { return Ok(()) };
        let name = segment::name(number);
        let synced =
            self.flush().and_then(|()| if planted(Bug::SyncNotDone) { Ok(()) } else { self.files.sync(&name) });
        match synced {
            Ok(()) => self.synced = Lsn(self.next.0 - 1),
            Err(_) => self.failed = true,
        }
        synced
    }

    /// With nothing else to write: has the log itself say how far it is safe, so that damage to its end is known as
    /// such. Costs no sync.
    pub fn mark(&mut self) -> io::Result<()> {
        self.refuse_after_fault()?;
        if self.marked == self.synced {
            return Ok(());
        }
        let marked = self.frame(None, &[], 0).and_then(|()| self.flush());
        self.failed |= marked.is_err();
        // The mark itself need not be marked.
        self.marked = self.synced;
        marked
    }

    fn refuse_after_fault(&self) -> io::Result<()> {
        if self.failed { Err(io::Error::other("an earlier write or sync failed")) } else { Ok(()) }
    }

    /// Of what is still needed, in the log and in images.
    pub fn live_bytes(&self) -> u64 {
        self.ledger.live_bytes()
    }

    /// Whose image should be made next, so that the log can be cut: the cluster's is a checkpoint. Each is told once;
    /// several may be under way.
    pub fn wants_image(&mut self) -> Option<Owner> {
        let log = self.log_bytes();
        let most = self.settings.log_least.max(self.ledger.live_bytes().saturating_mul(self.settings.log_factor));
        // Early enough that the images are there before the log is too long.
        if self.segments.len() < 2 || log <= most / 2 || self.imaging.len() >= IMAGES_MOST {
            return None;
        }
        let owner = self.ledger.oldest(self.cut_for(most / 2), &self.imaging)?;
        self.imaging.insert(owner).then_some(owner)
    }

    /// If nothing before this were needed, the log could be cut to this length.
    fn cut_for(&self, length: u64) -> Lsn {
        let mut rest = self.log_bytes();
        for (gone, next) in self.segments.iter().zip(self.segments.iter().skip(1)) {
            rest -= gone.length;
            if rest <= length {
                return next.first;
            }
        }
        self.next
    }

    /// What was asked for and never came may be asked for again.
    pub fn ask_again(&mut self) {
        self.imaging.clear();
    }

    /// Images to be written now, by whoever calls; each is to be reported by `on_image`.
    pub fn take_images(&mut self) -> Vec<Image> {
        std::mem::take(&mut self.images)
    }

    /// This image is safe.
    pub fn on_image(&mut self, bucket: BucketId, lsn: Lsn, length: u64) {
        self.imaging.remove(&Owner::Bucket(bucket));
        self.ledger.on_image(bucket, lsn, length);
    }

    /// Gives up files that hold nothing of use; some are kept to be written again. Only what is safe counts, so this
    /// is for right after a sync.
    pub fn trim(&mut self) -> io::Result<()> {
        self.refuse_after_fault()?;
        let obsolete = self.ledger.take_obsolete(self.synced);
        for (bucket, lsn) in &obsolete {
            self.files.remove(&image::name(*bucket, *lsn))?;
        }
        if !obsolete.is_empty() && !planted(Bug::RenameNotSynced) {
            // Before the log forgets why: an image that came back would bring a copy back that is gone.
            self.files.sync_directory()?;
        }
        let needed =
            if planted(Bug::LogCutTooFar) { self.ledger.floor_of(Owner::Cluster) } else { self.ledger.floor() };
        let floor = needed.unwrap_or(self.next).min(self.synced.next());
        while self.segments.get(1).is_some_and(|second| second.first <= floor) {
            let Some(segment) = self.segments.pop_front() else { break };
            let name = segment::name(segment.number);
            if self.spares.len() < self.settings.spares && segment.length == self.settings.segment {
                let spare = segment::spare_name(segment.number);
                self.files.rename(&name, &spare)?;
                self.spares.push_back(spare);
            } else {
                self.files.remove(&name)?;
            }
            // One after another: a gap in the middle would look like damage.
            self.files.sync_directory()?;
        }
        Ok(())
    }

    /// Bytes of the files of the log.
    pub fn log_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// The name of a file that should be made ready in advance, with this length; then `add_spare`.
    pub fn wants_spare(&mut self) -> Option<(String, u64)> {
        if !self.spares.is_empty() || self.preparing {
            return None;
        }
        self.preparing = true;
        let number = self.segments.back()?.number + 1;
        Some((segment::spare_name(number), self.settings.segment))
    }

    pub fn add_spare(&mut self, name: String) {
        self.preparing = false;
        self.spares.push_back(name);
    }

    /// For whoever breaks it on purpose.
    pub fn files(&mut self) -> &mut F {
        &mut self.files
    }
}
