//! How things are, as people and programs see it. Worked out by the thread of the cluster machine, read by anybody.
//!
//! Not here: what stands in each bucket (`CopyStatus`, asked of the shards), how it is shown (`http`, the command
//! line).

use crate::advice::advice;
use crate::routes::Routes;
use crate::waiting;
use arc_swap::ArcSwap;
use atoll_cluster::{Member, Standing};
use atoll_distributor::{Alarm, Bucket, Distributor};
use atoll_node::{Counters, View};
use atoll_types::{Generation, Name, NodeId, Slot, Why};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Departed nodes that are still listed.
const DEPARTED_MOST: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub cluster_id: String,
    /// Who says this.
    pub node: String,
    pub generation: String,
    /// The slot of the last change of the table.
    pub table_version: u64,
    /// The last slot of the cluster log that is known decided here.
    pub decided: u64,
    pub buckets: usize,
    pub copies: usize,
    pub healthy: bool,
    pub problems: Vec<String>,
    pub government: GovernmentStatus,
    pub nodes: Vec<NodeStatus>,
    pub moves: Vec<MoveStatus>,
    pub alarms: Vec<String>,
    /// What to do about each of the alarms, in their order.
    #[serde(default)]
    pub advice: Vec<String>,
}

impl Status {
    /// Can clients be sent here? It belongs to a cluster that has a leader. Says nothing of single buckets: a node is
    /// no better than another there.
    pub fn is_ready(&self) -> bool {
        !self.cluster_id.is_empty() && self.government.leader.is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GovernmentStatus {
    pub ballot: String,
    pub slot: u64,
    pub leader: Option<String>,
    pub majority: Vec<String>,
    pub minority: Vec<String>,
    pub learners: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub name: String,
    pub id: u32,
    /// arriving, present, absent, draining, departed
    pub state: String,
    pub peer: String,
    pub http: String,
    pub resp: String,
    pub zone: String,
    pub primaries: usize,
    pub copies: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoveStatus {
    pub bucket: u16,
    /// expand, unite, split
    pub kind: String,
    pub from: Vec<String>,
    pub to: Vec<String>,
    /// From 0 to 1, as far as it is known.
    pub progress: f32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketStatus {
    pub bucket: u16,
    /// The first and the last hash slot.
    pub slots: [u16; 2],
    pub epoch: String,
    pub primary: Option<String>,
    /// Who led it before it was lent to where its requests come in; null where it is not.
    #[serde(default)]
    pub home: Option<String>,
    pub members: Vec<String>,
    pub catching_up: Vec<String>,
    /// serving, paused, splitting, short, lost
    pub state: String,
    /// None where nobody who knows could be asked.
    pub keys: Option<u64>,
    pub offset: Option<u64>,
}

/// One copy of a bucket, as its shard knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    pub bucket: u16,
    pub serving: bool,
    /// All up to here is committed, as far as the copy knows.
    pub offset: u64,
    /// Of the last entry that the copy holds, committed or not.
    pub last_epoch: String,
    pub last_offset: u64,
    pub keys: u64,
    pub bytes: u64,
    pub sessions: u64,
    /// Entries of its log that are kept in memory.
    #[serde(default)]
    pub log_entries: u64,
}

/// Everything that is worked out at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    buckets: Vec<BucketStatus>,
    routes: Routes,
}

/// What a snapshot is worked out from: the decided log, and whom this node hears. While that is the same, so is all
/// that is shown but the counters: with many buckets it must not be worked out anew for every heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    node: NodeId,
    generation: Generation,
    decided: Slot,
    leader: Option<NodeId>,
    government: Option<Slot>,
    silent: Option<u64>,
    full: Option<u64>,
}

impl Basis {
    /// None of a node that belongs to no cluster: what it waits for changes by itself, and is soon worked out.
    /// `full`: the memory that buckets take, if that is too much.
    pub(crate) fn of(view: &View<'_>, silent: Option<Duration>, full: Option<u64>) -> Option<Basis> {
        let (identity, _) = view.identity.zip(view.state)?;
        Some(Basis {
            node: identity.node,
            generation: view.generation,
            decided: view.decided,
            leader: view.leader,
            government: view.government.map(|(slot, _)| slot),
            silent: silent.map(|silent| silent.as_secs()),
            full,
        })
    }
}

/// Why a node stops by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// An operator wanted it, so it is not to come back by itself.
    Departed,
    /// Its disk failed.
    Broken(String),
}

/// How things are, as the node with this view knows them.
pub fn look(view: &View<'_>) -> (Status, Vec<BucketStatus>) {
    let Snapshot { status, buckets, .. } = Snapshot::of(view, None);
    (status, buckets)
}

/// Of a node that is not in the cluster any more.
const DEPARTED: &str = "departed";

/// Where it hangs for all to see.
#[derive(Debug)]
pub struct Board {
    status: ArcSwap<Status>,
    buckets: ArcSwap<Vec<BucketStatus>>,
    routes: ArcSwap<Routes>,
    counters: ArcSwap<Counters>,
    /// Nodes that were here and are not any more.
    departed: Mutex<BTreeMap<u32, NodeStatus>>,
    changes: watch::Sender<u64>,
    /// This node departed by an operator's word.
    gone: watch::Sender<Option<Gone>>,
}

impl Default for Board {
    fn default() -> Self {
        Board {
            status: ArcSwap::default(),
            buckets: ArcSwap::default(),
            routes: ArcSwap::default(),
            counters: ArcSwap::default(),
            departed: Mutex::default(),
            changes: watch::Sender::new(0),
            gone: watch::Sender::new(None),
        }
    }
}

impl Board {
    pub fn status(&self) -> Arc<Status> {
        self.status.load_full()
    }

    pub fn buckets(&self) -> Arc<Vec<BucketStatus>> {
        self.buckets.load_full()
    }

    pub fn routes(&self) -> Arc<Routes> {
        self.routes.load_full()
    }

    pub fn counters(&self) -> Arc<Counters> {
        self.counters.load_full()
    }

    /// Changes whenever something else is shown.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn say_gone(&self, why: Gone) {
        self.gone.send_replace(Some(why));
    }

    /// Returns once this node is to stop by itself.
    pub async fn gone(&self) -> Gone {
        let mut gone = self.gone.subscribe();
        let why = gone.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or(Gone::Departed) // The sender lives as long as this: there is a reason.
    }

    pub(crate) fn count(&self, counters: &Counters) {
        self.counters.store(Arc::new(counters.clone()));
    }

    pub(crate) fn show(&self, mut snapshot: Snapshot) {
        // Until all is shown: whoever is forgotten meanwhile must not come back with it.
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        self.add_departed(&mut departed, &mut snapshot.status);
        if **self.buckets.load() != snapshot.buckets {
            self.buckets.store(Arc::new(snapshot.buckets));
        }
        // Not only with the buckets: a node may come or go that serves none.
        if **self.routes.load() != snapshot.routes {
            self.routes.store(Arc::new(snapshot.routes));
        }
        if **self.status.load() != snapshot.status {
            self.status.store(Arc::new(snapshot.status));
            self.changes.send_modify(|count| *count += 1);
        }
    }

    pub(crate) fn has_departed(&self, name: &str) -> bool {
        let departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        departed.values().any(|gone| gone.name == name)
    }

    /// A departed node is not listed any more.
    pub(crate) fn forget(&self, name: &str) {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = departed.len();
        departed.retain(|_, gone| gone.name != name);
        if departed.len() < before {
            let mut status = (**self.status.load()).clone();
            status.nodes.retain(|node| node.name != name || node.state != DEPARTED);
            self.status.store(Arc::new(status));
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// A departed node is listed until one of its name has taken its place, or an operator has it forgotten.
    fn add_departed(&self, departed: &mut BTreeMap<u32, NodeStatus>, status: &mut Status) {
        for before in self.status.load().nodes.iter().filter(|node| node.state != DEPARTED) {
            if status.nodes.iter().all(|node| node.id != before.id) {
                let gone = NodeStatus { state: DEPARTED.to_owned(), primaries: 0, copies: 0, ..before.clone() };
                departed.insert(gone.id, gone);
            }
        }
        departed.retain(|_, gone| status.nodes.iter().all(|node| node.name != gone.name));
        while departed.len() > DEPARTED_MOST {
            departed.pop_first();
        }
        status.nodes.extend(departed.values().cloned());
    }
}

struct Names<'a>(BTreeMap<NodeId, &'a Name>);

impl Names<'_> {
    fn of(&self, node: NodeId) -> String {
        self.0.get(&node).map_or_else(|| node.to_string(), |name| name.to_string())
    }

    fn all(&self, nodes: &[NodeId]) -> Vec<String> {
        nodes.iter().map(|&node| self.of(node)).collect()
    }
}

impl Snapshot {
    pub(crate) fn is_healthy(&self) -> bool {
        self.status.healthy
    }

    /// `silent`: for so long nobody was heard, if that is too long.
    pub(crate) fn of(view: &View<'_>, silent: Option<Duration>) -> Snapshot {
        let (Some(state), Some(distributor), Some(identity)) = (view.state, view.distributor, view.identity) else {
            let waiting = view.waiting.map_or_else(String::new, |waiting| format!(": {}", waiting::words(waiting)));
            let problems = vec![format!("this node belongs to no cluster yet{waiting}")];
            return Snapshot { status: Status { problems, ..Status::default() }, ..Snapshot::default() };
        };
        let names = Names(state.members.iter().map(|(&node, member)| (node, &member.name)).collect());
        let government = GovernmentStatus {
            ballot: state.government.ballot.to_string(),
            slot: state.government_slot.0,
            leader: view.leader.map(|leader| names.of(leader)),
            majority: names.all(&state.government.majority),
            minority: names.all(&state.government.minority),
            learners: names.all(&state.government.learners),
        };
        // One that was founded alone has as many copies as nodes, and lacks nothing.
        let lone = |alarm: &Alarm| state.alone && matches!(alarm, Alarm::Short { .. });
        let alarms: Vec<Alarm> = distributor.alarms().into_iter().filter(|alarm| !lone(alarm)).collect();
        let advice = alarms.iter().map(|alarm| advice(alarm).to_owned()).collect();
        let alarms = alarms.iter().map(|alarm| alarm.words(|node| names.of(node))).collect();
        let wanted = if state.alone { distributor.wanted() } else { distributor.copies() };
        let buckets: Vec<BucketStatus> =
            distributor.buckets().values().map(|bucket| bucket_status(bucket, distributor, wanted, &names)).collect();
        let nodes = nodes(&state.members, distributor);
        let mut problems = problems(view, &nodes, &buckets, distributor);
        if let Some(silent) = silent.filter(|_| nodes.iter().filter(|node| node.state == "present").count() > 1) {
            problems.push(format!("nobody was heard for {} s: this node is cut off", silent.as_secs()));
        }
        let status = Status {
            cluster_id: state.cluster.to_string(),
            node: names.of(identity.node),
            generation: view.generation.to_string(),
            table_version: distributor.version().0,
            decided: view.decided.0,
            buckets: buckets.len(),
            copies: wanted,
            healthy: problems.is_empty(),
            problems,
            government,
            nodes,
            moves: distributor.buckets().values().filter_map(|bucket| move_status(bucket, &names)).collect(),
            alarms,
            advice,
        };
        let routes = Routes::of(identity.node, &state.members, distributor);
        Snapshot { status, buckets, routes }
    }
}

fn problems(view: &View<'_>, nodes: &[NodeStatus], buckets: &[BucketStatus], table: &Distributor) -> Vec<String> {
    let mut problems = Vec::new();
    if view.leader.is_none() {
        let missing = "most voters have to be there; if they are gone for good, `atoll recover cluster`";
        problems.push(format!("no leader is known, so nothing is decided for now: {missing}"));
    }
    if let Some((_, government)) = view.government {
        // Until they are seated, the loss of one node may be the loss of the majority.
        let voters = government.majority.len() + government.minority.len();
        let wanted = voters_wanted(nodes.iter().filter(|node| node.state == "present").count());
        if voters < wanted {
            problems.push(format!("only {voters} of {wanted} voters are seated: the others follow by themselves"));
        }
    }
    if buckets.is_empty() {
        problems.push("no buckets are placed yet: that follows once the founders are in step".to_owned());
    }
    for node in nodes.iter().filter(|node| node.state == "absent") {
        let standing = view.state.and_then(|state| Some(state.members.get(&NodeId(node.id))?.standing));
        let stalled = matches!(standing, Some(Standing::Absent { why: Why::Stalled, .. }));
        let why = if stalled { " (its disk or a thread of it does not move)" } else { "" };
        let name = &node.name;
        let advice = format!("start it again, or `atoll remove {name}` if it is gone for good");
        problems.push(format!("{name} is absent{why}: {advice}"));
    }
    // With enough nodes the missing copies are on their way.
    let there = nodes.iter().filter(|node| node.state == "present").count();
    let more_nodes = if there < table.copies() { ": start more nodes" } else { ": they are being made" };
    for state in ["lost", "paused", "short"] {
        let count = buckets.iter().filter(|bucket| bucket.state == state).count();
        if count > 0 {
            let of = buckets.len();
            problems.push(match state {
                "short" => format!("{count} of {of} buckets have fewer than {} copies{}", table.copies(), more_nodes),
                "lost" => format!("{count} of {of} buckets are lost: see the alarms before anything else"),
                _ => format!("{count} of {of} buckets are {state}: too few of their members are there"),
            });
        }
    }
    problems
}

/// Voters go 1, 3, 5 as healthy nodes come.
fn voters_wanted(present: usize) -> usize {
    match present {
        0..=2 => 1,
        3..=4 => 3,
        _ => 5,
    }
}

fn nodes(members: &BTreeMap<NodeId, Member>, distributor: &Distributor) -> Vec<NodeStatus> {
    let mut primaries: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut copies: BTreeMap<NodeId, usize> = BTreeMap::new();
    for bucket in distributor.buckets().values() {
        *primaries.entry(bucket.primary()).or_default() += 1;
        for &node in bucket.members() {
            *copies.entry(node).or_default() += 1;
        }
    }
    let status = |(node, member): (&NodeId, &Member)| NodeStatus {
        name: member.name.to_string(),
        id: node.0,
        state: standing(member, distributor.nodes().get(node).is_some_and(|known| known.draining)).to_owned(),
        peer: member.address.to_string(),
        http: member.endpoints.http.to_string(),
        resp: member.endpoints.resp.to_string(),
        zone: member.zone.to_string(),
        primaries: primaries.get(node).copied().unwrap_or(0),
        copies: copies.get(node).copied().unwrap_or(0),
    };
    members.iter().map(status).collect()
}

fn standing(member: &Member, draining: bool) -> &'static str {
    match member.standing {
        Standing::Arriving => "arriving",
        Standing::Absent { .. } => "absent",
        Standing::Leaving => "draining",
        Standing::Present if draining => "draining",
        Standing::Present => "present",
    }
}

fn bucket_status(bucket: &Bucket, distributor: &Distributor, wanted: usize, names: &Names<'_>) -> BucketStatus {
    let members = bucket.members().len();
    let state = if bucket.is_lost() {
        "lost"
    } else if bucket.primary().is_nobody() || !bucket.may_commit(distributor.min_copies()) {
        "paused"
    } else if bucket.splitting {
        "splitting"
    } else if members < wanted {
        "short"
    } else {
        "serving"
    };
    let primary = bucket.primary();
    BucketStatus {
        bucket: bucket.id().0,
        slots: [bucket.range.first.0, bucket.range.last.0],
        epoch: bucket.epoch().to_string(),
        primary: (!primary.is_nobody()).then(|| names.of(primary)),
        home: (!bucket.home.is_nobody()).then(|| names.of(bucket.home)),
        members: names.all(bucket.members()),
        catching_up: names.all(bucket.catching_up()),
        state: state.to_owned(),
        keys: None,
        offset: None,
    }
}

fn move_status(bucket: &Bucket, names: &Names<'_>) -> Option<MoveStatus> {
    let catching_up = bucket.catching_up();
    let unsettled = || bucket.members().iter().copied().filter(|&node| !bucket.is_eligible(node)).collect::<Vec<_>>();
    let (kind, to, progress) = if bucket.splitting {
        ("split", Vec::new(), 0.5)
    } else if !catching_up.is_empty() {
        let ready = bucket.ready.len() as f32 / catching_up.len() as f32;
        ("expand", catching_up.to_vec(), ready * 0.8)
    } else if !bucket.settled && !unsettled().is_empty() {
        ("unite", unsettled(), 0.9)
    } else {
        return None;
    };
    Some(MoveStatus {
        bucket: bucket.id().0,
        kind: kind.to_owned(),
        from: names.all(bucket.members()),
        to: names.all(&to),
        progress,
    })
}
