//! How the threads that carry the load share a core with others: once awake, they wait until whoever runs there pauses.
//!
//! Under load more has come for a thread by then, so that it takes more at a time: fewer turns, frames and calls to the
//! system for the same requests. A core that is idle takes it at once, as always: nothing waits that need not.
//!
//! The cluster machine's thread is not among them: it has little to do, and is listened for. Nor is the one that makes
//! images, since the log on disk grows until it is done.
//!
//! Not here: priorities. Whoever has chosen another policy for the process has chosen it for these threads as well.

/// How a busy core is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Nobody is interrupted.
    #[default]
    Batch,
    /// As the system does by itself: whoever wakes up may interrupt whoever runs.
    Normal,
}

/// For the calling thread. A system that cannot, or that forbids it, loses nothing but speed.
pub(crate) fn schedule(scheduling: Scheduling) {
    match scheduling {
        Scheduling::Batch => interrupt_nobody(),
        Scheduling::Normal => {}
    }
}

#[cfg(target_os = "linux")]
fn interrupt_nobody() {
    use preempt_rt::sched::{Pid, Scheduler, SchedulerParams, get_scheduler, set_scheduler};
    let me = Pid::current_thread();
    if matches!(get_scheduler(me), Ok(Scheduler::SCHED_NORMAL)) {
        let set = set_scheduler(me, Scheduler::SCHED_BATCH, SchedulerParams { priority: 0 });
        if let Err(error) = set {
            tracing::debug!(%error, "a thread is scheduled as any other");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn interrupt_nobody() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use preempt_rt::sched::{Pid, Scheduler, get_scheduler};

    fn scheduler_of_a_thread(scheduling: Scheduling) -> Option<Scheduler> {
        let thread = std::thread::spawn(move || {
            schedule(scheduling);
            get_scheduler(Pid::current_thread()).ok()
        });
        thread.join().expect("it does not panic")
    }

    #[test]
    fn only_the_calling_thread_is_changed_and_only_if_told() {
        let before = get_scheduler(Pid::current_thread()).ok();
        assert_eq!(scheduler_of_a_thread(Scheduling::Normal), before);
        if before == Some(Scheduler::SCHED_NORMAL) {
            assert_eq!(scheduler_of_a_thread(Scheduling::Batch), Some(Scheduler::SCHED_BATCH));
        }
        assert_eq!(get_scheduler(Pid::current_thread()).ok(), before);
    }
}
