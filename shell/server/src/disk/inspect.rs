//! What a data directory holds, without changing anything in it.

use super::directory::Directory;
use super::{DiskError, total};
use atoll_journal::Files;
use atoll_node::Sorted;
use atoll_node::store::Store;
use atoll_types::{Ballot, Identity, Record, Slot};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, Serialize)]
pub struct Inspection {
    /// Of the node whose directory it is.
    pub name: Option<String>,
    pub cluster: Option<String>,
    pub node: Option<u32>,
    /// How often it was started.
    pub life: Option<u64>,
    pub promised: String,
    /// Of the cluster log, as far as this directory knows.
    pub decided: u64,
    pub files: Vec<FileInfo>,
    pub bytes: u64,
    pub records: usize,
    pub copies: Vec<CopyInfo>,
    /// The log ends with something that was never safe: it is cut at the next start.
    pub torn: bool,
    pub damage: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct FileInfo {
    pub name: String,
    pub bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct CopyInfo {
    pub bucket: u16,
    pub slots: (u16, u16),
    /// The highest seen.
    pub epoch: String,
    pub offset: u64,
    /// In the last image and what is known committed by it; more may stand in the log above.
    pub keys: u64,
    pub log_entries: u64,
    /// It can be served from.
    pub whole: bool,
}

/// Reads and verifies everything.
pub fn inspect(path: &Path) -> Result<Inspection, DiskError> {
    let shown = path.display().to_string();
    let files = Directory::of(path);
    let unusable = |error| super::DirectoryError::Unusable { path: shown.clone(), error };
    let mut names = files.list().map_err(unusable)?;
    names.sort();
    if !names.iter().any(|name| name == "node") {
        return Err(super::DirectoryError::NotOurs { path: shown }.into());
    }
    let recovered = atoll_journal::look(&files).map_err(|error| DiskError::Open { path: shown.clone(), error })?;
    let records = recovered.records.len();
    let known = Known::of(&recovered.records);
    let sorted = Sorted::from(recovered.records, 1);
    let replicas = sorted
        .buckets
        .into_iter()
        .flat_map(|records| atoll_replica::restore(records, &Store::new(), Duration::from_secs(600)));
    let copies = replicas.map(|(bucket, replica)| CopyInfo {
        bucket: bucket.0,
        slots: (replica.range().first.0, replica.range().last.0),
        epoch: replica.seen().to_string(),
        offset: replica.log().last().offset.0,
        keys: replica.copy().machine.count() as u64,
        log_entries: replica.log().last().offset.above(replica.copy().applied.offset),
        whole: !replica.is_blank() && !replica.is_useless(),
    });
    let length = |name: &String| std::fs::metadata(path.join(name)).map_or(0, |metadata| metadata.len());
    Ok(Inspection {
        name: super::directory::name_of(path),
        cluster: known.identity.as_ref().map(|identity| identity.cluster.to_string()),
        node: known.identity.as_ref().map(|identity| identity.node.0),
        life: known.identity.as_ref().map(|identity| identity.incarnation.life.into()),
        promised: known.promised.to_string(),
        decided: known.decided.0,
        copies: copies.collect(),
        files: names.iter().map(|name| FileInfo { name: name.clone(), bytes: length(name) }).collect(),
        bytes: total(path),
        records,
        torn: recovered.torn,
        damage: recovered.damage,
    })
}

/// What the records of the cluster log add up to.
#[derive(Default)]
struct Known {
    identity: Option<Identity>,
    promised: Ballot,
    decided: Slot,
}

impl Known {
    fn of(records: &[Record]) -> Known {
        let mut known = Known::default();
        for record in records {
            match record {
                Record::Identity(identity) => known.identity = Some(identity.clone()),
                Record::Promised(ballot) | Record::Accepted { ballot, .. } => {
                    known.promised = known.promised.max(*ballot);
                }
                Record::Learned { first, entries } => {
                    known.decided = known.decided.max(Slot((first.0 + entries.len() as u64).saturating_sub(1)));
                }
                Record::Decided(slot) => known.decided = known.decided.max(*slot),
                Record::Checkpoint(checkpoint) => {
                    known.identity = Some(checkpoint.identity.clone());
                    known.promised = known.promised.max(checkpoint.promised);
                    known.decided = known.decided.max(checkpoint.decided);
                }
                Record::Blank { .. } => known = Known::default(),
                Record::Fenced(_) | Record::Bucket(_) | Record::Unreadable => {}
            }
        }
        known
    }
}
