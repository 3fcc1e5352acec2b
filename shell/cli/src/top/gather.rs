//! One look: the state of the cluster, and what each of its nodes has counted so far.

use crate::remote::Server;
use atoll_server::status::{BucketStatus, Status};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// A node that takes longer is shown without its numbers.
const PATIENCE: Duration = Duration::from_secs(1);
/// Nodes asked for their numbers; the others are shown without.
const NODES_MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) status: Status,
    pub(super) buckets: Vec<BucketStatus>,
    /// By the node's name, where it answered.
    pub(super) counts: BTreeMap<String, Counts>,
}

/// What stands in a node's metrics: series, as they are written, and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts(BTreeMap<String, f64>);

impl Counts {
    pub(super) fn read(text: &str) -> Counts {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| line.rsplit_once(' '));
        Counts(series.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }

    /// Of this metric, all series that have all of these in their labels.
    pub(super) fn sum(&self, metric: &str, labels: &[&str]) -> f64 {
        self.of(metric).filter(|(series, _)| labels.iter().all(|label| series.contains(label))).map(|(_, n)| n).sum()
    }

    pub(super) fn of(&self, metric: &str) -> impl Iterator<Item = (&str, f64)> {
        let is_metric = move |series: &str| {
            series.strip_prefix(metric).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
        };
        self.0.iter().filter(move |(series, _)| is_metric(series)).map(|(series, value)| (series.as_str(), *value))
    }
}

/// Asks all nodes at once.
pub(super) fn gather(server: &Server) -> anyhow::Result<Look> {
    let status: Status = server.get("/v1/cluster")?;
    let buckets = if status.cluster_id.is_empty() { Vec::new() } else { server.get("/v1/cluster/buckets")? };
    let nodes = status.nodes.iter().filter(|node| node.state != "departed" && node.state != "absent").take(NODES_MOST);
    let asked: Vec<_> = nodes
        .map(|node| {
            let (name, other) = (node.name.clone(), Server::at(&format!("http://{}", node.http)));
            thread::spawn(move || Some((name, Counts::read(&other.text("/metrics", PATIENCE)?))))
        })
        .collect();
    let counts = asked.into_iter().filter_map(|asked| asked.join().ok().flatten()).collect();
    Ok(Look { at: Instant::now(), status, buckets, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_their_labels() {
        let text = "# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4\nab 5\na_sum 6.5\n";
        let counts = Counts::read(text);
        assert_eq!(counts.sum("a", &[]), 7.0);
        assert_eq!(counts.sum("a", &["y=\"3\""]), 4.0);
        assert_eq!(counts.sum("a_sum", &[]), 6.5);
        assert_eq!(counts.sum("b", &[]), 0.0);
    }
}
