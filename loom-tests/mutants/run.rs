//! Runs each test in its own process, with a limit on the number of executions. Unlike a time
//! limit, a limit on executions does not depend on how busy the machine is.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::backend::Backend;
use crate::scan::Mutant;

/// A model or another test, and the program that contains it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) program: PathBuf,
    pub(crate) name: String,
}

/// The result for one mutant.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Caught { model: String, how: String },
    Survived,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught { model, how } => write!(f, "caught by {model} ({how})"),
            Self::Survived => f.write_str("SURVIVED"),
        }
    }
}

enum Outcome {
    Passed,
    /// The test reached its limit without failing, but had more executions to run.
    Unfinished,
    Failed(&'static str),
}

/// Most mutants that can be caught are caught within this number of executions.
const FEW: usize = 1000;
/// The limit on a test's CPU time, in seconds. The limit is needed because a mutant may loop
/// without executing a step that loom can observe.
const PATIENCE: u32 = 120;

pub(crate) struct Runner {
    backend: &'static Backend,
    models: Vec<Model>,
    limit: usize,
}

impl Runner {
    pub(crate) fn new(backend: &'static Backend, models: Vec<Model>, limit: usize) -> Self {
        Self { backend, models, limit }
    }

    pub(crate) fn models(&self) -> &[Model] {
        &self.models
    }

    /// Checks that every model passes without a mutant. If a model failed without a mutant, its
    /// failure with a mutant would not prove anything.
    pub(crate) fn must_pass(&self, jobs: usize) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        let look = || {
            // Relaxed: only the value matters.
            while let Some(model) = self.models.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Outcome::Failed(how) = self.run(model, None, FEW.min(self.limit)) {
                    return Err(format!("{} fails without a mutant ({how})", model.name));
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let looking: Vec<_> = (0..jobs).map(|_| scope.spawn(look)).collect();
            looking.into_iter().try_for_each(|looking| looking.join().expect("no panic"))
        })
    }

    /// Searches for a model that catches the mutant. First runs the model that caught the mutant
    /// last time, then all models for a few executions, and finally all models up to the limit.
    pub(crate) fn catch(&self, mutant: &Mutant, last: Option<&str>) -> Found {
        let mut through = BTreeSet::new();
        let is_last = |model: &&Model| last == Some(&model.name);
        let first = self.models.iter().filter(is_last).map(|model| (model, self.limit));
        let short = self.models.iter().map(|model| (model, FEW.min(self.limit)));
        let long = self.models.iter().map(|model| (model, self.limit));
        for (model, limit) in first.chain(short).chain(long) {
            if through.contains(&model.name) {
                continue;
            }
            let outcome = self.run(model, Some(mutant.number), limit);
            if let Outcome::Failed(how) = outcome {
                return Found::Caught { model: model.name.clone(), how: how.into() };
            }
            if limit == self.limit || matches!(outcome, Outcome::Passed) {
                through.insert(&model.name);
            }
        }
        Found::Survived
    }

    fn run(&self, model: &Model, mutant: Option<usize>, executions: usize) -> Outcome {
        let limits = format!("ulimit -c 0; ulimit -t {PATIENCE}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limits]).arg(&model.program).args(["--exact", &model.name, "--nocapture"]);
        command
            .env("RUST_BACKTRACE", "0")
            .env(self.backend.limit_variable, executions.to_string())
            .envs(self.backend.environment.iter().copied())
            .stdin(Stdio::null());
        match mutant {
            Some(number) => command.env("EVENTCAST_MUTANT", number.to_string()),
            None => command.env_remove("EVENTCAST_MUTANT"),
        };
        let output = command.output().expect("a shell runs the tests");
        if output.status.success() {
            let all = String::from_utf8_lossy(&output.stdout).lines().any(|line| line.starts_with("all "));
            return if all { Outcome::Passed } else { Outcome::Unfinished };
        }
        Outcome::Failed(failure(&String::from_utf8_lossy(&output.stderr)))
    }
}

/// Returns the name of the first failure, because later failures may only be consequences of the
/// first failure.
fn failure(text: &str) -> &'static str {
    let signs = [
        ("deadlock", "a deadlock"),
        ("Causality violation", "a data race"),
        ("leaked", "a leak"),
        ("exceeded maximum number of branches", "an endless loop"),
        ("panicked at", "an assertion"),
    ];
    // The stress test reports a hang with its own message. A hang counts only if it is the first
    // failure, because a failed assertion may cause a hang.
    if text.split("panicked at").nth(1).is_some_and(|first| first.contains(" hangs")) {
        return "a hang";
    }
    let first = text.lines().find_map(|line| signs[..4].iter().find(|(sign, _)| line.contains(sign)));
    let how = first.or_else(|| signs.iter().find(|(sign, _)| text.contains(sign))).map(|(_, how)| *how);
    how.unwrap_or("the process ended")
}

#[cfg(test)]
mod tests {
    use super::failure;

    #[test]
    fn the_first_failure_counts() {
        let hang = "thread 'a' panicked at main.rs:70:\nthe round with the seed 0x5 hangs\n";
        let assertion = "thread 'b' panicked at read.rs:12:\nassertion failed\n";
        assert_eq!(failure(hang), "a hang");
        assert_eq!(failure(&format!("{assertion}{hang}")), "an assertion");
        assert_eq!(failure("thread 'c' panicked at rt.rs:1:\ndeadlock; threads = []\n"), "a deadlock");
        assert_eq!(failure(""), "the process ended");
    }
}
