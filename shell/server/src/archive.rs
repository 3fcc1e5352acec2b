//! A backup: a directory with the states of all buckets, each as of a committed position, and a manifest.
//!
//! ```text
//! DIR/manifest            what belongs to the backup, with lengths and checksums; its last line is its own checksum
//! DIR/bucket-FIRST-…      the state of one bucket, as a snapshot has it; named by what it is of, and never changed
//! DIR/lock                held while a backup is written
//! ```
//!
//! A new backup is written beside the one that is there: files of other names, then the manifest, aside and renamed;
//! only then what nothing names any more goes. Whenever it is interrupted, the one before is whole.
//!
//! Not here: where the states come from and go to (`atoll backup`, `atoll restore`).

use crate::disk;
use atoll_node::store::Store;
use atoll_replica::Copy;
use atoll_types::{BucketSnapshot, HashSlot, Position, SlotRange};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Of the manifest and of the files it names.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest";

#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("cannot use {path} for a backup: {error}")]
    Unusable { path: String, error: io::Error },
    #[error("{path} is not empty, and no backup of atoll; say another directory")]
    NotOurs { path: String },
    #[error("there is no backup in {path}")]
    Missing { path: String },
    #[error("another process writes a backup to {path}{by}")]
    Locked { path: String, by: String },
    #[error("{path} was written by a later version (format {format}, this one reads up to {FORMAT})")]
    Newer { path: String, format: u32 },
    #[error("the backup in {path} is damaged: {what}")]
    Damaged { path: String, what: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Of which cluster.
    pub cluster: String,
    /// When it was begun: microseconds since 1970.
    pub begun: u64,
    /// What wrote it.
    pub version: String,
    /// By their first slots; together they are all slots.
    pub buckets: Vec<Part>,
}

/// The state of one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub first: u16,
    pub last: u16,
    pub position: String,
    pub file: String,
    pub length: u64,
    /// crc32c
    pub checksum: u32,
}

impl Manifest {
    pub fn new(cluster: &str, begun: u64) -> Manifest {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Manifest { format: FORMAT, cluster: cluster.to_owned(), begun, version, buckets: Vec::new() }
    }

    pub fn bytes(&self) -> u64 {
        self.buckets.iter().map(|part| part.length).sum()
    }

    /// Do the parts hold every slot once?
    fn is_whole(&self) -> bool {
        let next = self.buckets.iter().try_fold(0, |next, part| {
            (part.first == next && part.last >= part.first && part.last < HashSlot::COUNT).then(|| part.last + 1)
        });
        next == Some(HashSlot::COUNT)
    }
}

/// A backup that is there. None: the directory is empty, or does not exist.
pub fn load(path: &Path) -> Result<Option<Manifest>, ArchiveError> {
    let shown = || path.display().to_string();
    let damaged = |what: &str| ArchiveError::Damaged { path: shown(), what: what.to_owned() };
    let text = match fs::read_to_string(path.join(MANIFEST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged("its manifest is no text")),
        Err(error) => return Err(ArchiveError::Unusable { path: shown(), error }),
    };
    let (json, checksum) = text.trim_end().rsplit_once('\n').ok_or_else(|| damaged("its manifest is cut off"))?;
    if checksum != checksum_line(json) {
        return Err(damaged("the checksum of its manifest is wrong"));
    }
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let format: Format = serde_json::from_str(json).map_err(|_| damaged("its manifest says nothing"))?;
    if format.format > FORMAT {
        return Err(ArchiveError::Newer { path: shown(), format: format.format });
    }
    let manifest: Manifest = serde_json::from_str(json).map_err(|_| damaged("its manifest says nothing"))?;
    if manifest.is_whole() { Ok(Some(manifest)) } else { Err(damaged("it does not hold all slots")) }
}

fn checksum_line(json: &str) -> String {
    format!("crc32c {:08x}", crc32c::crc32c(json.as_bytes()))
}

/// The state of one bucket, checked.
pub fn open(path: &Path, part: &Part) -> Result<Copy, ArchiveError> {
    let damaged = |what: String| ArchiveError::Damaged { path: path.display().to_string(), what };
    let bytes = fs::read(path.join(&part.file)).map_err(|error| damaged(format!("{}: {error}", part.file)))?;
    if bytes.len() as u64 != part.length {
        return Err(damaged(format!("{} has {} bytes instead of {}", part.file, bytes.len(), part.length)));
    }
    let position: Position = part.position.parse().map_err(|_| damaged(format!("{} has no position", part.file)))?;
    let snapshot = BucketSnapshot { mark: position.mark, checksum: part.checksum, bytes: bytes.into() };
    let range = SlotRange { first: HashSlot(part.first), last: HashSlot(part.last) };
    let copy = Copy::open(&snapshot, &Store::new()).filter(|copy| copy.range == range);
    copy.ok_or_else(|| damaged(format!("the checksum of {} is wrong", part.file)))
}

/// A backup that is being written.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    _lock: File,
    /// The one that is there.
    pub before: Option<Manifest>,
}

impl Archive {
    pub fn begin(path: &Path) -> Result<Archive, ArchiveError> {
        let shown = path.display().to_string();
        let unusable = |error| ArchiveError::Unusable { path: shown.clone(), error };
        fs::create_dir_all(path).map_err(unusable)?;
        let before = load(path)?;
        let foreign = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| !is_ours(&entry.file_name()));
        if before.is_none() && fs::read_dir(path).map_err(unusable)?.any(foreign) {
            return Err(ArchiveError::NotOurs { path: shown });
        }
        let lock = disk::lock(path).map_err(|error| match error {
            Ok(by) => ArchiveError::Locked { path: shown.clone(), by },
            Err(error) => unusable(error),
        })?;
        Ok(Archive { path: path.to_owned(), _lock: lock, before })
    }

    fn unusable(&self) -> impl Fn(io::Error) -> ArchiveError {
        let path = self.path.display().to_string();
        move |error| ArchiveError::Unusable { path: path.clone(), error }
    }

    /// What is there already of the bucket that begins with this slot, if it is of this cluster and whole.
    pub fn known(&self, cluster: &str, first: u16) -> Option<&Part> {
        let before = self.before.as_ref().filter(|before| before.cluster == cluster)?;
        let part = before.buckets.iter().find(|part| part.first == first)?;
        open(&self.path, part).ok().map(|_| part)
    }

    /// Keeps the state of a bucket. What arrived wrong is refused.
    pub fn keep(
        &self,
        range: SlotRange,
        position: Position,
        bytes: &[u8],
        checksum: u32,
    ) -> Result<Part, ArchiveError> {
        let text = position.to_string();
        let file = format!("bucket-{:05}-{}", range.first.0, text.replace(['/', ':'], "_"));
        let (first, last, length) = (range.first.0, range.last.0, bytes.len() as u64);
        let part = Part { first, last, position: text, file, length, checksum };
        let name = self.path.join(&part.file);
        self.write(&name, bytes).map_err(self.unusable())?;
        open(&self.path, &part).map(|_| part)
    }

    fn write(&self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        let aside = name.with_extension("new");
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, name)?;
        File::open(&self.path)?.sync_all()
    }

    /// The new backup takes the place of the one before.
    pub fn finish(self, manifest: &Manifest) -> Result<(), ArchiveError> {
        let path = self.path.display().to_string();
        if !manifest.is_whole() {
            return Err(ArchiveError::Damaged { path, what: "it does not hold all slots".to_owned() });
        }
        let json = serde_json::to_string_pretty(manifest).expect("numbers and texts");
        let text = format!("{json}\n{}\n", checksum_line(&json));
        self.write(&self.path.join(MANIFEST), text.as_bytes()).map_err(self.unusable())?;
        let named = |name: &str| manifest.buckets.iter().any(|part| part.file == name);
        for entry in fs::read_dir(&self.path).map_err(self.unusable())?.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with("bucket-") && !named(name)) {
                // Left over it takes room, and nothing else.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

fn is_ours(name: &std::ffi::OsStr) -> bool {
    let ours = |name: &str| name.starts_with("bucket-") || matches!(name, "lock" | "manifest.new" | "lost+found");
    name.to_str().is_some_and(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_replica::Sessions;
    use atoll_types::{BucketId, Mark};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("atoll-archive-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Scratch(path)
        }

        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn state(first: u16, last: u16, offset: u64) -> (SlotRange, Position, BucketSnapshot) {
        let range = SlotRange { first: HashSlot(first), last: HashSlot(last) };
        let mark = Mark { offset: atoll_types::Offset(offset), ..Mark::default() };
        let copy = Copy::empty(range, mark, Sessions::default(), Box::new(Store::new()));
        (range, Position { bucket: BucketId(first), mark }, copy.snapshot())
    }

    fn write(path: &Path, offset: u64, finish: bool) {
        let archive = Archive::begin(path).expect("a directory");
        let mut manifest = Manifest::new("c", 1);
        for (first, last) in [(0, 8191), (8192, 16383)] {
            let (range, position, snapshot) = state(first, last, offset);
            let part =
                archive.keep(range, position, snapshot.bytes.as_slice(), snapshot.checksum).expect("it is whole");
            manifest.buckets.push(part);
        }
        if finish {
            archive.finish(&manifest).expect("all slots are there");
        }
    }

    #[test]
    fn an_interrupted_backup_leaves_the_one_before() {
        let directory = Scratch::new("interrupted");
        write(directory.path(), 5, true);
        let before = load(directory.path()).expect("a backup").expect("a backup");
        write(directory.path(), 9, false);
        assert_eq!(load(directory.path()).expect("a backup"), Some(before.clone()));
        before.buckets.iter().for_each(|part| drop(open(directory.path(), part).expect("it is whole")));
        write(directory.path(), 9, true);
        let after = load(directory.path()).expect("a backup").expect("a backup");
        assert!(after.buckets.iter().all(|part| part.position.ends_with("/9")));
        assert_eq!(fs::read_dir(directory.path()).expect("files").count(), 4, "two buckets, manifest, lock");
    }

    #[test]
    fn damage_is_told() {
        let directory = Scratch::new("damage");
        let path = directory.path();
        write(path, 5, true);
        let manifest = load(path).expect("a backup").expect("a backup");
        let file = path.join(&manifest.buckets[1].file);
        let mut bytes = fs::read(&file).expect("bytes");
        bytes[7] ^= 1;
        fs::write(&file, &bytes).expect("bytes");
        assert!(open(path, &manifest.buckets[0]).is_ok());
        let told = open(path, &manifest.buckets[1]).expect_err("a bit is wrong").to_string();
        assert!(told.contains("checksum of bucket-08192"), "{told}");
        let text = fs::read_to_string(path.join(MANIFEST)).expect("text");
        fs::write(path.join(MANIFEST), text.replace("8191", "8190")).expect("text");
        assert!(load(path).expect_err("it was changed").to_string().contains("checksum of its manifest"));
    }

    #[test]
    fn another_directory_is_left_alone_and_one_backup_is_written_at_a_time() {
        let directory = Scratch::new("one");
        let _one = Archive::begin(directory.path()).expect("it is empty");
        assert!(matches!(Archive::begin(directory.path()), Err(ArchiveError::Locked { .. })));
        let other = Scratch::new("other");
        fs::write(other.path().join("thesis"), b"words").expect("a file");
        assert!(matches!(Archive::begin(other.path()), Err(ArchiveError::NotOurs { .. })));
    }
}
