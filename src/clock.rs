//! Time, and waiting for it: one clock for a bus and all that stands on it, so that a test can hold it in its hand.

use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(feature = "recorder")]
use crate::sync::CachePadded;
#[cfg(feature = "recorder")]
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until};

/// Where a bus, a recorder or a correlator gets the time from: the system, or a [`FakeClock`].
///
/// A clone is the same clock. Timeouts run on a monotonic scale that a change of the system's time does not touch;
/// [`now`](Clock::now) is the wall clock, which may jump.
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

/// A moment on the clock's monotonic scale; `None` is never.
pub(crate) type Deadline = Option<Duration>;

impl Clock {
    /// The system's clocks. The default.
    pub fn system() -> Self {
        Self { fake: None }
    }

    /// The time of day.
    pub fn now(&self) -> SystemTime {
        match &self.fake {
            Some(fake) => fake.state.lock().wall,
            None => system_now(),
        }
    }

    /// Numbers for the names of events: a fake clock has its own, so that a test sees the same names every time; all
    /// others share theirs.
    #[cfg(feature = "recorder")]
    pub(crate) fn numbers(&self) -> &Numbers {
        static NUMBERS: Numbers = Numbers::new();
        self.fake.as_ref().map_or(&NUMBERS, |fake| &fake.numbers)
    }

    #[cfg(feature = "recorder")]
    pub(crate) fn is_fake(&self) -> bool {
        self.fake.is_some()
    }

    /// The moment that is `timeout` from now. A timeout too long to be written down is never over.
    pub(crate) fn deadline(&self, timeout: Duration) -> Deadline {
        match &self.fake {
            Some(fake) => fake.state.lock().elapsed.checked_add(timeout),
            None => system_deadline(timeout),
        }
    }

    pub(crate) fn has_passed(&self, deadline: Deadline) -> bool {
        deadline.is_some_and(|at| self.monotonic() >= at)
    }

    /// Waits until unparked or until the deadline; also returns for no reason, so the caller looks again.
    pub(crate) fn park(&self, parker: &Parker, deadline: Deadline) {
        match &self.fake {
            Some(fake) => fake.park(parker, deadline),
            None => park_until(parker, deadline.and_then(system_instant)),
        }
    }

    fn monotonic(&self) -> Duration {
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

/// A clock that stands still until it is moved: for tests that must not wait.
///
/// [`advance`](FakeClock::advance) wakes everybody whose time has come. A test first makes sure that somebody waits,
/// with [`wait_for_waiters`](FakeClock::wait_for_waiters), or its step could be over before the other thread looks.
///
/// # Examples
///
/// ```
/// use eventcast::FakeClock;
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
    sleepers: Vec<Sleeper>,
    next_id: u64,
    /// Tests in `wait_for_waiters`, with the number of sleepers that they want to see.
    observers: Vec<(usize, Unparker)>,
}

impl FakeState {
    /// Who was woken by a step of the clock stays listed until it runs, but does not wait any more.
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
    /// A clock that shows `at`.
    pub fn new(at: SystemTime) -> Self {
        let state = FakeState {
            wall: at,
            elapsed: Duration::ZERO,
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

    /// The clock to hand to a bus, a recorder or a correlator.
    pub fn clock(&self) -> Clock {
        Clock { fake: Some(self.fake.clone()) }
    }

    /// Moves the time of day and the timeouts on, and wakes those whose deadline has come.
    pub fn advance(&self, by: Duration) {
        let due: Vec<Unparker> = {
            let mut state = self.fake.state.lock();
            // A time that cannot be written down is not reached.
            state.wall = state.wall.checked_add(by).unwrap_or(state.wall);
            state.elapsed = state.elapsed.saturating_add(by);
            let elapsed = state.elapsed;
            state.sleepers.iter().filter(|s| s.deadline <= elapsed).map(|s| s.unparker.clone()).collect()
        };
        for unparker in due {
            unparker.unpark();
        }
    }

    /// Sets the time of day, forwards or backwards, as an administrator might. Timeouts do not notice.
    pub fn set(&self, at: SystemTime) {
        self.fake.state.lock().wall = at;
    }

    /// How many threads wait for a deadline that has not come. Those that [`advance`](Self::advance) has just woken do not
    /// count, even if they have not run since.
    pub fn waiters(&self) -> usize {
        self.fake.state.lock().waiting()
    }

    /// Waits until at least so many threads wait for a deadline of this clock that has not come, as
    /// [`waiters`](Self::waiters) counts them.
    ///
    /// # Blocking
    ///
    /// For ever, if they never do: a test that hangs here has found that nobody waits.
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

/// Nanoseconds since 1970 for the names of events, each given out once for a subject, also where the clock stands still
/// or goes back.
#[cfg(feature = "recorder")]
pub(crate) struct Numbers {
    /// For the subjects whose hash leads here: twice the lowest number that nobody has, and one more if the number
    /// before that may be shared. Spread, so that different subjects seldom meet, and get the very time of the clock.
    next: [CachePadded<AtomicU64>; 64],
}

#[cfg(feature = "recorder")]
impl Numbers {
    const fn new() -> Self {
        Self { next: [const { CachePadded::new(AtomicU64::new(0)) }; 64] }
    }

    /// `now`, or the lowest later number that the subject has not had.
    pub(crate) fn take(&self, subject_hash: u64, now: u64) -> u64 {
        self.update(subject_hash, |next, _| {
            let number = next.max(now);
            (number, number + 1, false)
        })
    }

    /// The same, but all who share get the same one at the same time.
    pub(crate) fn share(&self, subject_hash: u64, now: u64) -> u64 {
        self.update(subject_hash, |next, shared| {
            let number = if shared && next == now + 1 { now } else { next.max(now) };
            (number, number + 1, true)
        })
    }

    /// From the lowest free number, and whether the one before it is shared: the number to take, and the same anew.
    fn update(&self, subject_hash: u64, take: impl Fn(u64, bool) -> (u64, u64, bool)) -> u64 {
        let cell = &self.next[(subject_hash % 64) as usize];
        // Relaxed: the numbers only have to differ.
        let mut before = cell.load(Ordering::Relaxed);
        loop {
            let (number, next, shared) = take(before >> 1, before & 1 == 1);
            let after = next << 1 | u64::from(shared);
            // Relaxed, both: as above.
            match cell.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return number,
                Err(found) => before = found,
            }
        }
    }
}

mod system {
    #![allow(clippy::disallowed_methods, reason = "here is where the system is asked")]

    use std::sync::OnceLock;
    use std::time::{Duration, Instant, SystemTime};

    use crate::sync::HAS_TIME;

    /// Where the monotonic scale begins: the first question.
    static ORIGIN: OnceLock<Instant> = OnceLock::new();

    pub(super) fn system_now() -> SystemTime {
        if HAS_TIME { SystemTime::now() } else { SystemTime::UNIX_EPOCH }
    }

    /// Where time stands still, a timeout of zero is over at once, and another one never.
    pub(super) fn system_monotonic() -> Duration {
        if HAS_TIME { ORIGIN.get_or_init(Instant::now).elapsed() } else { Duration::ZERO }
    }

    pub(super) fn system_deadline(timeout: Duration) -> Option<Duration> {
        if HAS_TIME || timeout.is_zero() { system_monotonic().checked_add(timeout) } else { None }
    }

    /// `None` where the platform cannot name the moment: it is further off than the machine will live.
    pub(super) fn system_instant(at: Duration) -> Option<Instant> {
        ORIGIN.get_or_init(Instant::now).checked_add(at)
    }
}

use system::{system_deadline, system_instant, system_monotonic, system_now};
