//! Runs models, each in a process of its own and under a limit of processor time, which a busy machine does not change.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::scan::Mutant;

/// A model, and the program that holds it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) program: PathBuf,
    pub(crate) name: String,
}

/// What became of a mutant.
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
    /// It would have gone on.
    Unfinished,
    Failed(&'static str),
}

pub(crate) struct Runner {
    models: Vec<Model>,
    limit: u64,
}

impl Runner {
    pub(crate) fn new(models: Vec<Model>, limit: u64) -> Self {
        Self { models, limit }
    }

    pub(crate) fn models(&self) -> &[Model] {
        &self.models
    }

    /// A model that fails without a mutant would say nothing.
    pub(crate) fn must_pass(&self) -> Result<(), String> {
        for model in &self.models {
            if let Outcome::Failed(how) = self.run(model, None, 1) {
                return Err(format!("{} fails without a mutant ({how})", model.name));
            }
        }
        Ok(())
    }

    /// First the model that caught it last time, then all of them for a short time, then for as long as they may take.
    pub(crate) fn catch(&self, mutant: &Mutant, last: Option<&str>) -> Found {
        let mut through = BTreeSet::new();
        let first = self.models.iter().filter(|model| last == Some(&model.name)).map(|model| (model, self.limit));
        let short = self.models.iter().map(|model| (model, 2.min(self.limit)));
        let long = self.models.iter().map(|model| (model, self.limit));
        for (model, limit) in first.chain(short).chain(long) {
            if through.contains(&model.name) {
                continue;
            }
            match self.run(model, Some(mutant.number), limit) {
                Outcome::Failed(how) => return Found::Caught { model: model.name.clone(), how: how.into() },
                Outcome::Passed => {
                    through.insert(&model.name);
                }
                Outcome::Unfinished => {
                    if limit == self.limit {
                        through.insert(&model.name);
                    }
                }
            }
        }
        Found::Survived
    }

    #[allow(clippy::unused_self, reason = "it belongs to the others")]
    fn run(&self, model: &Model, mutant: Option<usize>, seconds: u64) -> Outcome {
        let limit = format!("ulimit -c 0; ulimit -t {seconds}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limit]).arg(&model.program).args(["--exact", &model.name, "--nocapture"]);
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        match mutant {
            Some(number) => command.env("EVENTCAST_MUTANT", number.to_string()),
            None => command.env_remove("EVENTCAST_MUTANT"),
        };
        let output = command.output().expect("a shell runs the models");
        if output.status.success() {
            return Outcome::Passed;
        }
        let text = String::from_utf8_lossy(&output.stderr);
        // The first thing that went wrong; what follows may only follow from it.
        let signs = [
            ("deadlock", "a deadlock"),
            ("Causality violation", "a data race"),
            ("leaked", "a leak"),
            ("exceeded maximum number of branches", "an endless loop"),
            ("panicked at", "an assertion"),
        ];
        let first = text.lines().find_map(|line| signs[..4].iter().find(|(sign, _)| line.contains(sign)));
        let how = first.or_else(|| signs.iter().find(|(sign, _)| text.contains(sign))).map(|(_, how)| *how);
        match (output.status.code(), how) {
            (_, Some(how)) => Outcome::Failed(how),
            // The limit's signal, or what follows it: nothing was said before.
            (None, None) => Outcome::Unfinished,
            (Some(_), None) => Outcome::Failed("the process ended"),
        }
    }
}
