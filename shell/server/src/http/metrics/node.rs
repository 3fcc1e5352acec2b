//! Of this node: requests and where their time goes, clients, bytes, copies, the disk.

use super::App;
use super::text::Text;
use crate::disk::Meter as DiskMeter;
use crate::latency::{Kind, Protocol, Sum};
use crate::meters::{Meter, RESULTS, ShardMeters};
use crate::refused::Why;
use crate::status::CopyStatus;

fn protocols_and_kinds() -> impl Iterator<Item = (Protocol, Kind)> {
    Protocol::ALL.into_iter().flat_map(|protocol| Kind::ALL.map(|kind| (protocol, kind)))
}

pub(super) fn requests(text: &mut Text, app: &App) {
    let mut http = text.counter("atoll_http_requests_total", "Requests over HTTP, by kind and status.");
    for ((kind, status), count) in app.requests.all() {
        http.with(&[("kind", kind.label()), ("status", &status.to_string())], count);
    }
    let shards = &app.gateway.switch().meters;
    let help = "Reads and writes of buckets that were answered, by protocol, kind and result.";
    let mut requests = text.counter("atoll_requests_total", help);
    for (protocol, kind) in protocols_and_kinds() {
        for (place, result) in RESULTS.into_iter().enumerate() {
            let count: u64 = shards.iter().map(|own| own.so_far(protocol, kind, place)).sum();
            // Many of them never happen; whoever looks for one takes none for zero.
            if count > 0 || place == 0 {
                requests.with(&[("protocol", protocol.label()), ("kind", kind.label()), ("result", result)], count);
            }
        }
    }
    let help = "From when a shard takes a request to its answer, by protocol and kind.";
    let mut seconds = text.histogram("atoll_request_seconds", help);
    for (protocol, kind) in protocols_and_kinds() {
        let labels = [("protocol", protocol.label()), ("kind", kind.label())];
        seconds.spread(&labels, &app.gateway.latencies(protocol, kind));
    }
    let mut refused = text.counter("atoll_refused_total", "What was turned away at the doors, by reason.");
    for why in Why::ALL {
        refused.with(&[("reason", why.label())], app.gateway.refused().so_far(why));
    }
}

pub(super) fn stages(text: &mut Text, app: &App) {
    let switch = app.gateway.switch();
    let help = "Samples of where time goes: queue, waiting for a thread; hop, to another node and back; replicate, \
                until every member holds an entry; persist, until the disk does; apply, a round of a shard's work.";
    let mut stages = text.histogram("atoll_stage_seconds", help);
    let mut of = |stage, histogram: fn(&ShardMeters) -> &crate::latency::Histogram| {
        stages.spread(&[("stage", stage)], &Sum::of(switch.meters.iter().map(|own| histogram(own))));
    };
    of("queue", |own| &own.queue);
    of("hop", |own| &own.hop);
    of("replicate", |own| &own.replicate);
    of("apply", |own| &own.apply);
    stages.spread(&[("stage", "persist")], &Sum::of(std::iter::once(&switch.persist)));
}

pub(super) fn traffic(text: &mut Text, app: &App) {
    let switch = app.gateway.switch();
    let sum = |of: fn(&ShardMeters) -> &Meter| switch.meters.iter().map(|own| of(own).get()).sum::<u64>();
    text.gauge("atoll_clients", "Clients that are connected.").is(app.gateway.clients());
    let mut received = text.counter("atoll_received_bytes_total", "Bytes that came, by whom they came from.");
    received.with(&[("from", "peers")], switch.traffic.from_peers.get());
    for protocol in Protocol::ALL {
        received.with(&[("from", protocol.label())], switch.traffic.from(protocol).get());
    }
    let mut sent = text.counter("atoll_sent_bytes_total", "Bytes that were sent, by whom they were for.");
    sent.with(&[("to", "peers")], sum(|own| &own.to_peers) + switch.decided.to_peers.get());
    for protocol in Protocol::ALL {
        sent.with(&[("to", protocol.label())], switch.traffic.to(protocol).get());
    }
    text.gauge("atoll_backlog", "Requests that wait for their bucket.").is(sum(|own| &own.backlog));
    let help = "Requests turned away because too many waited for their bucket.";
    text.counter("atoll_backlog_full_total", help).is(sum(|own| &own.backlog_full));
    let help = "Snapshots of buckets that went to another node, or came whole, by direction.";
    let mut snapshots = text.counter("atoll_bucket_snapshots_total", help);
    snapshots.with(&[("direction", "sent")], sum(|own| &own.sent.snapshots));
    snapshots.with(&[("direction", "received")], sum(|own| &own.received.snapshots));
    let mut bytes = text.counter("atoll_bucket_snapshot_bytes_total", "Bytes of snapshots of buckets, by direction.");
    bytes.with(&[("direction", "sent")], sum(|own| &own.sent.bytes));
    bytes.with(&[("direction", "received")], sum(|own| &own.received.bytes));
}

pub(super) async fn copies(text: &mut Text, app: &App) {
    let copies = app.gateway.copies().await;
    let serving = copies.iter().filter(|copy| copy.serving).count();
    let sum = |of: fn(&CopyStatus) -> u64| copies.iter().map(of).sum::<u64>();
    text.gauge("atoll_copies", "Copies of buckets on this node.").is(copies.len());
    text.gauge("atoll_copies_serving", "Buckets that this node serves as their primary.").is(serving);
    text.gauge("atoll_copies_keys", "Keys and streams in the copies on this node.").is(sum(|copy| copy.keys));
    text.gauge("atoll_copies_bytes", "Memory of the copies on this node.").is(sum(|copy| copy.bytes));
    text.gauge("atoll_copies_sessions", "Sessions in the copies on this node.").is(sum(|copy| copy.sessions));
    let help = "Entries of bucket logs that this node keeps in memory.";
    text.gauge("atoll_copies_log_entries", help).is(sum(|copy| copy.log_entries));
    let help = "Entries written to the buckets of which this node has a copy and known committed, since ever.";
    text.counter("atoll_copies_committed_total", help).is(sum(|copy| copy.offset));
}

pub(super) fn disk(text: &mut Text, app: &App) {
    let (settings, switch) = (app.gateway.settings(), app.gateway.switch());
    let (disk, read) = (app.gateway.disk(), DiskMeter::read);
    let durable = u8::from(settings.data_dir.is_some());
    text.gauge("atoll_durable", "1 if this node keeps its data on disk.").is(durable);
    text.counter("atoll_disk_syncs_total", "Syncs of the log; one serves all that waits.").is(read(&disk.syncs));
    text.counter("atoll_disk_records_total", "Records written to the log.").is(read(&disk.records));
    text.counter("atoll_disk_bytes_total", "Bytes of records written to the log.").is(read(&disk.bytes));
    let spent = read(&disk.micros) as f64 / 1e6;
    text.counter("atoll_disk_sync_seconds_total", "Time spent writing and syncing the log.").is(spent);
    text.counter("atoll_disk_images_total", "Images of buckets written.").is(read(&disk.images));
    let copied = read(&disk.copied);
    text.counter("atoll_disk_copied_total", "Whole copies of buckets that other members sent.").is(copied);
    text.gauge("atoll_disk_log_bytes", "Bytes of the log.").is(read(&disk.log));
    let help = "Bytes of the log and images on disk that are still needed.";
    text.gauge("atoll_disk_live_bytes", help).is(switch.live_bytes.get());
    text.gauge("atoll_memory_limit_bytes", "Memory that buckets may take; 0 is no limit.").is(settings.max_memory);
}
