//! What an operator can do. Each is a word in the cluster log: 202 with the slot it stands at says that it was taken;
//! how far it has come is for `GET /v1/cluster` to say.
//!
//! `?plan=true` answers 200 with the moves that would follow, and does nothing.

use super::App;
use super::buckets;
use super::cluster::name_of;
use super::error::Error;
use super::neighbour;
use super::text::{Parameters, percent_decode, percent_encode, wrong};
use crate::cluster::Ordered;
use crate::status::Status;
use atoll_distributor::{Hypothesis, Move, Plan};
use atoll_node::{Order, Rejection};
use atoll_types::{BucketId, NodeId, Operation};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// Without a leader an order waits; the asker does not.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long another node may take to forget.
const NEIGHBOURLY: Duration = Duration::from_secs(2);

pub(super) async fn drain(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["plan"])?;
    let node = node_in_path(&app, request.uri(), "/drain")?;
    let order = Order::Operate(Operation::Drain { node });
    either(&app, &parameters, Hypothesis::Drain { node }, "drain", order).await
}

pub(super) async fn undrain(State(app): State<App>, request: Request) -> Result<Response, Error> {
    Parameters::of(request.uri(), &[])?;
    let node = node_in_path(&app, request.uri(), "/undrain")?;
    order(&app, "undrain", Order::Operate(Operation::Undrain { node })).await
}

pub(super) async fn remove(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["plan", "here"])?;
    let name = path_part(request.uri(), "/v1/cluster/nodes/", "")?;
    if app.gateway.board().has_departed(&name) || parameters.flag("here")? {
        return Ok(forget(&app, &name, &parameters).await?.into_response());
    }
    let node = node_named(&app, &name)?;
    either(&app, &parameters, Hypothesis::Departure { node }, "remove", Order::Depart(node)).await
}

/// One that departed is no longer listed: here, and by all who can be asked now. `here`: by nobody else.
async fn forget(app: &App, name: &str, parameters: &Parameters) -> Result<Json<Value>, Error> {
    if parameters.flag("plan")? {
        return Ok(Json(json!({"moves": [], "alarms": [], "refused": null})));
    }
    let (board, routes) = (app.gateway.board(), app.gateway.board().routes());
    board.forget(name);
    let mut by = vec![app.gateway.settings().name.clone()];
    if !parameters.flag("here")? {
        let path = format!("/v1/cluster/nodes/{}?here=true", percent_encode(name.as_bytes()));
        let others = routes.places.iter().filter(|(node, place)| **node != routes.me && place.present);
        let asked = others.map(|(_, place)| async {
            let asked = timeout(NEIGHBOURLY, neighbour::ask("DELETE", &place.http, &path)).await;
            asked.ok().and_then(Result::ok).map(|_| place.name.to_string())
        });
        by.extend(join_all(asked).await.into_iter().flatten());
    }
    Ok(Json(json!({"forgotten": name, "by": by})))
}

pub(super) async fn split(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["plan", "bucket"])?;
    let bucket = parameters.number("bucket")?.map(BucketId);
    bucket.map_or(Ok(()), |bucket| there_is(&app, bucket))?;
    let order = Order::Operate(Operation::Split { bucket });
    either(&app, &parameters, Hypothesis::Split { bucket }, "split", order).await
}

pub(super) async fn rebalance(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["plan"])?;
    let order = Order::Operate(Operation::Rebalance);
    either(&app, &parameters, Hypothesis::Nothing, "rebalance", order).await
}

/// The last resort where most voters are gone for good: the cluster goes on from the copy of the node that is asked.
pub(super) async fn recover(State(app): State<App>, request: Request) -> Result<Response, Error> {
    Parameters::of(request.uri(), &[])?;
    order(&app, "recover", Order::Recover).await
}

/// The last resort where a bucket is lost.
pub(super) async fn revive(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["from", "plan"])?;
    let part = path_part(request.uri(), "/v1/cluster/buckets/", "/revive")?;
    let bucket = BucketId(part.parse().map_err(|_| wrong("the bucket", "the number of its first slot"))?);
    there_is(&app, bucket)?;
    if parameters.flag("plan")? {
        return Ok(Json(remains(&app, bucket).await).into_response());
    }
    let from = match parameters.text("from")? {
        Some("empty") => None,
        Some(name) => {
            let node = node_named(&app, name)?;
            has_copy(&app, node, name, bucket).await?;
            Some(node)
        }
        None => return Err(wrong("from", "the name of a node that has a copy, or `empty` to give its data up")),
    };
    order(&app, "revive", Order::Operate(Operation::Revive { bucket, from })).await
}

/// The cluster log does not know who still has an old copy; the node itself does. One that does not answer may have it.
async fn has_copy(app: &App, node: NodeId, name: &str, bucket: BucketId) -> Result<(), Error> {
    let everywhere = buckets::everywhere(app).await;
    let answer = everywhere.iter().find(|(answering, _)| *answering == node);
    if answer.is_some_and(|(_, copies)| copies.iter().all(|copy| copy.bucket != bucket.0)) {
        let message = format!("{name} has no copy of bucket {bucket}; ?plan=true lists the copies that are left");
        return Err(Error::new(StatusCode::CONFLICT, "not_possible", message));
    }
    Ok(())
}

/// What is left of a bucket: where its last epoch began, and the copies that somebody holds.
async fn remains(app: &App, bucket: BucketId) -> Value {
    let everywhere = buckets::everywhere(app).await;
    let board = app.gateway.board();
    let (status, known) = (board.status(), board.buckets());
    let known = known.iter().find(|known| known.bucket == bucket.0);
    let copies = everywhere.into_iter().filter_map(|(node, copies)| {
        let copy = copies.into_iter().find(|copy| copy.bucket == bucket.0)?;
        Some(json!({
            "node": name_of(&status, node),
            "last_epoch": copy.last_epoch,
            "last_offset": copy.last_offset,
            "keys": copy.keys,
        }))
    });
    let copies: Vec<Value> = copies.collect();
    json!({
        "bucket": bucket.0,
        "state": known.map(|known| &known.state),
        "epoch": known.map(|known| &known.epoch),
        "copies": copies,
    })
}

fn path_part(uri: &Uri, before: &str, behind: &str) -> Result<String, Error> {
    let path = uri.path();
    let part = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind)).unwrap_or_default();
    let decoded = percent_decode(part.as_bytes(), false).and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.ok_or_else(|| Error::bad("bad_encoding", "that part of the path is no text"))
}

fn node_in_path(app: &App, uri: &Uri, behind: &str) -> Result<NodeId, Error> {
    node_named(app, &path_part(uri, "/v1/cluster/nodes/", behind)?)
}

fn node_named(app: &App, name: &str) -> Result<NodeId, Error> {
    let routes = app.gateway.board().routes();
    let found = routes.places.iter().find(|(_, place)| place.name == name).map(|(&node, _)| node);
    found.ok_or_else(|| {
        let names: Vec<&str> = routes.places.values().map(|place| &place.name[..]).collect();
        let message = format!("no node of that name is in the cluster; there are: {}", names.join(", "));
        Error::new(StatusCode::NOT_FOUND, "no_such_node", message)
    })
}

fn there_is(app: &App, bucket: BucketId) -> Result<(), Error> {
    let routes = app.gateway.board().routes();
    let found = routes.ranges.iter().any(|range| range.first.0 == bucket.0);
    let missing = || {
        let message = format!("there is no bucket {bucket}; GET /v1/cluster/buckets lists them");
        Error::new(StatusCode::NOT_FOUND, "no_such_bucket", message)
    };
    if found { Ok(()) } else { Err(missing()) }
}

/// Does it, or only tells what would follow.
async fn either(
    app: &App,
    parameters: &Parameters,
    what: Hypothesis,
    kind: &'static str,
    order: Order,
) -> Result<Response, Error> {
    if !parameters.flag("plan")? {
        return self::order(app, kind, order).await;
    }
    let plan = app.gateway.plan(what).await;
    let plan = plan.ok_or_else(|| Error::later("no_table", "this node belongs to no cluster yet"))?;
    Ok(Json(plan_json(&plan, &app.gateway.board().status())).into_response())
}

async fn order(app: &App, kind: &'static str, order: Order) -> Result<Response, Error> {
    let Ok(ordered) = timeout(PATIENCE, app.gateway.order(order)).await else {
        return Err(Error::unknown("the cluster has not decided it yet; it may still do so: see GET /v1/cluster/log"));
    };
    let message = ordered.complaint().unwrap_or_default();
    match ordered {
        Ordered::Taken(slot) => {
            let body = Json(json!({"operation": {"kind": kind, "slot": slot.0}}));
            Ok((StatusCode::ACCEPTED, body).into_response())
        }
        Ordered::Rejected(Rejection::Busy) => Err(Error::later("busy", message)),
        Ordered::Rejected(Rejection::Blank) => Err(Error::later("no_table", message)),
        Ordered::Rejected(Rejection::TooLarge) => Err(Error::bad("too_large", message)),
        Ordered::Rejected(Rejection::NotPossible) => Err(Error::new(StatusCode::CONFLICT, "not_possible", message)),
        Ordered::Unknown => Err(Error::unknown(message)),
    }
}

fn plan_json(plan: &Plan, status: &Status) -> Value {
    let name = |node: NodeId| (!node.is_nobody()).then(|| name_of(status, node));
    let tell = |a_move: &Move| match *a_move {
        Move::Copy { bucket, from, to } => {
            json!({"kind": "copy", "bucket": bucket.0, "from": name(from), "to": name(to)})
        }
        Move::Drop { bucket, node } => json!({"kind": "drop", "bucket": bucket.0, "from": name(node), "to": null}),
        Move::Lead { bucket, from, to } => {
            json!({"kind": "lead", "bucket": bucket.0, "from": name(from), "to": name(to)})
        }
        Move::Halve { bucket } => json!({"kind": "halve", "bucket": bucket.0, "from": null, "to": null}),
    };
    let moves: Vec<Value> = plan.moves.iter().map(tell).collect();
    let alarms = plan.alarms.iter().map(|alarm| alarm.words(|node| name_of(status, node)));
    let alarms: Vec<String> = alarms.collect();
    let refused = plan.refused.as_ref().map(ToString::to_string);
    json!({"moves": moves, "alarms": alarms, "refused": refused})
}
