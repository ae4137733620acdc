//! The operations that the sink received.

use eventcast::Event;

use super::program::{Answer, Trouble};

/// The prefix of an aggregate event's message.
const GROUP: &str = "(combined from similar events): ";

/// The key under which an event is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(String);

impl Subject {
    pub fn of(event: &Event) -> Self {
        let object = &event.involved_object;
        let message = if is_group(event) { "*" } else { &*event.message };
        Self(format!("{}/{} {} {} {message}", object.namespace, object.name, event.type_, event.reason))
    }
}

pub fn is_group(event: &Event) -> bool {
    event.message.starts_with(GROUP)
}

/// The namespace and the name of a stored event.
pub type Name = (String, String);

pub fn name_of(event: &Event) -> Name {
    (event.metadata.namespace.to_string(), event.metadata.name.to_string())
}

/// Identifies one stored event from the recording's point of view. The key is sufficient if the
/// correlator does not evict entries. Otherwise a key may belong to several stored events in turn.
pub type Id = (Option<Name>, Subject);

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Running,
    /// The event was stored, and the recording received this outcome.
    Done,
    /// The event was stored, but the recording received a different response.
    Lost,
    /// The event was not stored, because the same event is already in the store.
    Exists,
    /// The event was not stored.
    Failed,
}

impl Outcome {
    /// Returns the outcome that the same operation has if the recording does not receive the
    /// response.
    pub fn unanswered(self) -> Self {
        match self {
            Self::Done => Self::Lost,
            Self::Exists => Self::Failed,
            outcome => outcome,
        }
    }
}

/// An operation that the sink received.
#[derive(Clone, Debug)]
pub struct Op {
    pub id: Id,
    pub subject: Subject,
    pub event: Event,
    pub answer: Answer,
    /// The trouble that the operation's namespace was in when the operation began.
    pub trouble: Option<Trouble>,
    pub outcome: Outcome,
    /// The `moment`s at which the operation began and ended. The operation ends just before the
    /// recording can see the response.
    pub began: u64,
    pub ended: Option<u64>,
}

impl Op {
    /// Returns whether the store has stored the event in this state.
    pub fn is_stored(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Lost)
    }

    /// Returns whether the recording learned that the event is stored.
    pub fn is_told(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Exists)
    }

    /// Returns whether the operation is under way at `moment`.
    pub fn is_under_way(&self, moment: u64) -> bool {
        self.began < moment && self.ended.is_none_or(|ended| ended > moment)
    }
}
