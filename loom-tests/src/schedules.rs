//! Running a program under many random schedules, each of which can be had again.

use std::env;

use eventcast::{Broadcaster, BusOptions, Delivery, Watcher};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, Runner};

/// By the default seed each run sees the same schedules.
fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, allowed is a number")),
        Err(_) => default,
    }
}

/// Runs the program under so many random schedules, and as many with few preemptions at chosen places (PCT), which
/// find other faults. `EVENTCAST_CASES` multiplies their number, `EVENTCAST_SEED` chooses others.
///
/// A failure prints its schedule: given as `EVENTCAST_SCHEDULE`, that one alone is run.
///
/// # Panics
///
/// When the program fails under a schedule, or hangs: shuttle tells when nobody can go on.
pub fn schedules(count: usize, program: impl Fn() + Clone + Send + Sync + 'static) {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.stack_size = 1 << 18;
    if let Ok(schedule) = env::var("EVENTCAST_SCHEDULE") {
        // With the same stacks: the message of a panic does not fit on shuttle's own.
        Runner::new(ReplayScheduler::new_from_encoded(schedule.trim()), config).run(program);
        return;
    }
    let count = count * usize::try_from(number("EVENTCAST_CASES", 1)).expect("not so many cases");
    let seed = number("EVENTCAST_SEED", 0);
    Runner::new(RandomScheduler::new_from_seed(seed, count), config.clone()).run(program.clone());
    for depth in 2..5 {
        let scheduler = PctScheduler::new_from_seed(seed, depth, count.div_ceil(3));
        Runner::new(scheduler, config.clone()).run(program.clone());
    }
}

/// An event that knows who published it, and as how manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// Which publisher.
    pub publisher: u32,
    /// How many it had published before.
    pub number: u32,
}

/// A bus with these queues.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn small_bus(incoming: usize, queue: usize, batch: usize) -> Broadcaster<Ident> {
    let options = BusOptions::default().incoming_len(incoming).queue_len(queue).max_batch(batch);
    Broadcaster::with_options(options).expect("the options are in range")
}

/// What a watcher saw.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// In the order in which they came.
    pub items: Vec<Delivery<Ident>>,
}

impl Log {
    /// Reads to the end.
    pub fn read(watcher: &mut Watcher<Ident>) -> Self {
        Self { items: watcher.into_iter().collect() }
    }

    /// The events alone.
    #[must_use]
    pub fn events(&self) -> Vec<Ident> {
        self.items.iter().filter_map(|item| item.event()).collect()
    }

    /// How many were lost.
    #[must_use]
    pub fn lagged(&self) -> u64 {
        self.items.iter().map(|item| if let Delivery::Lagged(count) = item { *count } else { 0 }).sum()
    }

    /// Each gap stands exactly where so many of these are missing.
    ///
    /// # Panics
    ///
    /// If one does not.
    pub fn assert_explained_by(&self, order: &[Ident]) {
        let mut at = 0;
        for item in &self.items {
            match item {
                Delivery::Event(event) => {
                    assert_eq!(order.get(at), Some(event), "{self:?} is not what the order says: {order:?}");
                    at += 1;
                }
                Delivery::Lagged(count) => at += usize::try_from(*count).expect("a small count"),
            }
        }
        assert_eq!(at, order.len(), "{self:?} does not account for the whole of {order:?}");
    }
}
