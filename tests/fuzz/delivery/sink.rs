//! The sink of a program. It answers as the program says, keeps what it stored, and notes each
//! operation.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use eventcast::sink::{SinkOp, Stored};
use eventcast::{Event, EventSink, SinkError};

use super::program::{Answer, Options};

/// The beginning of the message of an event that stands for a group.
const GROUP: &str = "(combined from similar events): ";
/// The reason of an event that another writer stored.
const FOREIGN: &str = "Foreign";
/// The time limit of an operation that hangs. Only a fault of the test takes this long.
const HANGS: Duration = Duration::from_secs(240);

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
type Name = (String, String);

fn name_of(event: &Event) -> Name {
    (event.metadata.namespace.to_string(), event.metadata.name.to_string())
}

/// One stored event, as the recording sees it. Its key is enough if the correlator forgets nothing.
/// Otherwise a key may belong to several stored events, one after the other.
type Id = (Option<Name>, Subject);

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Running,
    /// Stored, and the recording was told.
    Done,
    /// Stored, and the recording was told something else.
    Lost,
    /// Not stored, because the very event is there already.
    Exists,
    /// Not stored.
    Failed,
}

impl Outcome {
    /// Returns the outcome of the same operation if the recording does not see the answer.
    fn unanswered(self) -> Self {
        match self {
            Self::Done => Self::Lost,
            Self::Exists => Self::Failed,
            outcome => outcome,
        }
    }
}

/// An operation as the sink saw it.
#[derive(Clone, Debug)]
pub struct Op {
    id: Id,
    pub subject: Subject,
    pub event: Event,
    pub answer: Answer,
    pub outcome: Outcome,
}

impl Op {
    /// Returns whether the store has had the event in this state.
    pub fn is_stored(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Lost)
    }
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
struct State {
    says_which: bool,
    is_determined: bool,
    answers: VecDeque<Answer>,
    is_away: bool,
    /// Whether nothing hangs any more.
    is_free: bool,
    /// The number of releases so far.
    releases: u64,
    hanging: usize,
    store: HashMap<Name, Event>,
    /// The events of the operations that are at the sink now.
    busy: HashSet<Id>,
    /// The highest count that was stored under each name, and the highest that the sink saw there
    /// for each key.
    stored: HashMap<Name, i32>,
    seen: HashMap<(Name, Subject), i32>,
    ops: Vec<Op>,
    version: u64,
    wrong: Vec<String>,
}

/// The part of the sink that the test keeps.
pub struct Script {
    state: Mutex<State>,
    changed: Condvar,
}

/// The payload of a panic at one operation.
struct ThisOne;
/// The payload of a panic that takes the whole batch along.
struct All;

impl Script {
    /// Creates the script of a sink that works.
    pub fn new(options: &Options) -> Arc<Self> {
        let (says_which, is_determined) = (options.says_which, options.is_determined());
        let state = State { says_which, is_determined, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn answer(&self, answers: &[Answer]) {
        self.lock().answers.extend(answers);
    }

    pub fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// Lets all operations that hang return.
    pub fn release(&self) {
        self.lock().releases += 1;
        self.changed.notify_all();
    }

    /// Lets all operations that hang return, and no later one hang.
    pub fn release_for_good(&self) {
        self.lock().is_free = true;
        self.changed.notify_all();
    }

    /// Makes the sink work from now on.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.answers.clear();
        (state.is_away, state.releases) = (false, state.releases + 1);
        drop(state);
        self.changed.notify_all();
    }

    pub fn hanging(&self) -> usize {
        self.lock().hanging
    }

    pub fn complain(&self, what: String) {
        self.lock().wrong.push(what);
    }

    /// Returns all that was wrong so far.
    pub fn wrong(&self) -> Vec<String> {
        self.lock().wrong.clone()
    }

    pub fn ops(&self) -> Vec<Op> {
        self.lock().ops.clone()
    }

    /// Returns what is stored now, without the events of other writers.
    pub fn stored(&self) -> Vec<Event> {
        self.lock().store.values().filter(|event| event.reason != FOREIGN).cloned().collect()
    }

    /// Notes the beginning of an operation, and returns its number and its answer.
    fn begin(&self, event: &Event) -> (usize, Answer) {
        let (subject, name) = (Subject::of(event), name_of(event));
        let mut state = self.lock();
        let id = state.id(event);
        if !state.busy.insert(id.clone()) {
            state.wrong.push(format!("two operations on {id:?} at once"));
        }
        let seen = state.seen.entry((name, subject.clone())).or_insert(event.count);
        let before = std::mem::replace(seen, event.count.max(*seen));
        if before > event.count {
            let counts = format!("{} after {before}", event.count);
            state.wrong.push(format!("the sink sees {subject:?} go back: {counts}"));
        }
        let answer =
            if state.is_away { Answer::Unavailable } else { state.answers.pop_front().unwrap_or(Answer::Ok) };
        let answer = if answer == Answer::Hang && state.is_free { Answer::Ok } else { answer };
        state.ops.push(Op { id, subject, event: event.clone(), answer, outcome: Outcome::Running });
        let number = state.ops.len() - 1;
        if answer == Answer::Hang {
            let seen = state.releases;
            state.hanging += 1;
            let holds = |state: &mut State| state.releases == seen && !state.is_free;
            let (mut state, waited) = self.changed.wait_timeout_while(state, HANGS, holds).unwrap();
            state.hanging -= 1;
            if waited.timed_out() {
                state.wrong.push("nobody released an operation".to_owned());
            }
        }
        (number, answer)
    }

    /// Does an operation on the store.
    fn operate(&self, event: &Event, creates: bool) -> Result<Event, SinkError> {
        let (number, answer) = self.begin(event);
        let mut state = self.lock();
        let (outcome, result) = state.apply(event, creates, answer);
        let is_answered = !matches!(answer, Answer::Panic | Answer::PanicBatch);
        state.ops[number].outcome = if is_answered { outcome } else { outcome.unanswered() };
        let id = state.id(event);
        state.busy.remove(&id);
        drop(state);
        match answer {
            Answer::Panic => resume_unwind(Box::new(ThisOne)),
            Answer::PanicBatch => resume_unwind(Box::new(All)),
            _ => result,
        }
    }

    fn check_batch(&self, batch: &[SinkOp]) {
        let mut state = self.lock();
        let events = batch.iter().map(|op| state.id(op.event())).collect::<HashSet<_>>().len();
        if events < batch.len() || batch.len() > 256 || batch.is_empty() {
            state.wrong.push(format!("{} operations on {events} events in a batch", batch.len()));
        }
    }

    /// Returns the answer to the last operation about the same event.
    fn last_answer(&self, op: &SinkOp) -> Answer {
        self.lock().last_op(op.event()).map_or(Answer::Ok, |op| op.answer)
    }

    /// Notes that the recording will not see the answers of these operations, which were the last
    /// ones about their events.
    fn forget_answers<'o>(&self, ops: impl Iterator<Item = &'o SinkOp>) {
        let mut state = self.lock();
        for op in ops {
            if let Some(op) = state.last_op(op.event()) {
                op.outcome = op.outcome.unanswered();
            }
        }
    }
}

impl State {
    fn id(&self, event: &Event) -> Id {
        ((!self.is_determined).then(|| name_of(event)), Subject::of(event))
    }

    fn last_op(&mut self, event: &Event) -> Option<&mut Op> {
        let id = self.id(event);
        self.ops.iter_mut().rev().find(|op| op.id == id)
    }

    fn apply(&mut self, event: &Event, creates: bool, answer: Answer) -> (Outcome, Result<Event, SinkError>) {
        let name = name_of(event);
        match answer {
            Answer::Refuse => return (Outcome::Failed, Err(SinkError::rejected("refused"))),
            Answer::Retry => return (Outcome::Failed, Err(SinkError::retry("busy"))),
            Answer::RetryAfter(ms) => {
                let error = SinkError::retry_after("too many requests", Duration::from_millis(ms));
                return (Outcome::Failed, Err(error));
            }
            Answer::Unavailable => return (Outcome::Failed, Err(SinkError::unavailable("away"))),
            Answer::Panic => return (Outcome::Failed, Err(SinkError::rejected("panics"))),
            Answer::Forget => drop(self.store.remove(&name)),
            Answer::Taken => {
                let mut foreign = event.clone();
                foreign.reason = FOREIGN.into();
                self.store.insert(name.clone(), foreign);
            }
            Answer::Ok | Answer::Lost | Answer::PanicBatch | Answer::Short | Answer::Hang => {}
        }
        let subject = Subject::of(event);
        match self.store.get(&name) {
            Some(stored) if creates => {
                let is_own = Subject::of(stored) == subject;
                let error = SinkError::already_exists("taken");
                let error =
                    if is_own && !self.says_which { error } else { error.with_stored(stored.clone()) };
                return (if is_own { Outcome::Exists } else { Outcome::Failed }, Err(error));
            }
            Some(stored) if Subject::of(stored) != subject => {
                return (Outcome::Failed, Err(SinkError::not_found("another one's")));
            }
            None if !creates => return (Outcome::Failed, Err(SinkError::not_found("expired"))),
            _ => {}
        }
        let before = self.stored.insert(name.clone(), event.count).unwrap_or(i32::MIN);
        if before > event.count {
            self.wrong.push(format!("{name:?} has count {} after {before}", event.count));
        }
        self.version += 1;
        let mut stored = event.clone();
        stored.metadata.set_resource_version(self.version.to_string());
        self.store.insert(name, stored.clone());
        match answer {
            Answer::Lost => (Outcome::Lost, Err(SinkError::retry("the answer is lost"))),
            _ => (Outcome::Done, Ok(stored)),
        }
    }
}

/// The sink that a recording has.
pub struct Scripted(pub Arc<Script>);

impl EventSink for Scripted {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.operate(event, true)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.complain("an update, which no recording asks for".to_owned());
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.operate(event, false)
    }

    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        self.0.check_batch(batch);
        let mut answers = Vec::new();
        for number in 0..batch.len() {
            let op = &mut batch[number];
            let answer = catch_unwind(AssertUnwindSafe(|| op.apply_to(self)));
            if answer.as_ref().is_err_and(|payload| payload.is::<All>()) {
                self.0.forget_answers(batch[..number].iter());
                resume_unwind(Box::new(All));
            }
            if self.0.last_answer(&batch[number]) == Answer::Short {
                self.0.forget_answers(batch[number..=number].iter());
                break;
            }
            let answer = answer.unwrap_or_else(|_| Err(SinkError::rejected("a panic")));
            answers.push(answer.map(Stored::from));
        }
        // The sink needs the events no longer, as a store that keeps them would take them.
        for (op, _) in batch.iter_mut().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
            drop(op.take());
        }
        answers
    }
}
