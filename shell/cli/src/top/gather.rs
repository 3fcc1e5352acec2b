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
    /// Why another node than the one that was named was asked.
    pub(super) instead: Option<String>,
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

/// Whom to ask: the node that was named or, where that does not answer, any that was in the cluster. Just when a node
/// is gone somebody wants to see what becomes of the others.
#[derive(Debug)]
pub(super) struct Asked {
    named: Server,
    others: Vec<String>,
}

impl Asked {
    pub(super) fn new(named: Server, first: &Look) -> Asked {
        Asked { named, others: reachable(first) }
    }

    pub(super) fn gather(&mut self) -> anyhow::Result<Look> {
        let error = match gather(&self.named) {
            Ok(look) => {
                self.others = reachable(&look);
                return Ok(look);
            }
            Err(error) => error,
        };
        for place in &self.others {
            if let Ok(mut look) = gather(&Server::at(place)) {
                look.instead = Some(format!("shown as {} sees it: {error:#}", look.status.node));
                return Ok(look);
            }
        }
        Err(error)
    }
}

/// Where nodes can be asked that are in the cluster now.
fn reachable(look: &Look) -> Vec<String> {
    let nodes = look.status.nodes.iter().filter(|node| node.state != "departed" && node.state != "absent");
    nodes.take(NODES_MOST).map(|node| format!("http://{}", node.http)).collect()
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
    Ok(Look { at: Instant::now(), status, buckets, counts, instead: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every request with the state of a cluster that has no id, as a node of this name.
    fn node(name: &str) -> String {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = format!("http://{}", listener.local_addr().expect("its address"));
        let body = serde_json::to_string(&Status { node: name.to_owned(), ..Status::default() }).expect("JSON");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (mut stream, mut request) = (stream, [0; 4096]);
                let _ = stream.read(&mut request);
                let length = body.len();
                let _ =
                    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
            }
        });
        place
    }

    #[test]
    fn another_node_is_asked_where_the_named_one_is_gone() {
        // Nobody listens on port 1.
        let mut asked = Asked { named: Server::at("http://127.0.0.1:1"), others: vec![node("n2")] };
        let look = asked.gather().expect("the other one answers");
        assert_eq!(look.status.node, "n2");
        assert!(look.instead.is_some_and(|words| words.contains("127.0.0.1:1") && words.contains("n2 sees it")));
        asked.others.clear();
        assert!(asked.gather().is_err());
    }

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
