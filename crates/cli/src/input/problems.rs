//! Problems with the input, summarized in one line per reason.

use std::collections::BTreeMap;

use eventcast::event::{EventReadError, EventReadErrorKind as Kind};

use crate::support::number::counted;
use crate::support::text::plain;

/// The maximum length of a description, in characters.
const LENGTH: usize = 200;

/// The reason why a part of the input was skipped. The order of the variants is their order in the
/// summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Read(Kind),
    /// The event has no time.
    Undated,
}

impl Reason {
    /// Returns whether events were lost or may have been lost.
    fn is_loss(self) -> bool {
        match self {
            Self::Read(kind) => kind.is_loss(),
            Self::Undated => true,
        }
    }
}

/// A part of the input that was skipped.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) line: u64,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(reason: Reason, line: u64, text: &str) -> Self {
        Self { reason, line, text: plain(&text.chars().take(LENGTH).collect::<String>()) }
    }
}

impl From<EventReadError> for Problem {
    fn from(error: EventReadError) -> Self {
        Self::new(Reason::Read(error.kind()), error.line(), error.text())
    }
}

/// All problems found in an input.
#[derive(Debug, Default)]
pub(crate) struct Problems(BTreeMap<Reason, (u64, Problem)>);

impl Problems {
    pub(crate) fn add(&mut self, problem: Problem) {
        self.0.entry(problem.reason).or_insert((0, problem)).0 += 1;
    }

    /// Returns the number of skipped parts that were events or may have contained events.
    pub(crate) fn lost(&self) -> u64 {
        self.0.iter().filter(|(reason, _)| reason.is_loss()).map(|(_, (count, _))| count).sum()
    }

    /// Returns one line per reason, which contains the number of occurrences, the first occurrence,
    /// and the remedy.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(reason, (count, first))| line(*reason, *count, first)).collect()
    }
}

fn line(reason: Reason, count: u64, Problem { line, text, .. }: &Problem) -> String {
    let place = if count == 1 { format!("in line {line}") } else { format!("the first in line {line}") };
    let many = |noun: &str| counted(count, noun);
    let kind = match reason {
        Reason::Read(kind) => kind,
        Reason::Undated => {
            return format!("cannot use {}, {place}: {text}: add a 'lastTimestamp'", many("event"));
        }
    };
    match kind {
        Kind::Text => format!("skipped {}, {place}: {text}", many("line")),
        Kind::NotAnEvent => format!("skipped {}, {place}: {text}", many("document")),
        Kind::Malformed => {
            format!("cannot read {}, {place}: {text}: fix it or remove it", many("malformed document"))
        }
        Kind::Invalid => {
            format!("cannot read {}, {place}: {text}: fix it or remove it", many("event"))
        }
        Kind::CutOff => {
            format!("{text}, in line {line}: only the events before this were used: export them all again")
        }
        Kind::Io => format!("cannot read after line {line}: {text}: only the events before this were used"),
        _ => format!("cannot read {}, {place}: {text}", many("document")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Problem, Problems, Reason};

    #[test]
    fn each_reason_is_reported_once_with_its_count() {
        let mut problems = Problems::default();
        for line in 3..1000 {
            problems.add(Problem::new(Reason::Read(Kind::Invalid), line, "bad \u{1b}"));
        }
        problems.add(Problem::new(Reason::Read(Kind::Text), 7, "'x' is not JSON"));
        assert_eq!(
            problems.lines(),
            [
                "skipped 1 line, in line 7: 'x' is not JSON",
                r"cannot read 997 events, the first in line 3: bad \u{1b}: fix it or remove it",
            ]
        );
        assert_eq!(problems.lost(), 997);
    }
}
