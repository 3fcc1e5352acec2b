//! Rule: only the first-named founder founds, and it founds one cluster; a second one only after it has lost its
//! memory, and no other founder that kept its own belongs to the first. One that lost it may have said that it is
//! blank, and have been let in again before the answer arrived.

use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::Config;
use atoll_types::{ClusterId, Name};
use std::collections::BTreeSet;

const RULE: &str = "founding";

#[derive(Debug)]
pub(crate) struct Foundings {
    founders: Vec<Name>,
    founded: Vec<ClusterId>,
    /// Who has lost its memory, or its place, since the last founding.
    forgot: BTreeSet<Name>,
}

impl Foundings {
    pub(crate) fn new(configs: &[Config]) -> Foundings {
        let founders = configs.iter().map(|config| &config.bootstrap).find(|list| !list.is_empty());
        Foundings { founders: founders.cloned().unwrap_or_default(), founded: Vec::new(), forgot: BTreeSet::new() }
    }

    pub(crate) fn forget(&mut self, hosts: &[Host], host: usize) {
        self.forgot.insert(hosts[host].config.name.clone());
    }

    pub(crate) fn on_founded(&mut self, hosts: &[Host], host: usize, cluster: ClusterId) -> Result<(), Violation> {
        let name = &hosts[host].config.name;
        if self.founders.first() != Some(name) {
            let detail = format!("{name} founds {cluster}; only the first of {:?} may", self.founders);
            return Err(Violation::of(RULE, detail));
        }
        if let Some(&before) = self.founded.last() {
            if !self.forgot.contains(name) {
                return Err(Violation::of(RULE, format!("{name} founds {cluster}, and has founded {before}")));
            }
            let belongs = hosts.iter().enumerate().find(|(other, machine)| {
                let founder = self.founders.contains(&machine.config.name) && *other != host;
                let kept = !self.forgot.contains(&machine.config.name);
                founder && kept && machine.is_running() && machine.identity().is_some()
            });
            if let Some((other, _)) = belongs {
                let detail = format!("{name} founds {cluster}, and the founder {} belongs to one", host_name(other));
                return Err(Violation::of(RULE, detail));
            }
        }
        self.forgot.clear();
        self.founded.push(cluster);
        Ok(())
    }
}
