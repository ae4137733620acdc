//! The state of this process's threads, as reported by the operating system.

#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

/// The number of times that the system took a core from a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switches {
    /// The number of times that a thread went to sleep. Each sleep also ends with one wake-up.
    pub sleeps: u64,
    /// The number of times that a thread was preempted, or yielded to another thread.
    pub preemptions: u64,
}

impl Switches {
    /// Returns the switches of all threads of this process so far, including ended threads.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// Returns the switches of the calling thread so far, or `None` if the system does not report
    /// them for each thread.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        #[cfg(any(target_os = "linux", target_os = "freebsd"))]
        return Some(Self::of(UsageWho::RUSAGE_THREAD));
        #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
        None
    }

    fn of(who: UsageWho) -> Self {
        let usage = getrusage(who).expect("the system counts the switches");
        Self {
            sleeps: usage.voluntary_context_switches() as u64,
            preemptions: usage.involuntary_context_switches() as u64,
        }
    }

    /// Returns the switches between an earlier call and this one.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { sleeps: self.sleeps - before.sleeps, preemptions: self.preemptions - before.preemptions }
    }
}

impl std::ops::Add for Switches {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { sleeps: self.sleeps + other.sleeps, preemptions: self.preemptions + other.preemptions }
    }
}

/// All threads of this process except the calling thread.
#[derive(Debug)]
pub struct Others {
    #[cfg(target_os = "linux")]
    tasks: Vec<PathBuf>,
}

impl Others {
    /// Lists the threads that exist now. The list is not refreshed later, because refreshing it
    /// takes longer the more threads there are.
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

    /// Waits until each of the listed threads is asleep or has ended. If the system does not report
    /// the threads' states, waits for a millisecond.
    pub fn wait_until_asleep(&self) {
        #[cfg(target_os = "linux")]
        {
            let start = Instant::now();
            while !self.tasks.iter().all(|task| {
                let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
                // The state follows the thread's name, which is in parentheses and may contain any
                // characters.
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['S', 'Z', 'X']))
            }) {
                assert!(start.elapsed() < Duration::from_secs(60), "the threads do not come to rest");
                std::thread::yield_now();
            }
        }
        #[cfg(not(target_os = "linux"))]
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Returns the name of each listed thread and the CPU time that the thread has used so far.
    /// Threads that have ended are omitted. Returns `None` if the system does not report CPU times.
    #[must_use]
    pub fn processor_time(&self) -> Option<Vec<(String, Duration)>> {
        #[cfg(target_os = "linux")]
        {
            let read = |task: &PathBuf, file| std::fs::read_to_string(task.join(file)).ok();
            let of = |task: &PathBuf| {
                // The first number is the CPU time in nanoseconds.
                let nanos = read(task, "schedstat")?.split(' ').next()?.parse().ok()?;
                Some((read(task, "comm")?.trim().to_owned(), Duration::from_nanos(nanos)))
            };
            let times: Vec<_> = self.tasks.iter().filter_map(of).collect();
            // Not every kernel provides the `schedstat` file.
            (!times.is_empty()).then_some(times)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Returns the number of times that each listed thread has gone to sleep so far, with 0 for a
    /// thread that has ended. Returns `None` if the system does not report this number.
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
