//! Every command: its name, how many arguments it takes, and where its keys are.
//!
//! Not here: what they do (a file for each kind; `mod.rs` says which).

use super::parse::Arguments;
use super::reply::Fault;

/// Grouped as they are in files, so that each file handles all of its own and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read(Read),
    Write(Write),
    Names(Names),
    Streams(Streams),
    Transaction(Transaction),
    Server(Server),
}

/// Values and their times, looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Get,
    Strlen,
    Ttl,
    Pttl,
    Expiretime,
    Pexpiretime,
    Mget,
}

/// Values and their times, changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Set,
    Setnx,
    Setex,
    Psetex,
    Getset,
    Getdel,
    Append,
    Incr,
    Decr,
    Incrby,
    Decrby,
    Expire,
    Pexpire,
    Expireat,
    Pexpireat,
    Mset,
}

/// Whatever has a name, value or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Del,
    Exists,
    Type,
    Persist,
    Scan,
    Dbsize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    Xadd,
    Xdel,
    Xlen,
    Xrange,
    Xrevrange,
    Xread,
    Xtrim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    Multi,
    Exec,
    Discard,
}

/// The connection, the node, the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Asking,
    Auth,
    Client,
    Cluster,
    Command,
    Config,
    Echo,
    Hello,
    Info,
    Ping,
    Quit,
    Readonly,
    Readwrite,
    Reset,
    Select,
    Wait,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) verb: Verb,
    /// The arguments with the name; below zero: at least so many.
    pub(crate) arity: i8,
    pub(crate) flags: &'static [&'static str],
    /// The first and the last argument that is a key, and how far from one to the next. Below zero: from the end.
    pub(crate) keys: (i8, i8, i8),
    word: u64,
}

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const SHRINK: &[&str] = &["write", "fast"];
const PLAIN: &[&str] = &["fast"];
const NONE: (i8, i8, i8) = (0, 0, 0);
const ONE: (i8, i8, i8) = (1, 1, 1);
const ALL: (i8, i8, i8) = (1, -1, 1);

const fn entry(name: &'static str, verb: Verb, arity: i8, flags: &'static [&'static str], keys: (i8, i8, i8)) -> Entry {
    Entry { name, verb, arity, flags, keys, word: word(name.as_bytes()) }
}

/// The first eight letters of a name as one number, in lower case: most names have no more.
const fn word(name: &[u8]) -> u64 {
    let (mut word, mut place) = (0, 0);
    while place < name.len() && place < 8 {
        // Makes a letter small, and no letter of what is none.
        word |= ((name[place] | 0x20) as u64) << (8 * place);
        place += 1;
    }
    word
}

/// In the order of their names.
pub(crate) static TABLE: &[Entry] = &[
    entry("append", Verb::Write(Write::Append), 3, WRITE, ONE),
    entry("asking", Verb::Server(Server::Asking), 1, PLAIN, NONE),
    entry("auth", Verb::Server(Server::Auth), -2, PLAIN, NONE),
    entry("client", Verb::Server(Server::Client), -2, PLAIN, NONE),
    entry("cluster", Verb::Server(Server::Cluster), -2, PLAIN, NONE),
    entry("command", Verb::Server(Server::Command), -1, PLAIN, NONE),
    entry("config", Verb::Server(Server::Config), -2, PLAIN, NONE),
    entry("dbsize", Verb::Names(Names::Dbsize), 1, READ, NONE),
    entry("decr", Verb::Write(Write::Decr), 2, WRITE, ONE),
    entry("decrby", Verb::Write(Write::Decrby), 3, WRITE, ONE),
    entry("del", Verb::Names(Names::Del), -2, SHRINK, ALL),
    entry("discard", Verb::Transaction(Transaction::Discard), 1, PLAIN, NONE),
    entry("echo", Verb::Server(Server::Echo), 2, PLAIN, NONE),
    entry("exec", Verb::Transaction(Transaction::Exec), 1, PLAIN, NONE),
    entry("exists", Verb::Names(Names::Exists), -2, READ, ALL),
    entry("expire", Verb::Write(Write::Expire), -3, SHRINK, ONE),
    entry("expireat", Verb::Write(Write::Expireat), -3, SHRINK, ONE),
    entry("expiretime", Verb::Read(Read::Expiretime), 2, READ, ONE),
    entry("get", Verb::Read(Read::Get), 2, READ, ONE),
    entry("getdel", Verb::Write(Write::Getdel), 2, SHRINK, ONE),
    entry("getset", Verb::Write(Write::Getset), 3, WRITE, ONE),
    entry("hello", Verb::Server(Server::Hello), -1, PLAIN, NONE),
    entry("incr", Verb::Write(Write::Incr), 2, WRITE, ONE),
    entry("incrby", Verb::Write(Write::Incrby), 3, WRITE, ONE),
    entry("info", Verb::Server(Server::Info), -1, PLAIN, NONE),
    entry("mget", Verb::Read(Read::Mget), -2, READ, ALL),
    entry("mset", Verb::Write(Write::Mset), -3, WRITE, (1, -1, 2)),
    entry("multi", Verb::Transaction(Transaction::Multi), 1, PLAIN, NONE),
    entry("persist", Verb::Names(Names::Persist), 2, SHRINK, ONE),
    entry("pexpire", Verb::Write(Write::Pexpire), -3, SHRINK, ONE),
    entry("pexpireat", Verb::Write(Write::Pexpireat), -3, SHRINK, ONE),
    entry("pexpiretime", Verb::Read(Read::Pexpiretime), 2, READ, ONE),
    entry("ping", Verb::Server(Server::Ping), -1, PLAIN, NONE),
    entry("psetex", Verb::Write(Write::Psetex), 4, WRITE, ONE),
    entry("pttl", Verb::Read(Read::Pttl), 2, READ, ONE),
    entry("quit", Verb::Server(Server::Quit), -1, PLAIN, NONE),
    entry("readonly", Verb::Server(Server::Readonly), 1, PLAIN, NONE),
    entry("readwrite", Verb::Server(Server::Readwrite), 1, PLAIN, NONE),
    entry("reset", Verb::Server(Server::Reset), 1, PLAIN, NONE),
    entry("scan", Verb::Names(Names::Scan), -2, READ, NONE),
    entry("select", Verb::Server(Server::Select), 2, PLAIN, NONE),
    entry("set", Verb::Write(Write::Set), -3, WRITE, ONE),
    entry("setex", Verb::Write(Write::Setex), 4, WRITE, ONE),
    entry("setnx", Verb::Write(Write::Setnx), 3, WRITE, ONE),
    entry("strlen", Verb::Read(Read::Strlen), 2, READ, ONE),
    entry("ttl", Verb::Read(Read::Ttl), 2, READ, ONE),
    entry("type", Verb::Names(Names::Type), 2, READ, ONE),
    entry("unlink", Verb::Names(Names::Del), -2, SHRINK, ALL),
    entry("wait", Verb::Server(Server::Wait), 3, PLAIN, NONE),
    entry("xadd", Verb::Streams(Streams::Xadd), -5, WRITE, ONE),
    entry("xdel", Verb::Streams(Streams::Xdel), -3, SHRINK, ONE),
    entry("xlen", Verb::Streams(Streams::Xlen), 2, READ, ONE),
    entry("xrange", Verb::Streams(Streams::Xrange), -4, READ, ONE),
    entry("xread", Verb::Streams(Streams::Xread), -4, &["readonly", "blocking", "movablekeys"], NONE),
    entry("xrevrange", Verb::Streams(Streams::Xrevrange), -4, READ, ONE),
    entry("xtrim", Verb::Streams(Streams::Xtrim), -4, SHRINK, ONE),
];

impl Entry {
    fn is(&self, word: u64, name: &[u8]) -> bool {
        self.word == word
            && self.name.len() == name.len()
            && (name.len() <= 8 || self.name.as_bytes()[8..].eq_ignore_ascii_case(&name[8..]))
    }
}

/// What `find` finds, or the one that was found before, which it mostly is again.
fn find_again(name: &[u8], before: &mut Option<&'static Entry>) -> Option<&'static Entry> {
    if !before.is_some_and(|before| before.is(word(name), name)) {
        *before = find(name);
    }
    *before
}

pub(crate) fn find(name: &[u8]) -> Option<&'static Entry> {
    let word = word(name);
    TABLE.iter().find(|entry| entry.is(word, name))
}

/// The command of this request, if it is one with as many arguments as it needs.
pub(crate) fn check(arguments: Arguments<'_>, before: &mut Option<&'static Entry>) -> Result<&'static Entry, Fault> {
    let entry = find_again(arguments.get(0), before).ok_or_else(|| unknown(arguments))?;
    let (given, wanted) = (arguments.len(), usize::from(entry.arity.unsigned_abs()));
    let fits = if entry.arity < 0 { given >= wanted } else { given == wanted };
    if fits { Ok(entry) } else { Err(wrong_number(entry.name)) }
}

/// The keys of a request, for clients that route themselves.
pub(crate) fn keys(arguments: Arguments<'_>) -> Result<Vec<&[u8]>, Fault> {
    let entry = check(arguments, &mut None)?;
    let (first, last, step) = entry.keys;
    if entry.verb == Verb::Streams(Streams::Xread) {
        let begin = arguments.iter().position(|argument| argument.eq_ignore_ascii_case(b"STREAMS"));
        let names = arguments.from(begin.map_or(arguments.len(), |begin| begin + 1));
        return Ok(names.iter().take(names.len() / 2).collect());
    }
    let (Ok(first), Ok(step @ 1..)) = (usize::try_from(first), usize::try_from(step)) else {
        return Err(Fault::new("ERR The command has no key arguments"));
    };
    let count = if last < 0 { arguments.len() - first } else { 1 };
    Ok((first..first + count).step_by(step).map(|index| arguments.get(index)).collect())
}

pub(crate) fn wrong_number(name: &str) -> Fault {
    Fault::new(format!("ERR wrong number of arguments for '{name}' command"))
}

fn unknown(arguments: Arguments<'_>) -> Fault {
    let short = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", short(arguments.get(0)));
    for argument in arguments.from(1).iter().take(20) {
        if text.len() > 256 {
            break;
        }
        text.push_str(&format!("'{}' ", short(argument)));
    }
    Fault::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_finds_all_of_it() {
        assert!(TABLE.is_sorted_by(|one, other| one.name < other.name));
        for entry in TABLE {
            assert_eq!(find(entry.name.to_ascii_uppercase().as_bytes()).map(|found| found.verb), Some(entry.verb));
        }
        let mut before = None;
        for name in ["get", "GET", "gett", "set", "get"] {
            assert_eq!(
                find_again(name.as_bytes(), &mut before).map(|entry| entry.name),
                find(name.as_bytes()).map(|entry| entry.name)
            );
        }
        assert!(find(b"").is_none() && find(b"getx").is_none() && find(&[b'a'; 100]).is_none());
    }
}
