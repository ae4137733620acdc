//! The result of one model's run, as a line and as JSON.

use std::fmt;

/// The result of one model's run: a line of `matrix.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The row of the matrix that the model belongs to. Empty for a model outside of the matrix.
    pub operation: String,
    /// The column of the matrix that the model belongs to. Empty for a model outside of the matrix.
    pub end: String,
    /// The model's name.
    pub model: String,
    /// The number of threads that the model starts, besides the first thread and the bus's own
    /// threads.
    pub threads: usize,
    /// The bound on preemptions.
    pub preemptions: usize,
    /// The number of executions with at most this many preemptions.
    pub executions: usize,
    /// Whether these are all executions within the bound.
    pub whole: bool,
    /// The number of executions in the step before, with one preemption less, which explored all of
    /// them. Zero if there was no such step.
    pub below: usize,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = if self.whole { "all" } else { "the first" };
        let Self { executions, preemptions, threads, below, .. } = self;
        write!(f, "{which} {executions} executions with at most {preemptions} preemptions, ")?;
        if !self.whole && *below > 0 {
            write!(f, "all {below} with at most {}, ", preemptions - 1)?;
        }
        write!(f, "{threads} threads of its own")
    }
}

impl Record {
    /// Returns the record as one line of JSON. The names hold no character that JSON escapes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Self { operation, end, model, threads, preemptions, executions, whole, below } = self;
        format!(
            "{{\"operation\": \"{operation}\", \"end\": \"{end}\", \"model\": \"{model}\", \
             \"threads\": {threads}, \"preemptions\": {preemptions}, \"executions\": {executions}, \
             \"whole\": {whole}, \"below\": {below}}}"
        )
    }

    /// Reads what [`to_json`](Self::to_json) wrote. Returns `None` if the line is not a record.
    #[must_use]
    pub fn from_json(line: &str) -> Option<Self> {
        let field = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\": "))?;
            let (value, _) = match rest.strip_prefix('"') {
                Some(text) => text.split_once('"')?,
                None => rest.split_at(rest.find([',', '}'])?),
            };
            Some(value.to_owned())
        };
        Some(Self {
            operation: field("operation")?,
            end: field("end")?,
            model: field("model")?,
            threads: field("threads")?.parse().ok()?,
            preemptions: field("preemptions")?.parse().ok()?,
            executions: field("executions")?.parse().ok()?,
            whole: field("whole")?.parse().ok()?,
            below: field("below")?.parse().ok()?,
        })
    }
}
