//! What a node that belongs to no cluster yet waits for, in words.

use atoll_cluster::arrival::Waiting;
use atoll_types::Name;
use std::net::SocketAddr;

pub(crate) fn words(waiting: &Waiting) -> String {
    if let Some(twin) = &waiting.twin {
        return format!("waiting because {twin} has the same name: give each node a --name of its own");
    }
    // A name may stand for many addresses, and whoever answers does not say which of them it was asked at.
    let silent = waiting.silent.iter().filter(|address| address.0.parse::<SocketAddr>().is_ok());
    let silent: Vec<&str> = silent.map(|address| &*address.0).collect();
    let no_answer = if silent.is_empty() { String::new() } else { format!(" (no answer from {})", silent.join(", ")) };
    match &waiting.founder {
        None => format!("waiting to be let into a cluster{no_answer}"),
        Some(founder) if waiting.missing.is_empty() => format!("waiting for {founder} to found the cluster{no_answer}"),
        Some(_) => {
            let missing = list(&waiting.missing);
            let why = match silent.is_empty() {
                true => " (not among those that --join names, or started with another --bootstrap)".to_owned(),
                false => no_answer,
            };
            format!("waiting for {missing} to found the cluster{why}")
        }
    }
}

fn list(names: &[Name]) -> String {
    names.iter().map(|name| &*name.0).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Address;

    #[test]
    fn it_says_who_is_missing_and_where_nobody_answers() {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
        let silent: Vec<Address> = vec!["10.0.0.2:7000".into(), "a.name:7000".into()];
        let founder = Some("n1".into());
        let waiting = Waiting { founder, missing: names(&["n2", "n3"]), silent, twin: None };
        assert_eq!(words(&waiting), "waiting for n2, n3 to found the cluster (no answer from 10.0.0.2:7000)");
        let waiting = Waiting { silent: Vec::new(), ..waiting };
        assert!(words(&waiting).contains("--join"), "{}", words(&waiting));
        let waiting = Waiting { missing: Vec::new(), ..waiting };
        assert_eq!(words(&waiting), "waiting for n1 to found the cluster");
        let alone = Waiting { silent: vec!["10.0.0.2:7000".into()], ..Waiting::default() };
        assert_eq!(words(&alone), "waiting to be let into a cluster (no answer from 10.0.0.2:7000)");
        let twin = Waiting { twin: Some("10.0.0.3:7000".into()), ..waiting };
        assert!(words(&twin).contains("10.0.0.3:7000 has the same name"));
    }
}
