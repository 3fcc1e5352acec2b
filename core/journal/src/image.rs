//! Images: what a bucket's copy was at one position of the log, in a file of its own. Written aside and renamed, so
//! that a file of that name is whole, or damaged later.
//!
//! ```text
//! "ATOLLIMG" │ format u32 │ 0 u32 │ one frame, salted with its position
//! ```

use crate::files::Files;
use crate::frame::{self, Header, Lsn, Owner};
use crate::segment::FORMAT;
use atoll_types::{BucketId, Bug, Record, planted};
use atoll_wire::codec;
use std::io;

const MAGIC: &[u8; 8] = b"ATOLLIMG";
const HEAD: usize = 16;

/// An image to be written.
#[derive(Debug)]
pub struct Image {
    pub bucket: BucketId,
    pub lsn: Lsn,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn name(bucket: BucketId, lsn: Lsn) -> String {
    format!("image-{:05}-{:016x}", bucket.0, lsn.0)
}

/// Reads only what `name` writes.
pub(crate) fn parse(of: &str) -> Option<(BucketId, Lsn)> {
    let (bucket, lsn) = of.strip_prefix("image-")?.split_once('-')?;
    let (bucket, lsn) = (BucketId(bucket.parse().ok()?), Lsn(u64::from_str_radix(lsn, 16).ok()?));
    (name(bucket, lsn) == of).then_some((bucket, lsn))
}

impl Image {
    pub(crate) fn new(bucket: BucketId, lsn: Lsn, body: &[u8], body_crc: u32) -> Image {
        let mut bytes = Vec::with_capacity(HEAD + frame::HEADER + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let length = body.len() as u32;
        let header = Header { owner: Some(Owner::Bucket(bucket)), lsn, synced: Lsn(0), length, body_crc };
        header.put(lsn.0, &mut bytes);
        bytes.extend_from_slice(body);
        Image { bucket, lsn, bytes }
    }

    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Makes it safe.
    pub fn write(&self, files: &mut impl Files) -> io::Result<()> {
        let name = name(self.bucket, self.lsn);
        let aside = format!("{name}.new");
        files.create(&aside, 0)?;
        files.write(&aside, 0, &self.bytes)?;
        files.sync(&aside)?;
        files.rename(&aside, &name)?;
        if planted(Bug::RenameNotSynced) {
            return Ok(());
        }
        files.sync_directory()
    }
}

/// The record of an image; none where it is damaged. `Err`: a later version wrote it.
pub(crate) fn read(bytes: &[u8], bucket: BucketId, lsn: Lsn) -> Result<Option<Record>, u32> {
    match (bytes.get(..8) == Some(MAGIC), codec::word(bytes, 8)) {
        (true, Some(format)) if format > FORMAT => return Err(format),
        (true, Some(_)) => {}
        (_, _) => return Ok(None),
    }
    let header = Header::read(bytes, HEAD, lsn.0);
    let header = header.filter(|header| header.owner == Some(Owner::Bucket(bucket)) && header.lsn == lsn);
    let body = header.and_then(|header| header.body(bytes, HEAD));
    let body = if planted(Bug::BadChecksumTaken) { bytes.get(HEAD + frame::HEADER..) } else { body };
    Ok(body.and_then(frame::record))
}
