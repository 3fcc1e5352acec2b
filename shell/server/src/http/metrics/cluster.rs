//! Of the cluster, as this node sees it.

use super::App;
use super::text::Text;
use crate::meters::Named;
use atoll_node::Counters;
use atoll_types::Gauge;

pub(super) fn state(text: &mut Text, app: &App) {
    let status = app.gateway.board().status();
    text.gauge("atoll_healthy", "1 if nothing is missing in the cluster.").is(u8::from(status.healthy));
    text.gauge("atoll_ready", "1 if this node can be sent clients.").is(u8::from(status.is_ready()));
    let leader = &status.government.leader;
    text.gauge("atoll_leader_known", "1 if a leader is known.").is(u8::from(leader.is_some()));
    let leads = leader.as_ref().is_some_and(|leader| *leader == status.node);
    text.gauge("atoll_leads", "1 if this node leads.").is(u8::from(leads));
    text.gauge("atoll_problems", "What is missing, counted.").is(status.problems.len());
    text.gauge("atoll_alarms", "What an operator should look at, counted.").is(status.alarms.len());
    let mut buckets = text.gauge("atoll_buckets", "Buckets of the cluster, by state.");
    let all = app.gateway.board().buckets();
    for state in ["serving", "paused", "splitting", "short", "lost"] {
        buckets.with(&[("state", state)], all.iter().filter(|bucket| bucket.state == state).count());
    }
    text.gauge("atoll_moves", "Moves of buckets under way.").is(status.moves.len());
    text.gauge("atoll_table_version", "Slot of the last change of the table.").is(status.table_version);
    text.gauge("atoll_decided_slot", "Last slot of the cluster log known decided here.").is(status.decided);
    let mut nodes = text.gauge("atoll_nodes", "Nodes, by state.");
    for state in ["arriving", "present", "absent", "draining", "departed"] {
        nodes.with(&[("state", state)], status.nodes.iter().filter(|node| node.state == state).count());
    }
}

pub(super) fn decided(text: &mut Text, app: &App) {
    let decided = &app.gateway.switch().decided;
    let help = "What happened to nodes, as far as this one saw it decided since it was started, by change.";
    count(text, "atoll_node_changes_total", help, "change", &decided.changes);
    let help = "Steps of moves of buckets that this node saw decided since it was started, by kind.";
    count(text, "atoll_move_steps_total", help, "kind", &decided.moves);
}

fn count<const N: usize>(text: &mut Text, name: &str, help: &str, label: &str, counts: &Named<N>) {
    let mut series = text.counter(name, help);
    for (value, count) in counts.all() {
        series.with(&[(label, value)], count);
    }
}

pub(super) fn log(text: &mut Text, counters: &Counters) {
    let help = "Messages of the cluster log not taken, by reason.";
    let mut refused = text.counter("atoll_cluster_messages_refused_total", help);
    let reasons = [
        ("other_cluster", counters.refused_other_cluster),
        ("old_generation", counters.refused_old_generation),
        ("old_incarnation", counters.refused_old_incarnation),
        ("not_me", counters.refused_not_me),
        ("not_ready", counters.dropped_not_ready),
    ];
    for (reason, count) in reasons {
        refused.with(&[("reason", reason)], count);
    }
    text.counter("atoll_told_departed_total", "Departed nodes that were told so.").is(counters.told_departed);
    text.counter("atoll_elections_total", "Elections this node stood in.").is(counters.elections);
    let (installed, bad) = (counters.snapshots_installed, counters.snapshots_refused);
    text.counter("atoll_snapshots_installed_total", "Snapshots of the cluster log installed.").is(installed);
    text.counter("atoll_snapshots_refused_total", "Snapshots of the cluster log refused.").is(bad);
    let queues: [(&str, Gauge); 5] = [
        ("submissions", counters.submissions),
        ("outstanding", counters.outstanding),
        ("arrivals", counters.arrivals),
        ("pipeline", counters.pipeline),
        ("log", counters.log),
    ];
    let mut held = text.gauge("atoll_cluster_queue", "What waits in the queues of the cluster log.");
    queues.iter().for_each(|(queue, gauge)| held.with(&[("queue", queue)], gauge.held));
    let mut full = text.counter("atoll_cluster_queue_full_total", "What found a queue of the cluster log full.");
    queues.iter().for_each(|(queue, gauge)| full.with(&[("queue", queue)], gauge.turned_away));
}
