//! `GET /v1/cluster/buckets`: every bucket, who serves it, how many keys it has.
//!
//! The table is known here; how much stands in a bucket only its members know, so that all present nodes are asked.

use super::App;
use super::error::Error;
use super::neighbour;
use super::text::Parameters;
use crate::status::{BucketStatus, CopyStatus};
use atoll_types::NodeId;
use axum::Json;
use axum::extract::{Request, State};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// A node that takes longer is left out.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) async fn all(State(app): State<App>, request: Request) -> Result<Json<Vec<BucketStatus>>, Error> {
    Parameters::of(request.uri(), &[])?;
    let mut buckets = app.gateway.board().buckets().to_vec();
    let serving = serving(&app).await;
    for bucket in &mut buckets {
        let copy = serving.get(&bucket.bucket);
        bucket.keys = copy.map(|copy| copy.keys);
        bucket.offset = copy.map(|copy| copy.offset);
    }
    Ok(Json(buckets))
}

/// The copies that are served from, of all nodes that answer in time.
async fn serving(app: &App) -> BTreeMap<u16, CopyStatus> {
    let all = everywhere(app).await.into_iter().flat_map(|(_, copies)| copies);
    all.filter(|copy| copy.serving).map(|copy| (copy.bucket, copy)).collect()
}

/// The copies of all present nodes that answer in time, this one with them.
pub(super) async fn everywhere(app: &App) -> Vec<(NodeId, Vec<CopyStatus>)> {
    let routes = app.gateway.board().routes();
    let others = routes.places.iter().filter(|(node, place)| **node != routes.me && place.present);
    let asked = others.map(|(&node, place)| async move {
        let asked = timeout(PATIENCE, neighbour::get(&place.http, "/v1/cluster/copies")).await;
        let body = asked.ok().and_then(Result::ok)?;
        Some((node, serde_json::from_slice::<Vec<CopyStatus>>(&body).ok()?))
    });
    let (mine, theirs) = tokio::join!(app.gateway.copies(), join_all(asked));
    theirs.into_iter().flatten().chain([(routes.me, mine)]).collect()
}

/// The copies on this node, for other nodes.
pub(super) async fn copies(State(app): State<App>, request: Request) -> Result<Json<Vec<CopyStatus>>, Error> {
    Parameters::of(request.uri(), &[])?;
    Ok(Json(app.gateway.copies().await))
}
