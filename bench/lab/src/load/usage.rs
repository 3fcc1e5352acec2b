//! Processor time and memory of processes, as the kernel tells them. Processor time per operation hardly moves when
//! other programs run beside, while rates do.

use std::fs;

/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;

/// Processor time so far: of the servers, of this process, and of the whole machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    servers: f64,
    own: f64,
    machine: f64,
}

/// What was used between two looks, in seconds of processor time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) servers: f64,
    pub(crate) own: f64,
    /// By everybody else.
    pub(crate) others: f64,
}

impl Usage {
    pub(crate) fn now(pids: &[u32]) -> Usage {
        let stat = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let servers = pids.iter().map(|pid| process(&stat(&pid.to_string()), &OWN)).sum();
        let machine = machine(&fs::read_to_string("/proc/stat").unwrap_or_default());
        // A load generator that was run to its end is a child that was waited for.
        let own = process(&stat("self"), &OWN) + process(&stat("self"), &CHILDREN);
        Usage { servers, own, machine }
    }

    pub(crate) fn since(self, before: Usage) -> Used {
        let (servers, own) = (self.servers - before.servers, self.own - before.own);
        Used { servers, own, others: (self.machine - before.machine - servers - own).max(0.0) }
    }
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Resident bytes of all these processes together.
pub(crate) fn resident(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| resident_of(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())).sum()
}

/// Where a process's `stat` has its time, in user and in system mode: its own, and of children that have ended.
const OWN: [usize; 2] = [11, 12];
const CHILDREN: [usize; 2] = [13, 14];

/// From a process's `stat`. Its name may have blanks and brackets, so fields count from the last bracket.
fn process(stat: &str, which: &[usize]) -> f64 {
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    which.iter().map(|&at| ticks(at)).sum::<f64>() / TICKS
}

/// From the machine's `stat`: everything but idling and waiting for disks.
fn machine(stat: &str) -> f64 {
    let first = stat.lines().next().unwrap_or_default();
    let times: Vec<f64> = first.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = times.iter().skip(3).take(2).sum();
    (times.iter().sum::<f64>() - idle) / TICKS
}

fn resident_of(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_behind_its_name() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 9 9 9 9 150 50 300 100 20";
        assert_eq!(process(stat, &OWN), 2.0);
        assert_eq!(process(stat, &CHILDREN), 4.0);
    }

    #[test]
    fn idling_is_not_work() {
        assert_eq!(machine("cpu  100 0 50 9000 500 0 20 30 0 0\ncpu0 1 1"), 2.0);
    }

    #[test]
    fn memory_is_in_kibibytes() {
        assert_eq!(resident_of("Name:\tx\nVmRSS:\t    12 kB\n"), 12_288);
        assert_eq!(resident_of("no such process"), 0);
    }

    #[test]
    fn this_process_uses_some() {
        assert!(resident(&[std::process::id()]) > 0);
    }
}
