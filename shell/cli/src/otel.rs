//! Spans of requests for OpenTelemetry: OTLP as JSON over HTTP, with the feature `otel`. What is sent, and where to, is
//! said by the variables that every OpenTelemetry exporter knows.
//!
//! Written by hand: the crates that do the same bring some sixty others with them.
//!
//! Not here: the JSON (`otel/json.rs`).

mod json;

use std::collections::HashMap;
use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Spans that wait to be sent. Beyond that they are dropped: no request waits for a collector.
const QUEUE_MOST: usize = 8192;
/// Sent at once.
const BATCH_MOST: usize = 512;
const BATCH_EVERY: Duration = Duration::from_millis(500);
/// For one batch.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is said that nobody takes them.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

enum Item {
    Span(Box<Finished>),
    /// Send what there is, and say so.
    Flush(SyncSender<()>),
}

static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();

/// A span that is over.
pub(crate) struct Finished {
    trace: String,
    span: String,
    parent: Option<String>,
    name: &'static str,
    begun: u128,
    ended: u128,
    fields: HashMap<&'static str, String>,
}

/// A span that is not over, as it is kept with the span itself.
struct Open {
    trace: String,
    span: String,
    parent: Option<String>,
    begun: u128,
    fields: Fields,
}

#[derive(Default)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// Takes the spans of this process and hands them on.
pub(crate) struct Exporter {
    queue: SyncSender<Item>,
}

/// None where no variable says where to.
pub(crate) fn start() -> Option<Exporter> {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let base = || said("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| format!("{}/v1/traces", base.trim_end_matches('/')));
    let endpoint = said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(base)?;
    let service = said("OTEL_SERVICE_NAME").unwrap_or_else(|| "atoll".to_owned());
    let mut resource = vec![("service.name".to_owned(), service)];
    let more = said("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let pairs = more.split(',').filter_map(|pair| pair.split_once('='));
    resource.extend(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())));
    let (queue, incoming) = sync_channel(QUEUE_MOST);
    thread::Builder::new().name("otel".to_owned()).spawn(move || send(&incoming, &endpoint, &resource)).ok()?;
    let _ = QUEUE.set(queue.clone());
    Some(Exporter { queue })
}

/// Before the process ends: what waits is sent, if somebody takes it in time.
pub(crate) fn finish() {
    let Some(queue) = QUEUE.get() else { return };
    let (done, is_done) = sync_channel(1);
    if queue.try_send(Item::Flush(done)).is_ok() {
        let _ = is_done.recv_timeout(PATIENCE);
    }
}

fn send(incoming: &Receiver<Item>, endpoint: &str, resource: &[(String, String)]) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    let agent: ureq::Agent = config.build().into();
    let (mut batch, mut complained) = (Vec::new(), None::<Instant>);
    loop {
        let (mut flushed, mut over) = (None, false);
        let until = Instant::now() + BATCH_EVERY;
        while batch.len() < BATCH_MOST && flushed.is_none() {
            match incoming.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Item::Span(span)) => batch.push(*span),
                Ok(Item::Flush(done)) => flushed = Some(done),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    over = true;
                    break;
                }
            }
        }
        if !batch.is_empty() {
            let body = json::request(resource, &batch).to_string();
            batch.clear();
            let sent = agent.post(endpoint).header("Content-Type", "application/json").send(body);
            let trouble = match sent {
                Ok(answer) if answer.status().is_success() => None,
                Ok(answer) => Some(format!("it answers {}", answer.status())),
                Err(error) => Some(error.to_string()),
            };
            if let Some(trouble) = trouble
                && complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY)
            {
                warn!("spans cannot be sent to {endpoint} and are dropped: {trouble}");
                complained = Some(Instant::now());
            }
        }
        if let Some(done) = flushed {
            let _ = done.send(());
        }
        if over {
            return;
        }
    }
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Different each time; nobody has to be unable to guess it.
fn random() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

/// The trace and the span that a client says its request belongs to (W3C trace context).
fn trace_parent(text: &str) -> Option<(String, String)> {
    let mut parts = text.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |text: &str, length: usize| {
        text.len() == length
            && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
            && text.bytes().any(|digit| digit != b'0')
    };
    let known = version.len() == 2 && version != "ff" && is_number(trace, 32) && is_number(span, 16);
    known.then(|| (trace.to_owned(), span.to_owned()))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Exporter {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let above = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Open>().map(|open| (open.trace.clone(), open.span.clone())));
        let given = || fields.0.remove("traceparent").as_deref().and_then(trace_parent);
        let (trace, parent) = match above.or_else(given) {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (format!("{:016x}{:016x}", random(), random()), None),
        };
        let open = Open { trace, span: format!("{:016x}", random()), parent, begun: now(), fields };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.fields);
        }
    }

    /// What is said of a span as it ends, its status above all, is a field of it.
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if let Some(span) = context.event_span(event)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            let mut fields = Fields::default();
            event.record(&mut fields);
            fields.0.remove("message");
            open.fields.0.extend(fields.0);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        let Open { trace, span: own, parent, begun, fields } = open;
        let fields = fields.0;
        let finished = Finished { trace, span: own, parent, name: span.name(), begun, ended: now(), fields };
        let _ = self.queue.try_send(Item::Span(Box::new(finished)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_client_is_taken_where_it_is_one() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let (known, span) = trace_parent(trace).expect("the example of the standard");
        assert_eq!((known.as_str(), span.as_str()), ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"));
        for wrong in ["", "00", "00-4bf9-00f0-01", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"] {
            assert_eq!(trace_parent(wrong), None, "{wrong}");
        }
        assert_eq!(trace_parent(&format!("00-{}-{}-01", "0".repeat(32), "0".repeat(16))), None);
    }
}
