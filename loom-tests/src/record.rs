//! The result of one model's run, as a line and as JSON.

use std::fmt;

/// The result of one model's run: a line of `matrix.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which row of the matrix it is. Empty for a model outside of it.
    pub operation: String,
    /// Which column of the matrix it is.
    pub end: String,
    /// The model's name.
    pub model: String,
    /// The threads of its own, besides the one that begins it and those of the bus.
    pub threads: usize,
    /// The bound on preemptions.
    pub preemptions: usize,
    /// How many executions there were.
    pub executions: usize,
    /// Whether there are no others within the bound.
    pub whole: bool,
    /// How many there are with one preemption less, all of which were explored. Zero: there was no such step.
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
    /// One line. The names hold no character that JSON escapes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Self { operation, end, model, threads, preemptions, executions, whole, below } = self;
        format!(
            "{{\"operation\": \"{operation}\", \"end\": \"{end}\", \"model\": \"{model}\", \
             \"threads\": {threads}, \"preemptions\": {preemptions}, \"executions\": {executions}, \
             \"whole\": {whole}, \"below\": {below}}}"
        )
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
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
