//! Clocks and timed waits. A bus and everything built on it share one clock, so that a test can
//! control the time for all of them.

mod system;

use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(feature = "recorder")]
use crate::sync::CachePadded;
#[cfg(feature = "recorder")]
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until};

pub(crate) use self::system::time_until;
use self::system::{system_deadline, system_instant, system_monotonic, system_now};

/// The source of time for a bus, a recorder or a correlator: the system, or a [`FakeClock`].
///
/// A clone is a handle to the same clock. Timeouts use a monotonic clock, so changes to the system
/// time do not affect them. [`now`](Clock::now) reads the wall clock, which may jump.
///
/// # Examples
///
/// ```
/// use eventcast::Clock;
/// use std::time::SystemTime;
///
/// let clock = Clock::system();
/// assert!(clock.now() > SystemTime::UNIX_EPOCH);
/// ```
#[derive(Clone, Default)]
pub struct Clock {
    fake: Option<Arc<Fake>>,
}

/// A point in time on the clock's monotonic time scale, or `None` for a wait without a deadline.
pub(crate) type Deadline = Option<Duration>;

impl Clock {
    /// Creates a clock that reads the system's clocks. The system clock is the default.
    ///
    /// On `wasm32-unknown-unknown`, which has no clocks, `now` returns the Unix epoch, and every
    /// timeout expires immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions, Clock};
    ///
    /// assert!(Broadcaster::<u8>::with_clock(BusOptions::default(), Clock::system()).is_ok());
    /// ```
    pub fn system() -> Self {
        Self { fake: None }
    }

    /// Returns the current wall-clock time.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use std::time::SystemTime;
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// assert_eq!(fake.clock().now(), SystemTime::UNIX_EPOCH);
    /// ```
    pub fn now(&self) -> SystemTime {
        match &self.fake {
            Some(fake) => fake.state.lock().wall,
            None => system_now(),
        }
    }

    /// Returns the source of the numbers in event names. A fake clock has its own source, so that a
    /// test sees the same names on every run. All other clocks share one source.
    #[cfg(feature = "recorder")]
    pub(crate) fn numbers(&self) -> &Numbers {
        static NUMBERS: Numbers = Numbers::new();
        self.fake.as_ref().map_or(&NUMBERS, |fake| &fake.numbers)
    }

    /// Returns the clock for the deadlines of flushes, shutdowns and joins, which is the system
    /// clock unless a fake clock drives them.
    pub(crate) fn for_the_end(&self) -> Self {
        match &self.fake {
            Some(fake) if fake.state.lock().drives_the_end => self.clone(),
            _ => Self::system(),
        }
    }

    pub(crate) fn is_fake(&self) -> bool {
        self.fake.is_some()
    }

    /// Returns the point in time that is `timeout` from now. If that time cannot be represented,
    /// the deadline is `None`, and the timeout never expires.
    pub(crate) fn deadline(&self, timeout: Duration) -> Deadline {
        match &self.fake {
            Some(fake) => fake.state.lock().elapsed.checked_add(timeout),
            None => system_deadline(timeout),
        }
    }

    pub(crate) fn has_passed(&self, deadline: Deadline) -> bool {
        deadline.is_some_and(|at| self.monotonic() >= at)
    }

    /// Parks until unparked or until the deadline. May return early, so callers must check again.
    pub(crate) fn park(&self, parker: &Parker, deadline: Deadline) {
        match &self.fake {
            Some(fake) => fake.park(parker, deadline),
            None => park_until(parker, deadline.and_then(system_instant)),
        }
    }

    pub(crate) fn monotonic(&self) -> Duration {
        match &self.fake {
            Some(fake) => fake.state.lock().elapsed,
            None => system_monotonic(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.fake.is_some() { "Clock::fake" } else { "Clock::system" })
    }
}

/// A clock that stands still until a test advances it, for tests that must not wait.
///
/// [`advance`](FakeClock::advance) wakes every thread whose deadline has passed. A test should
/// first call [`wait_for_waiters`](FakeClock::wait_for_waiters) to make sure that the other thread
/// is waiting. Otherwise, the test could advance the clock before the other thread reads it.
///
/// The clock drives `recv_timeout`, `recv_deadline`, `publish_timeout`, `wait_watchers`, `on_slow`,
/// the `WaitFor` limit, and every timed action of a recording. The deadlines of flushes, shutdowns,
/// joins and drops use real time, unless [`drive_the_end`](FakeClock::drive_the_end) was called.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeClock;
/// use std::time::{Duration, SystemTime};
///
/// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.clock().now(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
/// ```
#[derive(Clone)]
pub struct FakeClock {
    fake: Arc<Fake>,
}

struct Fake {
    state: Mutex<FakeState>,
    #[cfg(feature = "recorder")]
    numbers: Numbers,
}

struct FakeState {
    wall: SystemTime,
    elapsed: Duration,
    /// Whether the deadlines of flushes, shutdowns and joins follow this clock.
    drives_the_end: bool,
    sleepers: Vec<Sleeper>,
    next_id: u64,
    /// Threads blocked in `wait_for_waiters`, each with the number of waiters that it needs.
    observers: Vec<(usize, Unparker)>,
}

impl FakeState {
    /// Returns the number of threads waiting for a deadline in the future. If `advance` has woken a
    /// thread, the thread stays listed until it runs, but does not count.
    fn waiting(&self) -> usize {
        self.sleepers.iter().filter(|sleeper| sleeper.deadline > self.elapsed).count()
    }
}

struct Sleeper {
    id: u64,
    deadline: Duration,
    unparker: Unparker,
}

impl FakeClock {
    /// Creates a clock that is set to `at`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    /// assert_eq!(FakeClock::new(at).clock().now(), at);
    /// ```
    pub fn new(at: SystemTime) -> Self {
        let state = FakeState {
            wall: at,
            elapsed: Duration::ZERO,
            drives_the_end: false,
            sleepers: Vec::new(),
            next_id: 0,
            observers: Vec::new(),
        };
        let fake = Fake {
            state: Mutex::new(state),
            #[cfg(feature = "recorder")]
            numbers: Numbers::new(),
        };
        Self { fake: Arc::new(fake) }
    }

    /// Makes this clock also drive the deadlines of `flush`, `shutdown_timeout`, `drain`, `join`,
    /// and of dropping a broadcaster. By default, they use real time, so that a test whose sink
    /// fails ends with an error instead of hanging. A bus reads this setting when it is created.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::thread;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
    /// let bus = Broadcaster::<u8>::with_clock(BusOptions::default(), fake.clock())?;
    /// let handler = bus.watch_builder().runner(|_| ())?;
    /// thread::scope(|scope| {
    ///     let ending = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(60)));
    ///     fake.wait_for_waiters(1);
    ///     fake.advance(Duration::from_secs(60));
    ///     // The handler was never run.
    ///     assert!(!ending.join().unwrap().complete);
    /// });
    /// drop(handler);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn drive_the_end(self) -> Self {
        self.fake.state.lock().drives_the_end = true;
        self
    }

    /// Returns the clock to pass to a bus, a recorder or a correlator.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let clock = fake.clock();
    /// let before = clock.now();
    /// fake.advance(Duration::from_secs(1));
    /// assert_eq!(clock.now().duration_since(before)?, Duration::from_secs(1));
    /// # Ok::<(), std::time::SystemTimeError>(())
    /// ```
    pub fn clock(&self) -> Clock {
        Clock { fake: Some(self.fake.clone()) }
    }

    /// Advances the wall clock and all timeouts, and wakes the threads whose deadlines have passed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::thread;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let bus = Broadcaster::<u8>::with_clock(BusOptions::default(), fake.clock())?;
    /// let mut watcher = bus.watch()?;
    /// let waiting = thread::spawn(move || watcher.recv_timeout(Duration::from_secs(60)));
    /// fake.wait_for_waiters(1);
    /// fake.advance(Duration::from_secs(59));
    /// assert_eq!(fake.waiters(), 1);
    /// fake.advance(Duration::from_secs(1));
    /// assert!(waiting.join().unwrap().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) {
        let due: Vec<Unparker> = {
            let mut state = self.fake.state.lock();
            // If the new wall-clock time cannot be represented, the old time is kept.
            state.wall = state.wall.checked_add(by).unwrap_or(state.wall);
            state.elapsed = state.elapsed.saturating_add(by);
            let elapsed = state.elapsed;
            state.sleepers.iter().filter(|s| s.deadline <= elapsed).map(|s| s.unparker.clone()).collect()
        };
        for unparker in due {
            unparker.unpark();
        }
    }

    /// Sets the wall clock, forwards or backwards, as an administrator might. Timeouts are not
    /// affected.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(60));
    /// fake.set(SystemTime::UNIX_EPOCH);
    /// assert_eq!(fake.clock().now(), SystemTime::UNIX_EPOCH);
    /// ```
    pub fn set(&self, at: SystemTime) {
        self.fake.state.lock().wall = at;
    }

    /// Returns the number of threads waiting for a deadline in the future. Threads that
    /// [`advance`](Self::advance) has just woken do not count, even if they have not run since.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::thread;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let bus = Broadcaster::<u8>::with_clock(BusOptions::default(), fake.clock())?;
    /// let mut watcher = bus.watch()?;
    /// let waiting = thread::spawn(move || watcher.recv_timeout(Duration::from_secs(60)));
    /// fake.wait_for_waiters(1);
    /// assert_eq!(fake.waiters(), 1);
    /// fake.advance(Duration::from_secs(60));
    /// assert_eq!(fake.waiters(), 0);
    /// assert!(waiting.join().unwrap().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiters(&self) -> usize {
        self.fake.state.lock().waiting()
    }

    /// Waits until at least `count` threads are waiting for a future deadline of this clock, as
    /// counted by [`waiters`](Self::waiters).
    ///
    /// # Blocking
    ///
    /// Blocks forever if fewer threads wait. If a test hangs here, at least one of the expected
    /// threads is not waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::thread;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let fake = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let bus = Broadcaster::<u8>::with_clock(BusOptions::default(), fake.clock())?;
    /// let mut watcher = bus.watch()?;
    /// let waiting = thread::spawn(move || watcher.recv_timeout(Duration::from_secs(60)));
    /// fake.wait_for_waiters(1);
    /// // The other thread waits now, so the step reaches it.
    /// fake.advance(Duration::from_secs(60));
    /// assert!(waiting.join().unwrap().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_waiters(&self, count: usize) {
        let parker = Parker::new();
        loop {
            {
                let mut state = self.fake.state.lock();
                if state.waiting() >= count {
                    return;
                }
                state.observers.push((count, parker.unparker()));
            }
            park_until(&parker, None);
        }
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock").field("now", &self.fake.state.lock().wall).finish_non_exhaustive()
    }
}

impl Fake {
    fn park(&self, parker: &Parker, deadline: Deadline) {
        let Some(deadline) = deadline else { return park_until(parker, None) };
        let id = {
            let mut state = self.state.lock();
            if state.elapsed >= deadline {
                return;
            }
            let id = state.next_id;
            state.next_id += 1;
            state.sleepers.push(Sleeper { id, deadline, unparker: parker.unparker() });
            let count = state.waiting();
            state.observers.retain(|(wanted, unparker)| {
                let seen = count >= *wanted;
                if seen {
                    unparker.unpark();
                }
                !seen
            });
            id
        };
        park_until(parker, None);
        self.state.lock().sleepers.retain(|s| s.id != id);
    }
}

/// The source of the numbers in event names, in nanoseconds since 1970. [`take`](Self::take)
/// returns each number only once for a subject, even if the clock stands still or goes backwards.
#[cfg(feature = "recorder")]
pub(crate) struct Numbers {
    /// The 64 cells, each for the subjects whose hashes map to it. A cell's value is twice the
    /// lowest number that has not been handed out, plus one if the number before that may be
    /// shared. With this many cells, different subjects rarely share a cell. If a subject does not
    /// share its cell, it gets the clock's exact time.
    next: [CachePadded<AtomicU64>; 64],
}

#[cfg(feature = "recorder")]
impl Numbers {
    const fn new() -> Self {
        Self { next: [const { CachePadded::new(AtomicU64::new(0)) }; 64] }
    }

    /// Returns `now`, or the lowest later number that the subject's cell has not handed out yet.
    pub(crate) fn take(&self, subject_hash: u64, now: u64) -> u64 {
        self.update(subject_hash, |next, _| {
            let number = next.max(now);
            (number, number + 1, false)
        })
    }

    /// Returns a number like `take`, except that `now` itself can be shared. If a call to `share`
    /// has returned `now`, further calls with the same `now` also return `now`, until the subject's
    /// cell hands out a later number.
    pub(crate) fn share(&self, subject_hash: u64, now: u64) -> u64 {
        self.update(subject_hash, |next, shared| {
            let number = if shared && next == now + 1 { now } else { next.max(now) };
            (number, number + 1, true)
        })
    }

    /// Updates the subject's cell, and returns the number that was taken. `take` receives the
    /// lowest free number, and whether the number before that is shared. `take` returns the number
    /// to take, and then the cell's new values for these two.
    fn update(&self, subject_hash: u64, take: impl Fn(u64, bool) -> (u64, u64, bool)) -> u64 {
        let cell = &self.next[(subject_hash % 64) as usize];
        // Relaxed: the numbers only have to differ.
        let mut before = cell.load(Ordering::Relaxed);
        loop {
            let (number, next, shared) = take(before >> 1, before & 1 == 1);
            let after = next << 1 | u64::from(shared);
            // Relaxed, both: the numbers only have to differ.
            match cell.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return number,
                Err(found) => before = found,
            }
        }
    }
}
