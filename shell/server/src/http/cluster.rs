//! `GET /v1/cluster` and `/v1/cluster/log`: how the cluster is, and what was decided.
//!
//! Not here: buckets (`buckets.rs`), what an operator can do (`operations.rs`).

use super::App;
use super::error::Error;
use super::text::{Parameters, wrong};
use crate::describe;
use crate::status::Status;
use atoll_types::{NodeId, Slot};
use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};

/// Entries in one answer, where nothing is said, and at most.
const LIMIT: usize = 100;
const LIMIT_MOST: usize = 1000;

pub(super) async fn state(State(app): State<App>, request: Request) -> Result<Json<Value>, Error> {
    Parameters::of(request.uri(), &[])?;
    serde_json::to_value(&*app.gateway.board().status()).map(Json).map_err(|_| Error::unreadable())
}

pub(super) fn name_of(status: &Status, node: NodeId) -> String {
    let known = status.nodes.iter().find(|known| known.id == node.0);
    known.map_or_else(|| node.to_string(), |known| known.name.clone())
}

/// The last entries, or those from a slot on. A node keeps only so many, and none from before it arrived.
pub(super) async fn log(State(app): State<App>, request: Request) -> Result<Json<Value>, Error> {
    let parameters = Parameters::of(request.uri(), &["from", "limit"])?;
    let limit = parameters.number("limit")?.unwrap_or(LIMIT);
    if limit == 0 || limit > LIMIT_MOST {
        return Err(wrong("limit", &format!("from 1 to {LIMIT_MOST}")));
    }
    let entries = match parameters.number("from")? {
        Some(slot) => app.gateway.log().from(Slot(slot), limit),
        None => app.gateway.log().last(limit),
    };
    let status = app.gateway.board().status();
    let row = |logged: &crate::log::Logged| {
        json!({
            "slot": logged.slot.0,
            "time": logged.entry.time.0,
            "leader": name_of(&status, logged.entry.leader),
            "entry": describe::decided(&logged.entry),
        })
    };
    Ok(Json(entries.iter().map(row).collect()))
}
