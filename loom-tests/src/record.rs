//! The result of running one model, and its text and JSON formats.

use std::fmt;

/// The result of running one model, which is one line in `matrix.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The matrix row that the model belongs to. Empty if the model is not in the matrix.
    pub operation: String,
    /// The matrix column that the model belongs to. Empty if the model is not in the matrix.
    pub end: String,
    /// The model's name.
    pub model: String,
    /// The number of threads that the model spawns, not counting the first thread and the bus's own
    /// threads.
    pub threads: usize,
    /// The preemption bound.
    pub preemptions: usize,
    /// The number of executions that were explored within the preemption bound.
    pub executions: usize,
    /// Whether all executions within the bound were explored.
    pub whole: bool,
    /// The number of executions in the previous step, which was complete with one preemption fewer.
    /// Zero if there was no such step.
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
    /// Returns the record as one line of JSON. The names do not contain any characters that need to
    /// be escaped.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Self { operation, end, model, threads, preemptions, executions, whole, below } = self;
        format!(
            "{{\"operation\": \"{operation}\", \"end\": \"{end}\", \"model\": \"{model}\", \
             \"threads\": {threads}, \"preemptions\": {preemptions}, \"executions\": {executions}, \
             \"whole\": {whole}, \"below\": {below}}}"
        )
    }

    /// Parses a line written by [`to_json`](Self::to_json). Returns `None` if the line is not a
    /// record.
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
