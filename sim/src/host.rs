//! One simulated machine: the core, the disk, the clock, and whether the process runs.
//!
//! ```text
//!            start            crash, wiped or not
//!   Idle ──────────▶ Running ─────────────────────▶ Down ──▶ Running …
//!                     │   ▲
//!               pause ▼   │ resume
//!                    Paused
//! ```

use crate::clock::{Clock, Moment};
use crate::disk::Disk;
use crate::world::Happening;
use atoll_node::{Config, Node, View};
use atoll_types::{ClusterId, JournalSeq, NodeId, Time};
use atoll_wire::Recorder;
use std::collections::BTreeMap;
use std::fs::File;

#[derive(Debug)]
pub(crate) enum Life {
    /// Never started.
    Idle,
    Running(Box<Node>),
    /// The core is there and nothing reaches it.
    Paused(Box<Node>, Vec<Happening>),
    Down,
}

pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) disk: Disk,
    pub(crate) life: Life,
    /// Counts the starts: what was meant for an earlier life is void.
    pub(crate) lives: u32,
    /// When the core wants to be woken, by its own clock.
    pub(crate) wake: Time,
    /// The earliest wake that stands in the queue.
    pub(crate) wake_queued: Moment,
    /// With whom this life has exchanged messages: they notice when it is gone.
    pub(crate) partners: Vec<bool>,
    /// What a host without a disk has ordered and not yet been told to be safe.
    pub(crate) unanswered: Option<JournalSeq>,
    pub(crate) sent: u64,
    /// The second that is counted in, and how many were sent before it.
    pub(crate) second: u64,
    pub(crate) sent_before: u64,
    /// How often it was woken in that second.
    pub(crate) woken: u64,
    pub(crate) recording: Option<(Recorder, File)>,
    /// Started without its list of founders.
    pub(crate) arrives_only: bool,
    /// The node that the disk knows, as far as it is safe.
    pub(crate) kept: Option<(ClusterId, NodeId)>,
    /// Shards that stand still, and since when.
    pub(crate) hanging: BTreeMap<usize, Moment>,
    /// A shard of it hung once, or its disk was slow or hung.
    pub(crate) has_stalled: bool,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("name", &self.config.name).field("lives", &self.lives).finish_non_exhaustive()
    }
}

impl Host {
    pub(crate) fn new(config: Config, clock: Clock, disk: Disk, hosts: usize) -> Host {
        Host {
            config,
            clock,
            disk,
            life: Life::Idle,
            lives: 0,
            wake: Time::NEVER,
            wake_queued: Moment::NEVER,
            partners: vec![false; hosts],
            unanswered: None,
            sent: 0,
            second: 0,
            sent_before: 0,
            woken: 0,
            recording: None,
            arrives_only: false,
            kept: None,
            hanging: BTreeMap::new(),
            has_stalled: false,
        }
    }

    pub(crate) fn core(&self) -> Option<&Node> {
        match &self.life {
            Life::Running(core) | Life::Paused(core, _) => Some(core),
            Life::Idle | Life::Down => None,
        }
    }

    pub(crate) fn core_mut(&mut self) -> Option<&mut Node> {
        match &mut self.life {
            Life::Running(core) | Life::Paused(core, _) => Some(core),
            Life::Idle | Life::Down => None,
        }
    }

    pub(crate) fn view(&self) -> Option<View<'_>> {
        self.core().map(Node::view)
    }

    pub(crate) fn is_running(&self) -> bool {
        match self.life {
            Life::Running(_) => true,
            Life::Paused(..) | Life::Idle | Life::Down => false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.core().is_some()
    }

    /// Who this host is, or will be again once it is restarted.
    pub(crate) fn identity(&self) -> Option<(ClusterId, NodeId)> {
        match self.view() {
            Some(view) => view.identity.map(|identity| (identity.cluster, identity.node)),
            None => self.kept,
        }
    }

    /// The process goes away. What the next life can know is on the disk.
    pub(crate) fn stop(&mut self) {
        self.life = Life::Down;
        self.wake = Time::NEVER;
        self.wake_queued = Moment::NEVER;
        self.unanswered = None;
        self.recording = None;
        self.partners.fill(false);
        self.hanging.clear();
    }
}
