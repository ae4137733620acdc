//! The state of the other threads of this process, as the system shows it.

#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

/// All threads of this process, except the calling one.
#[derive(Debug)]
pub struct Others {
    #[cfg(target_os = "linux")]
    tasks: Vec<PathBuf>,
}

impl Others {
    /// Lists the threads that exist now. The program must not ask the system again later, because
    /// that would take longer with each thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            tasks: {
                let this = std::fs::read_link("/proc/thread-self").expect("the system lists its threads");
                let tasks = std::fs::read_dir("/proc/self/task").expect("the system lists its threads");
                let tasks = tasks.map(|task| task.expect("the system lists its threads").path());
                tasks.filter(|task| task.file_name() != this.file_name()).collect()
            },
        }
    }

    /// Waits until each of these threads sleeps or has ended. If the system does not show that,
    /// waits for a millisecond.
    pub fn wait_until_asleep(&self) {
        #[cfg(target_os = "linux")]
        {
            let start = Instant::now();
            while !self.tasks.iter().all(|task| {
                let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
                // The state follows the name, which is in brackets and may hold anything.
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['S', 'Z', 'X']))
            }) {
                assert!(start.elapsed() < Duration::from_secs(60), "the threads do not come to rest");
                std::thread::yield_now();
            }
        }
        #[cfg(not(target_os = "linux"))]
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Returns the CPU time that each of these threads has taken so far, with its name. A
    /// thread that has ended is left out. Returns `None` if the system does not show it.
    #[must_use]
    pub fn processor_time(&self) -> Option<Vec<(String, Duration)>> {
        #[cfg(target_os = "linux")]
        {
            let read = |task: &PathBuf, file| std::fs::read_to_string(task.join(file)).ok();
            let of = |task: &PathBuf| {
                // The first number is the time on a processor, in nanoseconds.
                let nanos = read(task, "schedstat")?.split(' ').next()?.parse().ok()?;
                Some((read(task, "comm")?.trim().to_owned(), Duration::from_nanos(nanos)))
            };
            let times: Vec<_> = self.tasks.iter().filter_map(of).collect();
            // Not every kernel has that file.
            (!times.is_empty()).then_some(times)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Returns how often each of these threads has gone to sleep so far, with 0 for a thread that
    /// has ended. Returns `None` if the system does not show it.
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
