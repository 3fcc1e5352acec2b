//! HTTP: `PUT` and `GET` by wrk, against etcd's JSON gateway, which takes the same over `POST`.

use super::{Run, bar, group};
use crate::chart;
use crate::load::http::base64;
use crate::load::usage::{Usage, cores};
use crate::load::{Report, key};
use crate::measure::repeat;
use crate::packages::Program;
use crate::peers::{Peer, atoll};
use crate::servers::Place;
use crate::table::{Found, Row, Unit, Wanted};
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use std::time::Instant;

const CONNECTIONS: usize = 64;
const KEYS: u64 = 1000;

pub(super) fn measure(run: &mut Run) -> anyhow::Result<Vec<(&'static str, String)>> {
    let name = |what: &str| format!("HTTP {what} of 100 B by wrk, {CONNECTIONS} connections");
    let targets = || {
        vec![(name("PUT"), Wanted::AtLeast(5.0), Unit::PerSecond), (name("GET"), Wanted::AtLeast(5.0), Unit::PerSecond)]
    };
    let started = run
        .workshop
        .store
        .program("wrk", "wrk")
        .and_then(|wrk| Ok((wrk, Peer::Etcd.start(&run.workshop, Place::Memory)?)));
    let (wrk, etcd) = match started {
        Ok(started) => started,
        Err(error) => {
            run.missing(targets(), "etcd's JSON gateway", &error);
            return Ok(Vec::new());
        }
    };
    let own = atoll::start(&run.workshop, &atoll::Setup::default())?;
    own.settled_load()?;
    let mut groups = Vec::new();
    for (what, own_script, other_script) in
        [("PUT", atoll_script(true), etcd_script(true)), ("GET", atoll_script(false), etcd_script(false))]
    {
        let seconds = run.effort.seconds;
        let rounds = repeat(run.effort, || {
            let put = |script: &str, address: &str, pids: &[u32]| {
                web_load(&wrk, &run.workshop.scratch, script, address, pids, seconds)
            };
            let own = put(&own_script, &own.http[0], &own.cluster.pids())?;
            Ok(vec![own, put(&other_script, &etcd.addresses[etcd.leader], &etcd.pids())?])
        })?;
        let found = Found {
            own: rounds.median(0, |report| report.per_second),
            other: rounds.median(1, |report| report.per_second),
            ratio: rounds.ratio(0, 1, |report| report.per_second),
            disturbed: rounds.others(),
        };
        let against = format!("{}'s JSON gateway", etcd.name);
        groups.push(group(
            &name(what),
            vec![bar("Atoll", found.own, Unit::PerSecond), bar(&against, found.other, Unit::PerSecond)],
        ));
        let wanted = Wanted::AtLeast(5.0);
        run.add(Row { work: name(what), against, wanted, unit: Unit::PerSecond, found: Ok(found) });
    }
    let note = "Longer is better. One node is asked for everything.";
    Ok(vec![("compare-http.svg", chart::draw("HTTP requests a second", note, &groups))])
}

fn atoll_script(writes: bool) -> String {
    let method = if writes { "PUT" } else { "GET" };
    let body = if writes { format!("wrk.body = \"{}\"\n", "x".repeat(100)) } else { String::new() };
    format!(
        "wrk.method = \"{method}\"\n{body}request = function()\n  \
         return wrk.format(nil, string.format(\"/v1/kv/k%011d\", math.random(0, {})))\nend\n",
        KEYS - 1
    )
}

/// The gateway wants keys and values in base64, which is made beforehand.
fn etcd_script(writes: bool) -> String {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("\"{}\"", base64(key(number).as_bytes()))).collect();
    let value = if writes { format!(",\\\"value\\\":\\\"{}\\\"", base64(&[b'x'; 100])) } else { String::new() };
    let path = if writes { "/v3/kv/put" } else { "/v3/kv/range" };
    let head = format!("wrk.method = \"POST\"\nlocal keys = {{{}}}\nrequest = function()\n", keys.join(","));
    let body = format!("\"{{\\\"key\\\":\\\"\" .. keys[math.random({KEYS})] .. \"\\\"{value}}}\"");
    format!("{head}  return wrk.format(nil, \"{path}\", nil, {body})\nend\n")
}

fn web_load(
    wrk: &Program,
    folder: &Path,
    script: &str,
    address: &str,
    pids: &[u32],
    seconds: f64,
) -> anyhow::Result<Report> {
    let path = folder.join(format!("wrk-{}.lua", std::process::id()));
    fs::write(&path, script)?;
    let (before, begun) = (Usage::now(pids), Instant::now());
    let mut command = wrk.command();
    command.args(["-t", "1", "-c", &CONNECTIONS.to_string(), "-d", &format!("{}s", seconds.ceil()), "-s"]);
    let out = command.arg(&path).arg(format!("http://{address}/")).output()?;
    let (used, took) = (Usage::now(pids).since(before), begun.elapsed().as_secs_f64());
    fs::remove_file(&path)?;
    let said = String::from_utf8_lossy(&out.stdout);
    let per_second = rate_in(&said)?;
    let others = used.others / took / cores() as f64;
    let server_us = used.servers * 1e6 / (per_second * took);
    Ok(Report { per_second, operations: (per_second * took) as u64, server_us, others, ..Report::default() })
}

/// From what wrk says. Refusals are no answers.
fn rate_in(said: &str) -> anyhow::Result<f64> {
    if let Some(line) = said.lines().find(|line| line.contains("Non-2xx")) {
        bail!("wrk: {}", line.trim());
    }
    let line = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    Ok(line.with_context(|| format!("wrk said: {said}"))?.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_and_refusals_are_not_counted() {
        let said = "  2 threads\n  Latency 1ms\nRequests/sec:  12345.67\nTransfer/sec: 1MB\n";
        assert_eq!(rate_in(said).unwrap(), 12_345.67);
        let refused = "  Non-2xx or 3xx responses: 17\nRequests/sec:  99\n";
        assert!(rate_in(refused).unwrap_err().to_string().contains("Non-2xx"));
        assert!(rate_in("unable to connect").is_err());
    }
}
