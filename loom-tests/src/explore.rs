//! Running a model, and refusing one that explores nothing.

use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, Delivery, FakeClock, OverflowPolicy, Watcher};
use loom::sync::atomic::AtomicBool as AtomicFlag;
use loom::sync::{Arc, Notify};

/// An event that loom misses when it is leaked, and that is told from others by its number.
#[derive(Clone, Debug)]
pub struct Payload {
    number: u32,
    _tracked: Arc<()>,
}

impl Payload {
    /// An event of this number.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self { number, _tracked: Arc::new(()) }
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// A bus with these queues, whose watchers have this policy.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn bus(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    bus_of(incoming, queue, policy)
}

/// The same, by this clock.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn bus_at(
    clock: &FakeClock,
    incoming: usize,
    queue: usize,
    policy: OverflowPolicy,
) -> Broadcaster<Payload> {
    let options = BusOptions::default().incoming_len(incoming).queue_len(queue).overflow(policy);
    Broadcaster::with_clock(options, clock.clock()).expect("the options are in range")
}

/// The same, of other events.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn bus_of<T>(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<T>
where
    T: Clone + Send + Sync + 'static,
{
    let options = BusOptions::default().incoming_len(incoming).queue_len(queue).overflow(policy);
    Broadcaster::with_options(options).expect("the options are in range")
}

/// Says, when it is dropped, that whoever held it is no more.
#[derive(Debug)]
pub struct Sign(Arc<(AtomicFlag, Notify)>);

/// Waits for the drop of a [`Sign`].
#[derive(Debug)]
pub struct Gone(Arc<(AtomicFlag, Notify)>);

impl Sign {
    /// A sign and who waits for it.
    #[must_use]
    pub fn new() -> (Self, Gone) {
        let shared = Arc::new((AtomicFlag::new(false), Notify::new()));
        (Self(shared.clone()), Gone(shared))
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `wait`.
        self.0.0.store(true, Ordering::Release);
        self.0.1.notify();
    }
}

impl Gone {
    /// A sign that is never dropped is a deadlock, which loom reports.
    pub fn wait(self) {
        // Acquire: pairs with the Release of the drop. `wait` also returns for no reason.
        while !self.0.0.load(Ordering::Acquire) {
            self.0.1.wait();
        }
    }
}

/// Reads to the end: the numbers of the events, and how many were lost.
pub fn numbers(watcher: &mut Watcher<Payload>) -> (Vec<u32>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    for delivery in watcher {
        match delivery {
            Delivery::Event(event) => events.push(event.number()),
            Delivery::Lagged(count) => lost += count,
        }
    }
    (events, lost)
}

/// The fast set explores so many executions of a model at most. What has not failed by then seldom does: a mutant that is
/// caught at all is mostly caught within the first thousands.
const MOST: usize = 30_000;

/// The deep set gives each model so much time.
const DEEP: Duration = Duration::from_secs(600);

/// Explores a model with two preemptions. `cargo loom-deep` allows one more, and `LOOM_MAX_PREEMPTIONS` any number.
///
/// # Panics
///
/// When the model fails, and when it had one execution only: then it looked at nothing.
pub fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_with(name, 2, model);
}

/// As [`explore`], with this bound on preemptions: lower for a model that would take hours.
///
/// # Panics
///
/// As [`explore`].
#[allow(clippy::disallowed_methods, reason = "the runner's own time, outside the model")]
pub fn explore_with(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let executions = StdArc::new(AtomicUsize::new(0));
    let counter = executions.clone();
    let deep = std::env::var_os("EVENTCAST_LOOM_DEEP").is_some();
    let mut builder = loom::model::Builder::new();
    let bound = builder.preemption_bound.unwrap_or(preemptions + usize::from(deep));
    builder.preemption_bound = Some(bound);
    builder.max_branches = 50_000;
    // How often loom looks at the limits below.
    builder.checkpoint_interval = 500;
    if deep {
        builder.max_duration = builder.max_duration.or(Some(DEEP));
    } else {
        builder.max_permutations = builder.max_permutations.or(Some(MOST));
    }
    let (most, longest) = (builder.max_permutations, builder.max_duration);
    let began = Instant::now();
    builder.check(move || {
        // Relaxed: the runner's own count, outside the model.
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    // loom counts the one that it does not begin.
    let stopped = most.is_some_and(|most| executions + 1 >= most)
        || longest.is_some_and(|longest| began.elapsed() >= longest);
    let which = if stopped { "the first " } else { "all " };
    println!("{name}: {which}{executions} executions with at most {bound} preemptions");
    assert!(executions > 1, "{name} explored one execution only: nothing raced in it");
}
