//! All connections: one for each node used, made when it is first needed, and by one caller at a time.

use crate::link::Link;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Making a connection takes no longer.
const CONNECT: Duration = Duration::from_secs(1);
/// So long after a failure the node is not tried again: everybody who waited for it would, one after another.
const QUIET: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Links {
    /// As many as there are nodes in the table and addresses that the client was given (`keep_only`).
    nodes: Mutex<BTreeMap<String, Arc<Node>>>,
}

#[derive(Debug, Default)]
struct Node {
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Arc<Link>>,
    failed: Option<(Instant, String)>,
}

impl Links {
    pub(crate) async fn to(&self, address: &str) -> Result<Arc<Link>, String> {
        let node = {
            let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            match nodes.get(address) {
                Some(node) => node.clone(),
                None => nodes.entry(address.to_owned()).or_default().clone(),
            }
        };
        let mut state = node.state.lock().await;
        if let Some(link) = state.link.as_ref().filter(|link| link.is_open()) {
            return Ok(link.clone());
        }
        state.link = None;
        if let Some((when, why)) = &state.failed
            && when.elapsed() < QUIET
        {
            return Err(why.clone());
        }
        let connected = timeout(CONNECT, Link::connect(address)).await;
        match connected.unwrap_or_else(|_| Err(format!("{address} did not answer within {CONNECT:?}"))) {
            Ok(link) => {
                let link = Arc::new(link);
                *state = State { link: Some(link.clone()), failed: None };
                Ok(link)
            }
            Err(why) => {
                state.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// Lets go of nodes that are no longer known. Whoever still uses such a connection may go on.
    pub(crate) fn keep_only(&self, known: &[String]) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|address, _| known.contains(address));
    }
}
