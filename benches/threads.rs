//! What the other threads of this process do, as the system tells it.

#[cfg(target_os = "linux")]
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

/// All threads but the one that asks.
#[derive(Debug)]
pub struct Others {
    #[cfg(target_os = "linux")]
    tasks: Vec<PathBuf>,
}

impl Others {
    /// Those that there are now. The system must not be asked again later, which would take longer with each.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            tasks: {
                let this = std::fs::read_link("/proc/thread-self").expect("the system tells of its threads");
                let tasks = std::fs::read_dir("/proc/self/task").expect("the system tells of its threads");
                let tasks = tasks.map(|task| task.expect("the system tells of its threads").path());
                tasks.filter(|task| task.file_name() != this.file_name()).collect()
            },
        }
    }

    /// Waits until each of them sleeps, or has ended. Where the system does not tell it, for a millisecond.
    pub fn wait_until_asleep(&self) {
        #[cfg(target_os = "linux")]
        {
            let start = Instant::now();
            while !self.tasks.iter().all(|task| {
                let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
                // Behind the name, which stands in brackets and may hold anything.
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['S', 'Z', 'X']))
            }) {
                assert!(start.elapsed() < Duration::from_secs(60), "the threads do not come to rest");
                std::thread::yield_now();
            }
        }
        #[cfg(not(target_os = "linux"))]
        std::thread::sleep(Duration::from_millis(1));
    }

    /// How often each of them has gone to sleep so far, if the system tells it. One that has ended has never slept.
    #[must_use]
    pub fn sleeps(&self) -> Option<Vec<u64>> {
        #[cfg(target_os = "linux")]
        {
            let sleeps = |task: &PathBuf| {
                let status = std::fs::read_to_string(task.join("status")).ok()?;
                let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
                line.trim().parse().ok()
            };
            Some(self.tasks.iter().map(|task| sleeps(task).unwrap_or(0)).collect())
        }
        #[cfg(not(target_os = "linux"))]
        None
    }
}
