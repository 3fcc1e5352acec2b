//! Is the process alive; can it be sent clients?

use super::App;
use super::error::Error;
use axum::extract::State;

/// Whoever can answer is alive.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// It belongs to a cluster that has a leader. Says nothing of single buckets: a node is no better than another there.
pub(super) async fn ready(State(app): State<App>) -> Result<&'static str, Error> {
    let status = app.gateway.board().status();
    if status.cluster_id.is_empty() {
        return Err(Error::later("not_ready", "this node belongs to no cluster yet"));
    }
    if status.government.leader.is_none() {
        return Err(Error::later("not_ready", "no leader is known: the cluster decides nothing for now"));
    }
    Ok("ready\n")
}
