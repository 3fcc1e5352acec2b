//! A request of OTLP: spans as JSON.

use super::Finished;
use serde_json::{Value, json};

/// A span of somebody who serves.
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;

pub(super) fn request(resource: &[(String, String)], spans: &[Finished]) -> Value {
    let resource: Vec<Value> = resource.iter().map(|(key, value)| attribute(key, value)).collect();
    let scope = json!({"name": "atoll", "version": env!("CARGO_PKG_VERSION")});
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// As the conventions of OpenTelemetry call it.
fn known_as(field: &str) -> &str {
    match field {
        "id" => "atoll.request_id",
        "method" => "http.request.method",
        "path" => "url.path",
        other => other,
    }
}

fn span(span: &Finished) -> Value {
    let status = span.fields.get("status").and_then(|status| status.parse::<u16>().ok());
    let others = span.fields.iter().filter(|(field, _)| status.is_none() || **field != "status");
    let mut attributes: Vec<Value> = others.map(|(field, value)| attribute(known_as(field), value)).collect();
    if let Some(status) = status {
        // Numbers of 64 bits are text in this format.
        attributes.push(json!({"key": "http.response.status_code", "value": {"intValue": status.to_string()}}));
    }
    let name = match span.fields.get("method") {
        Some(method) => method.as_str(),
        None => span.name,
    };
    let mut told = json!({
        "traceId": span.trace,
        "spanId": span.span,
        "name": name,
        "kind": KIND_SERVER,
        "startTimeUnixNano": span.begun.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": attributes,
        "status": if status.is_some_and(|status| status >= 500) { json!({"code": STATUS_ERROR}) } else { json!({}) },
    });
    if let Some(parent) = &span.parent {
        told["parentSpanId"] = json!(parent);
    }
    told
}
