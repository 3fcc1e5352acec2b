//! Images and log together: the records that the next life begins with.

use crate::files::Files;
use crate::frame::{Effect, Lsn, Owner};
use crate::image;
use crate::journal::OpenError;
use crate::ledger::Ledger;
use crate::scan::{Found, Scan, Scanned};
use crate::segment;
use atoll_types::{BucketId, BucketRecord, Record};
use std::collections::BTreeMap;

/// What a directory holds.
#[derive(Debug, Default)]
pub struct Recovered {
    /// In order. Damage stands where it was found.
    pub records: Vec<Record>,
    /// The log ended inside a record, or with records that were never safe: those were cut.
    pub torn: bool,
    /// Damage, in words.
    pub damage: Vec<String>,
    /// Bytes read.
    pub bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) recovered: Recovered,
    pub(crate) ledger: Ledger,
    pub(crate) next: Lsn,
    /// Files of the log by number, with their first positions and lengths. Only what is of use.
    pub(crate) segments: Vec<segment::Segment>,
    /// The file that ends before its length, and where.
    pub(crate) end: Option<(u64, usize)>,
    /// Files that are of no use.
    pub(crate) rubbish: Vec<String>,
}

/// Tells how far it has come: bytes.
pub(crate) fn read(files: &impl Files, progress: &mut dyn FnMut(u64)) -> Result<Read, OpenError> {
    let mut numbers = Vec::new();
    let mut images: BTreeMap<BucketId, Vec<Lsn>> = BTreeMap::new();
    let mut rubbish = Vec::new();
    for name in files.list().map_err(OpenError::reading("the directory"))? {
        if let Some(number) = segment::number(&name) {
            numbers.push(number);
        } else if let Some((bucket, lsn)) = image::parse(&name) {
            images.entry(bucket).or_default().push(lsn);
        } else if name.starts_with("spare-") || name.ends_with(".new") {
            rubbish.push(name);
        }
    }
    numbers.sort();
    let mut recovered = Recovered::default();
    let mut scan = Scan::default();
    let mut segments = Vec::new();
    for &number in &numbers {
        let name = segment::name(number);
        let bytes = files.read(&name).map_err(OpenError::reading(&name))?;
        recovered.bytes += bytes.len() as u64;
        let first = segment::Head::read(&bytes).map_or(Lsn(0), |head| head.first);
        segments.push(segment::Segment { number, first, length: bytes.len() as u64 });
        scan.take(number, &bytes).map_err(|format| OpenError::Newer { file: name, format })?;
        progress(recovered.bytes);
    }
    let scanned = scan.finish();
    recovered.torn = scanned.torn;
    // What begins behind the end was never safe.
    let (kept, void): (Vec<_>, Vec<_>) = segments.into_iter().partition(|segment| segment.first < scanned.next);
    rubbish.extend(void.iter().map(|segment| segment::name(segment.number)));
    let (next, end) = (scanned.next, scanned.end);
    let mut merge = Merge { recovered, ledger: Ledger::default(), rubbish };
    merge.run(files, scanned, images, kept.first().is_some_and(|segment| segment.first > Lsn(1)), progress)?;
    let Merge { recovered, ledger, rubbish } = merge;
    Ok(Read { recovered, ledger, next, segments: kept, end, rubbish })
}

struct Merge {
    recovered: Recovered,
    ledger: Ledger,
    rubbish: Vec<String>,
}

impl Merge {
    /// `cut`: the log does not begin with the first record of all.
    fn run(
        &mut self,
        files: &impl Files,
        scanned: Scanned,
        images: BTreeMap<BucketId, Vec<Lsn>>,
        cut: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), OpenError> {
        let mut latest: BTreeMap<BucketId, Lsn> = BTreeMap::new();
        for (bucket, mut lsns) in images {
            lsns.sort();
            // One that stands at a position the log never reached is of a log that was cut.
            let good = lsns.iter().copied().rfind(|&lsn| lsn < scanned.next);
            latest.extend(good.map(|lsn| (bucket, lsn)));
            let others = lsns.into_iter().filter(|&lsn| Some(lsn) != good);
            self.rubbish.extend(others.map(|lsn| image::name(bucket, lsn)));
        }
        let mut by_lsn: Vec<(Lsn, BucketId)> = latest.iter().map(|(&bucket, &lsn)| (lsn, bucket)).collect();
        by_lsn.sort();
        let mut by_lsn = by_lsn.into_iter().peekable();
        let mut has_base = !cut;
        for (lsn, found) in scanned.found {
            while let Some((at, bucket)) = by_lsn.next_if(|&(at, _)| at <= lsn) {
                self.take_image(files, bucket, at, progress)?;
            }
            match found {
                Found::Mark => {}
                Found::Record(record) => {
                    let (owner, effect) = (Owner::of(&record), Effect::of(&record));
                    let covered = |bucket: &BucketId| latest.get(bucket).is_some_and(|&image| lsn <= image);
                    if matches!(owner, Owner::Bucket(bucket) if covered(&bucket)) {
                        continue;
                    }
                    has_base |= owner == Owner::Cluster && matches!(effect, Effect::Whole | Effect::Blank);
                    self.ledger.note(lsn, owner, effect);
                    self.recovered.records.push(record);
                }
                Found::Unreadable(Some(Owner::Bucket(bucket))) => {
                    if latest.get(&bucket).is_none_or(|&image| lsn > image) {
                        self.lose(lsn, bucket, format!("record {lsn} of bucket {bucket} is damaged"));
                    }
                }
                Found::Unreadable(owner) => {
                    let whose = owner.map_or("", |_| " of the cluster log");
                    self.recovered.damage.push(format!("record {lsn}{whose} is damaged"));
                    self.ledger.note(lsn, Owner::Cluster, Effect::Adds);
                    self.recovered.records.push(Record::Unreadable);
                }
            }
        }
        for (at, bucket) in by_lsn {
            self.take_image(files, bucket, at, progress)?;
        }
        if !has_base {
            self.recovered.damage.push("the beginning of the cluster log is missing".to_owned());
            self.recovered.records.push(Record::Unreadable);
        }
        Ok(())
    }

    fn take_image(
        &mut self,
        files: &impl Files,
        bucket: BucketId,
        lsn: Lsn,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), OpenError> {
        let name = image::name(bucket, lsn);
        let bytes = files.read(&name).map_err(OpenError::reading(&name))?;
        self.recovered.bytes += bytes.len() as u64;
        progress(self.recovered.bytes);
        let record = image::read(&bytes, bucket, lsn).map_err(|format| OpenError::Newer { file: name, format })?;
        let Some(record) = record else {
            self.lose(lsn, bucket, format!("the image of bucket {bucket} at {lsn} is damaged"));
            return Ok(());
        };
        self.ledger.note(lsn, Owner::Bucket(bucket), Effect::Adds);
        self.ledger.on_image(bucket, lsn, bytes.len() as u64);
        self.recovered.records.push(record);
        Ok(())
    }

    fn lose(&mut self, lsn: Lsn, bucket: BucketId, what: String) {
        self.recovered.damage.push(what);
        self.ledger.note(lsn, Owner::Bucket(bucket), Effect::Adds);
        self.recovered.records.push(Record::Bucket(BucketRecord::Unreadable { bucket }));
    }
}
