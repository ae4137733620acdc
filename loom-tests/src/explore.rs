//! Explores a model, and refuses a model that explores nothing or less than it says.

use std::cell::Cell;
use std::env;
use std::fs;
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, Detail};
use loom::thread::JoinHandle;

use crate::record::Record;

/// A model that should be whole has failed at so many executions: something made it large.
const TOO_MANY: usize = 4_000_000;

/// The deep set gives each model so much time.
const DEEP: Duration = Duration::from_secs(600);

std::thread_local! {
    // loom runs all threads of a model on the thread that explores it.
    static THREADS: Cell<usize> = const { Cell::new(0) };
    static OPERATION: Cell<Option<(&'static str, &'static str)>> = const { Cell::new(None) };
}

/// Starts a thread of the model's own.
pub fn spawn<R: 'static>(run: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
    THREADS.set(THREADS.get() + 1);
    loom::thread::spawn(run)
}

/// Says which cell of the matrix the model that runs next is.
pub fn set_cell(operation: &'static str, end: &'static str) {
    OPERATION.set(Some((operation, end)));
}

/// Lets the dispatcher do what it was given and go to sleep. A part of a set-up that is not explored.
///
/// # Panics
///
/// If the bus does not take a flush.
pub fn rest<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>) {
    // This thread sleeps meanwhile, and runs again when the dispatcher sleeps. Yielding would not
    // do: loom prefers any other thread to one that has yielded in vain, for as long as there is one.
    bus.flush(Duration::from_secs(1)).expect("the dispatcher answers");
}

/// Begins to explore, behind a set-up of which one schedule is run.
///
/// The model asks for it with [`Exploration::after_set_up`].
pub fn begin() {
    loom::explore();
}

/// Stops exploring. The rest of the model runs in one schedule.
pub fn finish() {
    loom::stop_exploring();
}

/// How a model is explored. By default all of its executions with at most two preemptions.
#[derive(Clone, Copy, Debug)]
pub struct Exploration {
    preemptions: usize,
    first: Option<usize>,
    after_set_up: bool,
    detail: Detail,
}

impl Default for Exploration {
    fn default() -> Self {
        Self {
            preemptions: 2,
            first: None,
            after_set_up: false,
            detail: Detail { gate_cells: 1, spurious_wakeups: false },
        }
    }
}

impl Exploration {
    /// Bounds the preemptions of each execution.
    #[must_use]
    pub fn preemptions(self, preemptions: usize) -> Self {
        Self { preemptions, ..self }
    }

    /// Explores so many executions at most: the model is too large to be whole.
    #[must_use]
    pub fn first(self, executions: usize) -> Self {
        Self { first: Some(executions), ..self }
    }

    /// Begins to look at interleavings where the model calls [`begin`].
    #[must_use]
    pub fn after_set_up(self) -> Self {
        Self { after_set_up: true, ..self }
    }

    /// A gate with two cells, and threads that may wake without a reason.
    #[must_use]
    pub fn in_full_detail(self) -> Self {
        Self { detail: Detail { gate_cells: 2, spurious_wakeups: true }, ..self }
    }

    /// A gate with two cells, so that publishers may stand in different ones.
    #[must_use]
    pub fn with_two_cells(self) -> Self {
        Self { detail: Detail { gate_cells: 2, ..self.detail }, ..self }
    }

    /// Explores the model with one preemption at most, then with one more, up to its bound.
    /// `LOOM_MAX_PREEMPTIONS`, `LOOM_MAX_PERMUTATIONS` and `LOOM_MAX_DURATION` (seconds) change the
    /// limits. `EVENTCAST_LOOM_DEEP` allows one preemption more, and ten minutes for each step.
    ///
    /// # Panics
    ///
    /// If the model fails, if it had one execution only, or if it should be whole and is not.
    pub fn run(self, model: impl Fn() + Sync + Send + 'static) {
        let model = StdArc::new(model);
        let deep = env::var_os("EVENTCAST_LOOM_DEEP").is_some();
        let given = loom::model::Builder::new();
        let most = given.preemption_bound.unwrap_or(self.preemptions + usize::from(deep));
        let least = given.preemption_bound.unwrap_or(1);
        let is_changed = deep || given.max_permutations.is_some() || given.max_duration.is_some();
        eventcast::set_detail(self.detail);
        let (mut below, mut executions, mut whole, mut bound) = (0, 0, true, least);
        for preemptions in least..=most {
            below = executions;
            (executions, whole) = self.explore(preemptions, deep, model.clone());
            bound = preemptions;
            if !whole {
                break;
            }
        }
        let (operation, end) = OPERATION.take().unwrap_or(("", ""));
        let record = Record {
            operation: operation.to_owned(),
            end: end.to_owned(),
            model: env::var("EVENTCAST_LOOM_MODEL").unwrap_or_default(),
            threads: THREADS.get(),
            preemptions: bound,
            executions,
            whole,
            below,
        };
        println!("{record}");
        assert!(executions > 1, "it had one execution only: nothing raced in it");
        assert!(
            whole || is_changed || self.first.is_some(),
            "it is not whole after {executions} executions: make it smaller, or say how many it explores"
        );
        if let Some(path) = env::var_os("EVENTCAST_LOOM_RESULT") {
            fs::write(path, record.to_json()).expect("the runner's folder can be written");
        }
    }

    /// With this bound: how many executions there were, and whether there are no others.
    #[allow(clippy::disallowed_methods, reason = "the runner's own time, outside the model")]
    fn explore(
        self,
        preemptions: usize,
        deep: bool,
        model: StdArc<impl Fn() + Sync + Send + 'static>,
    ) -> (usize, bool) {
        let executions = StdArc::new(AtomicUsize::new(0));
        let counter = executions.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.expect_explicit_explore = self.after_set_up;
        builder.max_branches = 50_000;
        // How often loom looks at the limits below.
        builder.checkpoint_interval = 500;
        if deep {
            builder.max_duration = builder.max_duration.or(Some(DEEP));
        } else {
            builder.max_permutations = builder.max_permutations.or(self.first).or(Some(TOO_MANY));
        }
        let (most, longest) = (builder.max_permutations, builder.max_duration);
        let began = Instant::now();
        builder.check(move || {
            // Relaxed: the runner's own count, outside the model.
            counter.fetch_add(1, Ordering::Relaxed);
            THREADS.set(0);
            model();
        });
        let executions = executions.load(Ordering::Relaxed);
        // loom counts the one that it does not begin.
        let stopped = most.is_some_and(|most| executions + 1 >= most)
            || longest.is_some_and(|longest| began.elapsed() >= longest);
        (executions, !stopped)
    }
}
