//! Who serves which bucket, and what each copy holds: commands that look at it, and conditions that `until` waits for.

use crate::scenario::buckets::bucket;
use crate::scenario::stage::Stage;
use crate::scenario::words::Words;
use atoll_distributor::{Bucket, Distributor};
use atoll_kv::{Answer, Query};
use atoll_node::store::KV;
use atoll_replica::Replica;
use atoll_types::BucketId;

/// More keys than a scenario has.
const KEYS_SHOWN: u32 = 100;

impl Stage {
    fn distributor(&self) -> Option<&Distributor> {
        self.view(self.best_informed()?)?.distributor
    }

    fn bucket(&self, id: BucketId) -> Option<&Bucket> {
        self.distributor()?.buckets().get(&id)
    }

    fn replica(&self, host: usize, bucket: BucketId) -> Option<&Replica> {
        self.hosts[host].core.as_ref()?.shards().iter().find_map(|shard| shard.replicas().get(&bucket))
    }

    pub(super) fn show_table(&mut self, host: usize) {
        let words = Words { names: &self.names, cluster: self.cluster_of(host) };
        let distributor = self.view(host).and_then(|view| view.distributor);
        let rows = distributor.map(|distributor| distributor.buckets().values().map(|row| words.bucket(row)).collect());
        let rows: Vec<String> = rows.unwrap_or_default();
        let rows = if rows.is_empty() { vec!["nothing is placed".to_owned()] } else { rows };
        rows.iter().for_each(|row| self.teller.say(self.now, row));
    }

    pub(super) fn show_copies(&mut self) {
        let mut lines = Vec::new();
        for host in &self.hosts {
            let shards = host.core.iter().flat_map(|core| core.shards());
            for replica in shards.flat_map(|shard| shard.replicas().values()) {
                lines.push(format!("{}  {}", host.name, copy(replica)));
            }
        }
        lines.iter().for_each(|line| self.teller.say(self.now, line));
    }

    pub(super) fn show_alarms(&mut self) -> Result<(), String> {
        let host = self.best_informed().ok_or("nobody knows a cluster")?;
        let words = Words { names: &self.names, cluster: self.cluster_of(host) };
        let alarms = self.distributor().map(Distributor::alarms).unwrap_or_default();
        let told: Vec<String> = alarms.iter().map(|alarm| format!("alarm: {}", words.alarm(alarm))).collect();
        let told = if told.is_empty() { vec!["no alarm".to_owned()] } else { told };
        told.iter().for_each(|line| self.teller.say(self.now, line));
        Ok(())
    }

    pub(super) fn show_backlog(&mut self, host: usize) {
        let shards = self.hosts[host].core.iter().flat_map(|core| core.shards());
        let gauges: Vec<_> = shards.map(|shard| shard.backlog()).collect();
        for gauge in gauges {
            let (held, limit, away) = (gauge.held, gauge.limit, gauge.turned_away);
            let line = format!("{}  requests waiting: {held} of {limit}, turned away {away}", self.hosts[host].name);
            self.teller.say(self.now, &line);
        }
    }

    /// Every bucket is as it should be, and every node that runs knows it.
    pub(super) fn is_quiet(&self) -> bool {
        let Some(distributor) = self.distributor().filter(|distributor| distributor.is_quiet()) else { return false };
        let running = self.hosts.iter().filter(|host| !host.paused).filter_map(|host| host.core.as_ref());
        running
            .flat_map(|core| core.shards())
            .all(|shard| shard.version() == distributor.version() && shard.backlog().held == 0)
    }

    /// Conditions about buckets; None if there is no such condition.
    pub(super) fn bucket_holds(&self, condition: &[&str]) -> Result<Option<bool>, String> {
        let node = |name: &str| {
            let host = self.best_informed()?;
            self.names.labelled(self.cluster_of(host), name)
        };
        Ok(Some(match condition {
            ["quiet"] => self.is_quiet(),
            ["answered"] => self.all_answered(),
            ["bucket", id, "settled"] => self.bucket(bucket(id)?).is_some_and(|bucket| bucket.settled),
            ["bucket", id, "unsettled"] => self.bucket(bucket(id)?).is_some_and(|bucket| !bucket.settled),
            ["bucket", id, "splitting"] => self.bucket(bucket(id)?).is_some_and(|bucket| bucket.splitting),
            ["bucket", id, "lost"] => self.bucket(bucket(id)?).is_some_and(Bucket::is_lost),
            ["bucket", id, "there"] => self.bucket(bucket(id)?).is_some(),
            ["bucket", id, "led", "by", name @ ..] => {
                let node = node(&name.join(" "));
                self.bucket(bucket(id)?).is_some_and(|bucket| Some(bucket.primary()) == node)
            }
            ["bucket", id, "without", name @ ..] => {
                let node = node(&name.join(" "));
                self.bucket(bucket(id)?).is_some_and(|bucket| !bucket.members().iter().any(|one| Some(*one) == node))
            }
            ["bucket", id, "given", "to", name @ ..] => {
                let node = node(&name.join(" "));
                self.bucket(bucket(id)?).is_some_and(|bucket| bucket.catching_up().iter().any(|one| Some(*one) == node))
            }
            ["bucket", id, "has", name @ ..] => {
                let node = node(&name.join(" "));
                self.bucket(bucket(id)?).is_some_and(|bucket| bucket.members().iter().any(|one| Some(*one) == node))
            }
            [name, "serves", id] => self.replica(self.known(name)?, bucket(id)?).is_some_and(Replica::is_serving),
            [name, "purged", id] => self.replica(self.known(name)?, bucket(id)?).is_none(),
            [..] => return Ok(None),
        }))
    }
}

/// `bucket 0: committed 5 of 6 written; color=red`
fn copy(replica: &Replica) -> String {
    let (committed, last) = (replica.committed(), replica.log().last_offset());
    let query = Query::Scan { prefix: b"", after: None, slot: None, values: true, limit: KEYS_SHOWN, bytes: 1 << 16 };
    let mut bytes = vec![KV];
    query.encode(&mut bytes);
    let answer = replica.copy().read(&bytes.into(), &mut Vec::new());
    let mut held = match Answer::decode(answer.as_slice()) {
        Some(Answer::Scanned(scanned)) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let told = scanned.found.iter().map(|(key, found)| format!("{}={}", text(key), text(found.value)));
            told.collect::<Vec<_>>().join(" ")
        }
        Some(_) | None => String::new(),
    };
    if held.is_empty() {
        held = "nothing".to_owned();
    }
    format!("bucket {}: written {last}, known committed {committed}, shows {held}", replica.bucket())
}
