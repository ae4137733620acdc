//! The sink's state: the stored events, its operations, and its faults.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use eventcast::sink::{SinkErrorKind, SinkMode};
use eventcast::{Event, SinkError};

use super::ops::{Id, Name, Op, Outcome, Subject, name_of};
use super::program::{Answer, Options, Trouble};

/// The reason used for events stored by another writer.
pub const FOREIGN: &str = "Foreign";

/// The condition that must hold before an operation is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Nothing,
    /// Waits for the release after the one with this number.
    Release(u64),
    /// Waits for the clock to advance again after the advance with this number.
    Tick(u64),
    /// Waits until the operation's namespace is out of trouble.
    Namespace,
    /// Waits until the program answers or drops the call.
    Kept,
}

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// The operation's index in the list of operations.
    pub number: usize,
    pub answer: Answer,
    pub hold: Hold,
}

#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct State {
    options: Options,
    pub answers: VecDeque<Answer>,
    pub is_away: bool,
    /// Whether operations no longer hang.
    pub is_free: bool,
    /// Whether calls are kept until the program answers them.
    pub keeps: bool,
    pub troubles: BTreeMap<String, Trouble>,
    /// The number of releases and of clock advances so far.
    pub releases: u64,
    pub ticks: u64,
    /// The conditions that the recording's blocked threads are waiting for.
    pub blocked: Vec<Hold>,
    pub store: HashMap<Name, Event>,
    /// The events whose operations are in the sink now.
    busy: HashSet<Id>,
    /// The number of batches that a blocking sink is processing now.
    batches: usize,
    /// The number of the recording's calls that contained several operations.
    pub several: u64,
    /// The highest count stored under each name for each key, and the highest count that the sink
    /// received for it.
    stored: HashMap<(Name, Subject), i32>,
    seen: HashMap<(Name, Subject), i32>,
    pub ops: Vec<Op>,
    version: u64,
    pub wrong: Vec<String>,
}

impl State {
    pub fn new(options: &Options) -> Self {
        Self {
            options: *options,
            answers: VecDeque::new(),
            is_away: false,
            is_free: false,
            keeps: false,
            troubles: BTreeMap::new(),
            releases: 0,
            ticks: 0,
            blocked: Vec::new(),
            store: HashMap::new(),
            busy: HashSet::new(),
            batches: 0,
            several: 0,
            stored: HashMap::new(),
            seen: HashMap::new(),
            ops: Vec::new(),
            version: 0,
            wrong: Vec::new(),
        }
    }

    fn id(&self, event: &Event) -> Id {
        ((!self.options.is_determined()).then(|| name_of(event)), Subject::of(event))
    }

    /// Records that the sink has received operations. These operations are under way until
    /// [`State::leave`].
    pub fn enter<'e>(&mut self, events: impl ExactSizeIterator<Item = &'e Event>) {
        let count = events.len();
        for event in events {
            let id = self.id(event);
            if self.busy.contains(&id) {
                self.wrong.push(format!("two operations on {id:?} at once"));
            }
            self.busy.insert(id);
        }
        self.batches += 1;
        self.several += u64::from(count > 1);
        let (under_way, most, largest) = match self.options.mode {
            SinkMode::Batches => (self.batches, self.options.places(), 256),
            _ => (self.busy.len(), self.options.places(), self.options.places()),
        };
        let is_alone = self.options.order == eventcast::sink::WriteOrder::PerKey || self.busy.len() == 1;
        if count == 0 || count > largest || under_way > most || !is_alone {
            let mode = self.options.mode;
            self.wrong.push(format!("{count} operations at once, {under_way} under way: {mode:?}, {most}"));
        }
    }

    /// Records that a batch in a blocking sink has been answered, or that a call was submitted.
    pub fn leave_batch(&mut self) {
        self.batches -= 1;
    }

    /// Records that the operation on this event is no longer under way.
    pub fn leave(&mut self, event: &Event, moment: u64) {
        let id = self.id(event);
        self.busy.remove(&id);
        if let Some(op) = self.last_op(event) {
            op.ended.get_or_insert(moment);
        }
    }

    /// Records the beginning of an operation.
    pub fn begin(&mut self, event: &Event, moment: u64) -> Begun {
        let (subject, name) = (Subject::of(event), name_of(event));
        let seen = self.seen.entry((name, subject.clone())).or_insert(event.count);
        let before = std::mem::replace(seen, event.count.max(*seen));
        if before > event.count {
            let counts = format!("{} after {before}", event.count);
            self.wrong.push(format!("the sink sees {subject:?} go back: {counts}"));
        }
        let trouble = self.troubles.get(&*event.involved_object.namespace).copied();
        let answer = match trouble {
            _ if self.is_away => Answer::Unavailable,
            Some(Trouble::Closed) => Answer::GroupUnavailable,
            Some(Trouble::Forbidden) => Answer::Forbid,
            _ => self.answers.pop_front().unwrap_or(Answer::Ok),
        };
        let hold = match trouble {
            Some(Trouble::Hangs) => Hold::Namespace,
            Some(Trouble::Slow) => Hold::Tick(self.ticks),
            _ if answer == Answer::Hang => Hold::Release(self.releases),
            _ if self.keeps && matches!(self.options.mode, SinkMode::InFlight(_)) => Hold::Kept,
            _ => Hold::Nothing,
        };
        let (id, event) = (self.id(event), event.clone());
        let (outcome, ended) = (Outcome::Running, None);
        self.ops.push(Op { id, subject, event, answer, trouble, outcome, began: moment, ended });
        Begun { number: self.ops.len() - 1, answer, hold }
    }

    /// Returns whether an operation on an event in this namespace has to wait.
    pub fn holds(&self, hold: Hold, namespace: &str) -> bool {
        let trouble = self.troubles.get(namespace).copied();
        let holds = match hold {
            Hold::Nothing => false,
            Hold::Release(seen) => self.releases == seen,
            Hold::Tick(seen) => self.ticks == seen && trouble == Some(Trouble::Slow),
            Hold::Namespace => trouble == Some(Trouble::Hangs),
            Hold::Kept => self.keeps,
        };
        holds && !self.is_free
    }

    pub fn last_op(&mut self, event: &Event) -> Option<&mut Op> {
        let id = self.id(event);
        self.ops.iter_mut().rev().find(|op| op.id == id)
    }

    /// Performs an operation on the store.
    pub fn apply(
        &mut self,
        event: &Event,
        creates: bool,
        answer: Answer,
    ) -> (Outcome, Result<Event, SinkError>) {
        let name = name_of(event);
        if let Some(error) = failure(answer) {
            return (Outcome::Failed, Err(error));
        }
        let subject = Subject::of(event);
        // Two groups created at the same time may have the same name. The response applies only to
        // the event of this operation, not to the event of the other group.
        let is_others = self.store.get(&name).is_some_and(|stored| Subject::of(stored) != subject);
        match answer {
            Answer::Forget if !is_others => drop(self.store.remove(&name)),
            Answer::Taken if !is_others => {
                let mut foreign = event.clone();
                foreign.reason = FOREIGN.into();
                self.store.insert(name.clone(), foreign);
            }
            _ => {}
        }
        match self.store.get(&name) {
            Some(stored) if creates => {
                let is_own = Subject::of(stored) == subject;
                let error = SinkError::new(SinkErrorKind::AlreadyExists, "taken");
                let says_which = self.options.says_which || !is_own;
                let error = if says_which { error.with_stored(stored.clone()) } else { error };
                return (if is_own { Outcome::Exists } else { Outcome::Failed }, Err(error));
            }
            Some(stored) if Subject::of(stored) != subject => {
                return (Outcome::Failed, Err(SinkError::new(SinkErrorKind::NotFound, "another one's")));
            }
            None if !creates => {
                return (Outcome::Failed, Err(SinkError::new(SinkErrorKind::NotFound, "expired")));
            }
            _ => {}
        }
        let before = self.stored.insert((name.clone(), subject), event.count).unwrap_or(i32::MIN);
        if before > event.count {
            self.wrong.push(format!("{name:?} has count {} after {before}", event.count));
        }
        self.version += 1;
        let mut stored = event.clone();
        stored.metadata.set_resource_version(self.version.to_string());
        self.store.insert(name, stored.clone());
        match answer {
            Answer::Lost => (Outcome::Lost, Err(SinkError::retry("the answer is lost"))),
            Answer::TimeOut => {
                (Outcome::Lost, Err(SinkError::new(SinkErrorKind::GroupUnavailable, "no response in time")))
            }
            _ => (Outcome::Done, Ok(stored)),
        }
    }
}

/// Returns the error for an answer that stores nothing.
fn failure(answer: Answer) -> Option<SinkError> {
    match answer {
        Answer::Refuse => Some(SinkError::rejected("refused")),
        Answer::Retry => Some(SinkError::retry("busy")),
        Answer::RetryAfter(ms) => {
            Some(SinkError::retry("too many requests").with_retry_after(Duration::from_millis(ms)))
        }
        Answer::Unavailable => Some(SinkError::new(SinkErrorKind::Unavailable, "away")),
        Answer::GroupUnavailable => Some(SinkError::new(SinkErrorKind::GroupUnavailable, "not served")),
        Answer::Forbid => Some(SinkError::new(SinkErrorKind::Forbidden, "not allowed")),
        Answer::Panic => Some(SinkError::rejected("panics")),
        _ => None,
    }
}
