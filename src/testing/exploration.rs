//! Explores models, and rejects models that explore nothing, or less than they claim.

use std::env;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use loom::model::Builder;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::sync::{Detail, set_detail};

use super::failure::Step;

/// The maximum number of executions of a model that should be explored completely. If a model
/// reaches this number, it fails, because something has made it too large.
const TOO_MANY: usize = 4_000_000;

/// The maximum number of steps in one execution. If a model takes more steps, it is assumed to be
/// in an endless loop.
const MOST_BRANCHES: usize = 50_000;

/// The number of executions after which loom checks its limits.
const INTERVAL: usize = 500;

/// The settings for exploring a model. By default, loom explores all executions with at most two
/// preemptions, the gate has one cell, and threads do not wake spuriously.
///
/// A preemption is a switch away from a thread that could have continued. Switches away from a
/// waiting thread do not count.
#[doc(alias = "Builder")]
#[derive(Clone, Copy, Debug)]
#[must_use = "it explores nothing until it is run"]
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
    /// Sets the maximum number of preemptions in each execution. Defaults to 2. With 0, loom
    /// switches away from a thread only where the thread waits or ends.
    #[doc(alias = "preemption_bound")]
    pub fn preemptions(self, preemptions: usize) -> Self {
        Self { preemptions, ..self }
    }

    /// Stops each step after this many executions, for a model that is too large to be explored
    /// completely. loom checks the limit after every 500 executions.
    #[doc(alias = "max_permutations")]
    pub fn first(self, executions: usize) -> Self {
        Self { first: Some(executions), ..self }
    }

    /// Starts the exploration where the model calls [`begin`](super::begin).
    #[doc(alias = "expect_explicit_explore")]
    pub fn after_set_up(self) -> Self {
        Self { after_set_up: true, ..self }
    }

    /// Gives the gate two cells, and lets a parked thread wake once spuriously.
    pub fn in_full_detail(self) -> Self {
        Self { detail: Detail { gate_cells: 2, spurious_wakeups: true }, ..self }
    }

    /// Gives the gate two cells, so that publishers may enter through different cells.
    pub fn with_two_cells(self) -> Self {
        Self { detail: Detail { gate_cells: 2, ..self.detail }, ..self }
    }

    /// Explores the model in steps, first with at most one preemption, then with one more in each
    /// step, up to the bound. Returns the extent of the last step. A failure stops the exploration,
    /// so a failure is found with as few preemptions as possible.
    ///
    /// Environment variables change the limits. Stopping at such a limit is not a failure.
    ///
    /// - `LOOM_MAX_PREEMPTIONS` runs only one step, with the given bound.
    /// - `LOOM_MAX_PERMUTATIONS` and `LOOM_MAX_DURATION` (in seconds) limit each step.
    ///
    /// `LOOM_LOG`, `LOOM_LOCATION`, `LOOM_MAX_BRANCHES` (50,000 if it is not set),
    /// `LOOM_CHECKPOINT_FILE` and `LOOM_CHECKPOINT_INTERVAL` (500) have the same meaning as in
    /// loom.
    ///
    /// # Panics
    ///
    /// - If the model fails. If loom itself panics (because of a deadlock, a leak or a data race),
    ///   the process exits with status 101 instead, because loom cannot unwind a model. A message
    ///   on standard error names the execution and the failure.
    /// - If the model has only one execution.
    /// - If the model has more than four million executions, and neither [`first`](Self::first) nor
    ///   the environment limits it.
    pub fn run(self, model: impl Fn() + Sync + Send + 'static) -> Explored {
        let given = loom::model::Builder::new();
        let is_changed = given.max_permutations.is_some() || given.max_duration.is_some();
        let explored = self.steps(&given, &Arc::new(model));
        assert!(
            explored.executions > 1,
            "cannot pass a model with one execution: nothing raced in it. Call \
             `begin` at the end of a set-up that is not to be explored"
        );
        assert!(
            explored.whole || is_changed || self.first.is_some(),
            "cannot pass a model whose exploration is not complete after {} executions: make it \
             smaller, or set a limit with `first`",
            explored.executions
        );
        explored
    }

    /// Explores the model in steps, first with at most one preemption, then with one more in each
    /// step, up to the bound.
    fn steps<F>(self, given: &Builder, model: &Arc<F>) -> Explored
    where
        F: Fn() + Sync + Send + 'static,
    {
        let _log = given.log.then(log);
        set_detail(self.detail);
        let most = given.preemption_bound.unwrap_or(self.preemptions);
        let least = given.preemption_bound.unwrap_or(most.min(1));
        let mut explored = Explored { preemptions: least, executions: 0, whole: true, below: 0 };
        for preemptions in least..=most {
            let below = explored.executions;
            let (executions, whole) = self.step(preemptions, model.clone());
            explored = Explored { preemptions, executions, whole, below };
            if !whole {
                break;
            }
        }
        explored
    }

    /// Explores one step. Returns the number of executions in the step, and whether the step was
    /// explored completely.
    #[allow(clippy::disallowed_methods, reason = "the time of who explores, outside the model")]
    fn step<F>(self, preemptions: usize, model: Arc<F>) -> (usize, bool)
    where
        F: Fn() + Sync + Send + 'static,
    {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.expect_explicit_explore = self.after_set_up;
        if env::var_os("LOOM_MAX_BRANCHES").is_none() {
            builder.max_branches = MOST_BRANCHES;
        }
        if env::var_os("LOOM_CHECKPOINT_INTERVAL").is_none() {
            builder.checkpoint_interval = INTERVAL;
        }
        builder.max_permutations = builder.max_permutations.or(self.first).or(Some(TOO_MANY));
        let (most, longest) = (builder.max_permutations, builder.max_duration);
        let _step = Step::begin(preemptions);
        let began = Instant::now();
        builder.check(move || {
            Step::next();
            model();
        });
        let executions = Step::executions();
        // loom's count includes one execution that loom no longer starts.
        let is_stopped = most.is_some_and(|most| executions + 1 >= most)
            || longest.is_some_and(|longest| began.elapsed() >= longest);
        (executions, !is_stopped)
    }
}

/// Shows loom's log, as configured by `LOOM_LOG`, until the caller drops the returned guard.
fn log() -> impl Drop {
    let filter = EnvFilter::from_env("LOOM_LOG");
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_test_writer()
        .with_ansi(false)
        .without_time()
        .finish()
        .set_default()
}

/// The extent of an exploration, as returned by [`Exploration::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// The last step's bound on preemptions.
    pub preemptions: usize,
    /// The number of executions in the last step.
    pub executions: usize,
    /// Whether all executions within the bound were explored.
    pub whole: bool,
    /// The number of executions in the previous step, which was complete, or 0 if there was no
    /// previous step.
    pub below: usize,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { preemptions, executions, whole, below } = self;
        let which = if *whole { "all" } else { "the first" };
        write!(f, "{which} {executions} executions with at most {preemptions} preemptions")?;
        if !whole && *below > 0 {
            write!(f, ", all {below} with at most {}", preemptions - 1)?;
        }
        Ok(())
    }
}
