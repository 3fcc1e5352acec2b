//! Commands about the connection and the node: PING, HELLO, CLIENT, COMMAND, CONFIG, INFO and the like.

use super::cluster;
use super::options::{is, matches, number};
use super::parse::Arguments;
use super::plan::{Late, Plan, Said};
use super::reply::{Fault, Protocol, Reply, bytes};
use super::session::Session;
use super::table::{self, Entry, Server, TABLE};
use crate::gateway::Gateway;

/// What clients that look at the version are told: the commands here behave like those of that one.
const LIKE: &str = "7.2.0";

pub(crate) fn plan(verb: Server, arguments: Arguments<'_>, session: &mut Session) -> Result<Plan, Fault> {
    match verb {
        Server::Ping => match arguments.len() {
            1 => Ok(Plan::Reply(b"+PONG\r\n".to_vec())),
            2 => Ok(Plan::Reply(bytes(session.protocol, |reply| reply.bulk(arguments.get(1))))),
            _ => Err(table::wrong_number("ping")),
        },
        Server::Echo => Ok(Plan::Reply(bytes(session.protocol, |reply| reply.bulk(arguments.get(1))))),
        Server::Hello => hello(arguments, session),
        Server::Auth => {
            match arguments.len() {
                2 => {
                    return Err(Fault::new(
                        "ERR AUTH <password> called without any password configured for the default user. \
                         Are you sure your configuration is correct?",
                    ));
                }
                3 => check_user(arguments.get(1))?,
                _ => return Err(Fault::SYNTAX),
            }
            Ok(Plan::ok())
        }
        Server::Select => match number(arguments.get(1))? {
            0 => Ok(Plan::ok()),
            _ => Err(Fault::new("ERR DB index is out of range: there is one, 0")),
        },
        Server::Quit => Ok(Plan::Last(b"+OK\r\n".to_vec())),
        Server::Reset => {
            session.reset();
            Ok(Plan::Reply(bytes(session.protocol, |reply| reply.simple("RESET"))))
        }
        Server::Client => client(arguments, session),
        Server::Command => command(arguments, session.protocol),
        Server::Config => config(arguments, session),
        Server::Info => Ok(Plan::Late { late: info(arguments, session), blocks: false }),
        Server::Wait => {
            number(arguments.get(1))?;
            number(arguments.get(2))?;
            // What was written on this connection before is in every member by now, or was not said to be done.
            let routes = session.gateway.board().routes();
            let members = routes.ranges.iter().map(|range| range.members.len()).min().unwrap_or(0);
            let others = members.saturating_sub(1) as u64;
            Ok(Plan::Reply(bytes(session.protocol, |reply| reply.count(others))))
        }
        Server::Cluster => {
            let routes = session.gateway.board().routes();
            let (reply, routed) = cluster::reply(arguments, &routes, session.protocol)?;
            session.routed |= routed;
            Ok(Plan::Reply(reply))
        }
        Server::Readonly => {
            // Whoever asks a node that is not the primary, knowing that, is hopped and not sent away.
            session.routed = false;
            Ok(Plan::ok())
        }
        Server::Readwrite => {
            session.routed = true;
            Ok(Plan::ok())
        }
        Server::Asking => Ok(Plan::ok()),
    }
}

/// There are no passwords: the default user needs none.
fn check_user(user: &[u8]) -> Result<(), Fault> {
    if user == b"default" {
        return Ok(());
    }
    Err(Fault::new("WRONGPASS invalid username-password pair or user is disabled."))
}

fn hello(arguments: Arguments<'_>, session: &mut Session) -> Result<Plan, Fault> {
    let mut protocol = session.protocol;
    if arguments.len() > 1 {
        protocol = match number(arguments.get(1)) {
            Ok(2) => Protocol::Two,
            Ok(3) => Protocol::Three,
            Ok(_) => return Err(Fault::new("NOPROTO unsupported protocol version")),
            Err(_) => return Err(Fault::new("ERR Protocol version is not an integer or out of range")),
        };
    }
    let mut name = None;
    let mut index = 2;
    while index < arguments.len() {
        if is(arguments.get(index), "AUTH") && index + 2 < arguments.len() {
            check_user(arguments.get(index + 1))?;
            index += 3;
        } else if is(arguments.get(index), "SETNAME") && index + 1 < arguments.len() {
            name = Some(checked_name(arguments.get(index + 1))?);
            index += 2;
        } else {
            return Err(Fault::new("ERR Syntax error in HELLO"));
        }
    }
    session.protocol = protocol;
    session.name = name.unwrap_or(std::mem::take(&mut session.name));
    let number = session.number;
    Ok(Plan::Reply(bytes(protocol, |reply| {
        reply.map(7);
        let mut pair = |name: &str, value: &str| {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        };
        pair("server", "redis");
        pair("version", LIKE);
        pair("mode", "cluster");
        pair("role", "master");
        reply.bulk(b"proto");
        reply.integer(if protocol == Protocol::Two { 2 } else { 3 });
        reply.bulk(b"id");
        reply.count(number);
        reply.bulk(b"modules");
        reply.array(0);
    })))
}

fn checked_name(name: &[u8]) -> Result<Vec<u8>, Fault> {
    if name.len() <= 256 && name.iter().all(u8::is_ascii_graphic) {
        return Ok(name.to_vec());
    }
    Err(Fault::new("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn client(arguments: Arguments<'_>, session: &mut Session) -> Result<Plan, Fault> {
    let what = arguments.get(1);
    let protocol = session.protocol;
    let line = |session: &Session| {
        let resp = if session.protocol == Protocol::Two { 2 } else { 3 };
        let name = String::from_utf8_lossy(&session.name).into_owned();
        format!("id={} addr={} name={name} db=0 resp={resp}\n", session.number, session.from)
    };
    if is(what, "SETNAME") && arguments.len() == 3 {
        session.name = checked_name(arguments.get(2))?;
    } else if is(what, "GETNAME") && arguments.len() == 2 {
        let name = Some(session.name.as_slice()).filter(|name| !name.is_empty());
        return Ok(Plan::Reply(bytes(protocol, |reply| reply.bulk_or_null(name))));
    } else if is(what, "ID") && arguments.len() == 2 {
        return Ok(Plan::Reply(bytes(protocol, |reply| reply.count(session.number))));
    } else if (is(what, "INFO") || is(what, "LIST")) && arguments.len() == 2 {
        // Connections do not know of each other.
        let line = line(session);
        return Ok(Plan::Reply(bytes(protocol, |reply| reply.bulk(line.as_bytes()))));
    } else if is(what, "SETINFO") && arguments.len() == 4 {
        checked_name(arguments.get(3))?;
    } else if is_so_already(what, arguments.get(2)) && arguments.len() == 3 {
        // Nothing to do.
    } else {
        let what = String::from_utf8_lossy(&what[..what.len().min(64)]).into_owned();
        return Err(Fault::new(format!(
            "ERR CLIENT {what}: unknown, or wrong arguments. There are ID, INFO, LIST, SETNAME, GETNAME, SETINFO."
        )));
    }
    Ok(Plan::ok())
}

/// Asks for what is the case anyway: nothing is evicted, every reply is sent, nothing is tracked.
fn is_so_already(what: &[u8], value: &[u8]) -> bool {
    is(what, "NO-EVICT")
        || is(what, "NO-TOUCH")
        || is(what, "REPLY") && is(value, "ON")
        || is(what, "TRACKING") && is(value, "OFF")
}

fn describe(entry: &Entry, reply: &mut Reply<'_>) {
    let (first, last, step) = entry.keys;
    reply.array(10);
    reply.bulk(entry.name.as_bytes());
    reply.integer(i64::from(entry.arity));
    reply.array(entry.flags.len());
    entry.flags.iter().for_each(|flag| reply.simple(flag));
    [first, last, step].into_iter().for_each(|number| reply.integer(i64::from(number)));
    // Categories, hints, key specifications, subcommands.
    (0..4).for_each(|_| reply.array(0));
}

fn command(arguments: Arguments<'_>, protocol: Protocol) -> Result<Plan, Fault> {
    let what = arguments.get(1);
    let reply = if arguments.len() == 1 {
        bytes(protocol, |reply| {
            reply.array(TABLE.len());
            TABLE.iter().for_each(|entry| describe(entry, reply));
        })
    } else if is(what, "COUNT") {
        bytes(protocol, |reply| reply.count(TABLE.len() as u64))
    } else if is(what, "LIST") {
        bytes(protocol, |reply| {
            reply.array(TABLE.len());
            TABLE.iter().for_each(|entry| reply.bulk(entry.name.as_bytes()));
        })
    } else if is(what, "INFO") {
        bytes(protocol, |reply| {
            let names = arguments.from(2);
            reply.array(names.len());
            for name in names.iter() {
                match table::find(name) {
                    Some(entry) => describe(entry, reply),
                    None => reply.null_array(),
                }
            }
        })
    } else if is(what, "GETKEYS") {
        let keys = table::keys(arguments.from(2))?;
        bytes(protocol, |reply| {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        })
    } else if is(what, "DOCS") {
        bytes(protocol, |reply| reply.map(0))
    } else {
        return Err(Fault::new("ERR unknown subcommand. There are COMMAND, COMMAND COUNT, LIST, INFO, GETKEYS, DOCS."));
    };
    Ok(Plan::Reply(reply))
}

fn parameters(gateway: &Gateway) -> Vec<(&'static str, String)> {
    let settings = gateway.settings();
    let words = |word: &str| word.to_owned();
    vec![
        ("appendonly", words("no")),
        ("bind", settings.resp.rsplit_once(':').map_or(String::new(), |(host, _)| host.to_owned())),
        ("cluster-enabled", words("yes")),
        ("databases", words("1")),
        ("maxclients", settings.max_clients.to_string()),
        ("maxmemory", settings.max_memory.to_string()),
        ("maxmemory-policy", words("noeviction")),
        ("port", settings.resp.rsplit_once(':').map_or(String::new(), |(_, port)| port.to_owned())),
        ("proto-max-bulk-len", settings.max_value.to_string()),
        ("save", String::new()),
        ("timeout", settings.idle.as_secs().to_string()),
    ]
}

fn config(arguments: Arguments<'_>, session: &Session) -> Result<Plan, Fault> {
    if !is(arguments.get(1), "GET") || arguments.len() < 3 {
        return Err(Fault::new("ERR only CONFIG GET is there: settings are flags of `atoll serve`"));
    }
    let asked = |name: &str| {
        let mut patterns = arguments.from(2).iter();
        patterns.any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let found: Vec<_> = parameters(&session.gateway).into_iter().filter(|(name, _)| asked(name)).collect();
    Ok(Plan::Reply(bytes(session.protocol, |reply| {
        reply.map(found.len());
        for (name, value) in &found {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    })))
}

fn info(arguments: Arguments<'_>, session: &Session) -> Late {
    let wanted: Vec<String> =
        arguments.from(1).iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let (gateway, protocol) = (session.gateway.clone(), session.protocol);
    Box::pin(async move {
        let everything = ["all", "default", "everything"];
        let copies = gateway.copies().await;
        let mut text = String::new();
        for (section, lines) in sections(&gateway, &copies) {
            let is_wanted = |word: &String| word == section || everything.contains(&word.as_str());
            if wanted.is_empty() || wanted.iter().any(is_wanted) {
                let title = format!("# {}{}\r\n", section[..1].to_ascii_uppercase(), &section[1..]);
                let gap = if text.is_empty() { "" } else { "\r\n" };
                text.push_str(&format!("{gap}{title}{lines}"));
            }
        }
        Said { reply: bytes(protocol, |reply| reply.bulk(text.as_bytes())), rest: None }
    })
}

fn sections(gateway: &Gateway, copies: &[crate::status::CopyStatus]) -> Vec<(&'static str, String)> {
    let status = gateway.board().status();
    let routes = gateway.board().routes();
    let keys: u64 = copies.iter().filter(|copy| copy.serving).map(|copy| copy.keys).sum();
    let used: u64 = copies.iter().map(|copy| copy.bytes).sum();
    let replicas = status.copies.saturating_sub(1);
    vec![
        (
            "server",
            format!(
                "redis_version:{LIKE}\r\nserver_name:atoll\r\natoll_version:{}\r\nredis_mode:cluster\r\n\
                 atoll_node:{}\r\nrun_id:{}\r\n",
                env!("CARGO_PKG_VERSION"),
                status.node,
                cluster::id(routes.me),
            ),
        ),
        (
            "clients",
            format!("connected_clients:{}\r\nmaxclients:{}\r\n", gateway.clients(), gateway.settings().max_clients),
        ),
        ("memory", format!("used_memory:{used}\r\nmaxmemory:{}\r\n", gateway.settings().max_memory)),
        ("persistence", "loading:0\r\naof_enabled:0\r\n".to_owned()),
        ("replication", format!("role:master\r\nconnected_slaves:{replicas}\r\n")),
        ("cluster", "cluster_enabled:1\r\n".to_owned()),
        ("keyspace", format!("db0:keys={keys},expires=0,avg_ttl=0\r\n")),
    ]
}
