//! Rule: only the first-named founder founds, and it founds one cluster; a second one only after it has lost its memory,
//! and none of the founders belongs to the first.

use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::Config;
use atoll_types::{ClusterId, Name};

const RULE: &str = "founding";

#[derive(Debug)]
pub(crate) struct Foundings {
    founders: Vec<Name>,
    founded: Vec<ClusterId>,
    /// The first founder has lost its memory, or its place, since it founded.
    forgot: bool,
}

impl Foundings {
    pub(crate) fn new(configs: &[Config]) -> Foundings {
        let founders = configs.iter().map(|config| &config.bootstrap).find(|list| !list.is_empty());
        Foundings { founders: founders.cloned().unwrap_or_default(), founded: Vec::new(), forgot: false }
    }

    pub(crate) fn forget(&mut self, hosts: &[Host], host: usize) {
        self.forgot |= self.founders.first() == Some(&hosts[host].config.name);
    }

    pub(crate) fn on_founded(&mut self, hosts: &[Host], host: usize, cluster: ClusterId) -> Result<(), Violation> {
        let name = &hosts[host].config.name;
        if self.founders.first() != Some(name) {
            let detail = format!("{name} founds {cluster}; only the first of {:?} may", self.founders);
            return Err(Violation::of(RULE, detail));
        }
        if let Some(&before) = self.founded.last() {
            if !self.forgot {
                return Err(Violation::of(RULE, format!("{name} founds {cluster}, and has founded {before}")));
            }
            let belongs = hosts.iter().enumerate().find(|(other, machine)| {
                *other != host
                    && self.founders.contains(&machine.config.name)
                    && machine.is_running()
                    && machine.identity().is_some()
            });
            if let Some((other, _)) = belongs {
                let detail = format!("{name} founds {cluster}, and the founder {} belongs to one", host_name(other));
                return Err(Violation::of(RULE, detail));
            }
        }
        self.forgot = false;
        self.founded.push(cluster);
        Ok(())
    }
}
