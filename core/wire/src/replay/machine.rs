//! The machine that a recording is run on again, whichever it is of.

use crate::recording::{Header, Machine, digest_output};
use atoll_node::shard::door::{ShardInput, ShardOutput};
use atoll_node::{Cluster, Input, Node, Output, Shard, View};
use atoll_types::{BucketRecord, Record, Time};

/// What a machine was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A node, or its cluster machine.
    Node(Input),
    Shard(ShardInput),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// Of a node, or of its cluster machine.
    Node(Output),
    Shard(ShardOutput),
}

impl Came {
    pub(crate) fn digest(&self, digest: u64, scratch: &mut Vec<u8>) -> u64 {
        match self {
            Came::Node(output) => digest_output(digest, output, scratch),
            Came::Shard(output) => digest_output(digest, output, scratch),
        }
    }
}

pub(crate) enum Running {
    Node(Box<Node>),
    Cluster(Box<Cluster>),
    Shard(Box<Shard>),
}

impl Running {
    pub(crate) fn start(header: &Header) -> Running {
        let (config, seed, now) = (header.config.clone(), header.seed, header.now);
        let records = header.records.clone();
        match header.machine {
            Machine::Node => Running::Node(Box::new(Node::start(config, seed, records, now))),
            Machine::Cluster => Running::Cluster(Box::new(Cluster::start(config, seed, records, now))),
            Machine::Shard(index) => {
                let records = records.into_iter().filter_map(of_a_bucket).collect();
                Running::Shard(Box::new(Shard::start(&config, usize::from(index), seed, records, now)))
            }
        }
    }

    pub(crate) fn handle(&mut self, now: Time, given: Given) {
        match (self, given) {
            (Running::Node(node), Given::Node(input)) => node.handle(now, input),
            (Running::Cluster(cluster), Given::Node(input)) => cluster.handle(now, input),
            (Running::Shard(shard), Given::Shard(input)) => shard.handle(now, input),
            // Whoever reads the inputs knows what they are for.
            (Running::Node(_) | Running::Cluster(_), Given::Shard(_)) | (Running::Shard(_), Given::Node(_)) => {}
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Came> {
        match self {
            Running::Node(node) => node.poll().map(Came::Node),
            Running::Cluster(cluster) => cluster.poll().map(Came::Node),
            Running::Shard(shard) => shard.poll().map(Came::Shard),
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        match self {
            Running::Node(node) => node.digest(),
            Running::Cluster(cluster) => cluster.digest(),
            Running::Shard(shard) => shard.digest(),
        }
    }

    /// What the cluster machine knows, where there is one.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        match self {
            Running::Node(node) => Some(node.view()),
            Running::Cluster(cluster) => Some(cluster.view()),
            Running::Shard(_) => None,
        }
    }
}

fn of_a_bucket(record: Record) -> Option<BucketRecord> {
    match record {
        Record::Bucket(record) => Some(record),
        Record::Identity(_)
        | Record::Promised(_)
        | Record::Accepted { .. }
        | Record::Learned { .. }
        | Record::Decided(_)
        | Record::Checkpoint(_)
        | Record::Fenced(_)
        | Record::Unreadable
        | Record::Blank { .. } => None,
    }
}
