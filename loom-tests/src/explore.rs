//! Running a model, and refusing one that explores nothing.

use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Arc;

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

/// Explores a model with the preemptions that its size allows; `LOOM_MAX_PREEMPTIONS` overrides.
///
/// # Panics
///
/// When the model fails, and when it had one execution only: then it looked at nothing.
pub fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_with(name, 2, model);
}

/// As [`explore`], with this bound on preemptions.
///
/// # Panics
///
/// As [`explore`].
pub fn explore_with(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let executions = StdArc::new(AtomicUsize::new(0));
    let counter = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    let bound = builder.preemption_bound;
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions, at most {bound:?} preemptions");
    assert!(executions > 1, "{name} explored one execution only: nothing raced in it");
}
