//! A program's sink. The sink answers as scripted by the program, keeps the stored events, and logs
//! each operation.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use eventcast::sink::{SinkBatch, SinkCall, SinkMode, SinkOp, Stored, WriteOrder};
use eventcast::{Event, EventSink, SinkError};

use super::ops::{Op, Outcome};
use super::program::{Answer, Options, Trouble};
use super::store::{Begun, FOREIGN, Hold, State};

/// The time limit for a hanging operation. Only a fault in the test can reach it.
const HANGS: Duration = Duration::from_secs(240);

/// A logical clock for all actions of the recording that the test can observe. Within one thread,
/// or between two threads if one waits for the other, a later value is higher.
#[derive(Clone, Default)]
pub struct Moments(Arc<AtomicU64>);

impl Moments {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A call that the sink has not answered yet.
struct Open {
    call: SinkCall,
    begun: Begun,
}

/// The part of the sink that the test keeps.
pub struct Script {
    options: Options,
    state: Mutex<State>,
    changed: Condvar,
    pub moments: Moments,
    /// The calls of a sink that does not block.
    open: Mutex<Vec<Open>>,
    /// The channel for calls that are to be answered on another thread.
    elsewhere: Mutex<Option<Sender<Open>>>,
    /// The threads that requested groups, and the number of requests.
    asked: Mutex<(HashSet<ThreadId>, u64)>,
}

/// The payload of a panic at one operation.
struct ThisOne;
/// The payload of a panic that takes down the whole batch.
struct All;

impl Script {
    /// Creates the script for a working sink.
    pub fn new(options: &Options) -> Arc<Self> {
        let script = Arc::new(Self {
            options: *options,
            state: Mutex::new(State::new(options)),
            changed: Condvar::new(),
            moments: Moments::default(),
            open: Mutex::default(),
            elsewhere: Mutex::default(),
            asked: Mutex::default(),
        });
        if options.answers_elsewhere && matches!(options.mode, SinkMode::InFlight(_)) {
            let (tx, rx) = mpsc::channel();
            *script.elsewhere.lock().unwrap() = Some(tx);
            let weak = Arc::downgrade(&script);
            thread::spawn(move || {
                for open in rx {
                    // Once the script has been dropped, no code reads the response.
                    let script: Option<Arc<Self>> = weak.upgrade();
                    if let Some(script) = script {
                        script.finish(open);
                    }
                }
            });
        }
        script
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the sink's behaviour, and resumes operations that no longer have to wait.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
        self.answer_due();
    }

    pub fn answer(&self, answers: &[Answer]) {
        self.lock().answers.extend(answers);
    }

    pub fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// Makes all hanging operations return.
    pub fn release(&self) {
        self.change(|state| state.releases += 1);
    }

    /// Lets slow operations return, because the clock has advanced.
    pub fn tick(&self) {
        self.change(|state| state.ticks += 1);
    }

    /// Sets whether calls are kept or answered from now on.
    pub fn keep(&self, keeps: bool) {
        self.change(|state| state.keeps = keeps);
    }

    pub fn trouble(&self, namespace: String, trouble: Option<Trouble>) {
        self.change(|state| match trouble {
            Some(trouble) => drop(state.troubles.insert(namespace, trouble)),
            None => drop(state.troubles.remove(&namespace)),
        });
    }

    pub fn troubles(&self) -> Vec<(String, Trouble)> {
        self.lock().troubles.clone().into_iter().collect()
    }

    /// Makes all hanging operations return, and prevents later operations from hanging.
    pub fn release_for_good(&self) {
        self.change(|state| state.is_free = true);
    }

    /// Makes the sink work from now on, except in the namespaces that are in trouble.
    pub fn heal_others(&self) {
        self.change(|state| {
            state.answers.clear();
            (state.is_away, state.keeps) = (false, false);
            state.releases += 1;
        });
    }

    /// Makes the sink work from now on.
    pub fn heal(&self) {
        self.lock().troubles.clear();
        self.heal_others();
    }

    /// Returns the number of operations that stay under way until the program continues.
    pub fn hanging(&self) -> usize {
        self.lock().blocked.len() + self.open.lock().unwrap().len()
    }

    /// Returns whether an operation is waiting for the clock to advance.
    pub fn is_slow(&self) -> bool {
        let is_slow = |hold: Hold| matches!(hold, Hold::Tick(_));
        let blocked = self.lock().blocked.iter().any(|hold| is_slow(*hold));
        blocked || self.open.lock().unwrap().iter().any(|open| is_slow(open.begun.hold))
    }

    pub fn complain(&self, what: String) {
        self.lock().wrong.push(what);
    }

    /// Returns all faults found so far.
    pub fn wrong(&self) -> Vec<String> {
        self.lock().wrong.clone()
    }

    pub fn ops(&self) -> Vec<Op> {
        self.lock().ops.clone()
    }

    /// Returns the currently stored events, without those of other writers.
    pub fn stored(&self) -> Vec<Event> {
        self.lock().store.values().filter(|event| event.reason != FOREIGN).cloned().collect()
    }

    /// Records that this thread, which belongs to the recording, decides about an event or requests
    /// a group.
    pub fn note_thread(&self, asks: bool) {
        let mut asked = self.asked.lock().unwrap();
        asked.0.insert(thread::current().id());
        asked.1 += u64::from(asks);
    }

    /// Returns the number of threads that made decisions and requested groups, and the number of
    /// requests.
    pub fn asked(&self) -> (usize, u64) {
        let asked = self.asked.lock().unwrap();
        (asked.0.len(), asked.1)
    }

    /// Waits until an operation has begun and may be answered.
    fn begin(&self, event: &Event) -> Begun {
        let mut state = self.lock();
        let begun = state.begin(event, self.moments.next());
        state.blocked.push(begun.hold);
        let namespace = &*event.involved_object.namespace;
        let holds = |state: &mut State| state.holds(begun.hold, namespace);
        let (mut state, waited) = self.changed.wait_timeout_while(state, HANGS, holds).unwrap();
        let place = state.blocked.iter().position(|hold| *hold == begun.hold);
        place.map(|place| state.blocked.swap_remove(place));
        if waited.timed_out() {
            state.wrong.push("nobody released an operation".to_owned());
        }
        begun
    }

    /// Performs an operation that is already under way on the store of a blocking sink.
    fn operate(&self, event: &Event, creates: bool) -> Result<Event, SinkError> {
        let Begun { number, answer, .. } = self.begin(event);
        let mut state = self.lock();
        let (outcome, result) = state.apply(event, creates, answer);
        let is_answered = !matches!(answer, Answer::Panic | Answer::PanicBatch);
        state.ops[number].outcome = if is_answered { outcome } else { outcome.unanswered() };
        drop(state);
        match answer {
            Answer::Panic => resume_unwind(Box::new(ThisOne)),
            Answer::PanicBatch => resume_unwind(Box::new(All)),
            _ => result,
        }
    }

    /// Performs the operation of a call that has only one operation.
    fn operate_alone(&self, event: &Event, creates: bool) -> Result<Event, SinkError> {
        if self.options.mode != SinkMode::OneByOne {
            self.complain("an operation that was not submitted".to_owned());
        }
        self.lock().enter(std::iter::once(event));
        let result = catch_unwind(AssertUnwindSafe(|| self.operate(event, creates)));
        self.leave(std::iter::once(event));
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    fn leave<'e>(&self, events: impl Iterator<Item = &'e Event>) {
        let mut state = self.lock();
        events.for_each(|event| state.leave(event, self.moments.next()));
        state.leave_batch();
    }

    /// Returns the answer to the last operation on the same event.
    fn last_answer(&self, op: &SinkOp) -> Answer {
        self.lock().last_op(op.event()).map_or(Answer::Ok, |op| op.answer)
    }

    /// Records that the recording will not see the responses to these operations. Each of them was
    /// the last operation on its event.
    fn forget_answers<'o>(&self, ops: impl Iterator<Item = &'o SinkOp>) {
        let mut state = self.lock();
        for op in ops {
            if let Some(op) = state.last_op(op.event()) {
                op.outcome = op.outcome.unanswered();
            }
        }
    }

    /// Performs a batch before the call returns, like a store with transactions.
    fn submit_batch(&self, batch: SinkBatch) {
        self.lock().enter(batch.ops().iter().map(SinkOp::event));
        let mut answers = Vec::new();
        for (number, op) in batch.ops().iter().enumerate() {
            let creates = matches!(op, SinkOp::Create(_));
            let answer = catch_unwind(AssertUnwindSafe(|| self.operate(op.event(), creates)));
            if answer.as_ref().is_err_and(|payload| payload.is::<All>()) {
                self.forget_answers(batch.ops()[..number].iter());
                self.leave(batch.ops().iter().map(SinkOp::event));
                resume_unwind(Box::new(All));
            }
            if self.last_answer(op) == Answer::Short {
                self.forget_answers(batch.ops()[number..=number].iter());
                break;
            }
            let answer = answer.unwrap_or_else(|_| Err(SinkError::rejected("a panic")));
            answers.push(answer.map(Stored::from));
        }
        self.leave(batch.ops().iter().map(SinkOp::event));
        batch.answer(answers);
    }

    /// Takes a batch's calls like a remote store would, and returns before all of the calls are
    /// answered.
    fn submit_calls(&self, batch: SinkBatch) {
        let mut state = self.lock();
        state.enter(batch.ops().iter().map(SinkOp::event));
        state.leave_batch();
        drop(state);
        let mut calls = batch.into_iter();
        while let Some(call) = calls.next() {
            let begun = self.lock().begin(call.event(), self.moments.next());
            let panics = matches!(begun.answer, Answer::Panic | Answer::PanicBatch);
            let is_held = self.lock().holds(begun.hold, &call.event().involved_object.namespace);
            if panics && !is_held {
                // Unwinding drops this call and the remaining calls.
                let all: Vec<SinkCall> = std::iter::once(call).chain(calls).collect();
                drop(self.end(&all[0], begun, begun.answer));
                let mut state = self.lock();
                all[1..].iter().for_each(|call| state.leave(call.event(), self.moments.next()));
                drop(state);
                panic_with(all);
            }
            self.open.lock().unwrap().push(Open { call, begun });
            self.answer_due();
        }
    }

    /// Answers the calls that do not have to wait.
    fn answer_due(&self) {
        let state = self.lock();
        let mut open = self.open.lock().unwrap();
        let is_due =
            |open: &Open| !state.holds(open.begun.hold, &open.call.event().involved_object.namespace);
        let (due, held): (Vec<Open>, Vec<Open>) = std::mem::take(&mut *open).into_iter().partition(is_due);
        *open = held;
        drop((open, state));
        for open in due {
            self.finish_somewhere(open);
        }
    }

    /// Answers one of the calls that are under way.
    pub fn answer_one(&self, number: usize) -> bool {
        let open = self.take_open(number);
        open.into_iter().map(|open| self.finish_somewhere(open)).count() > 0
    }

    /// Answers all calls that are under way, starting with the given one. Returns the number of
    /// calls.
    pub fn answer_all(&self, first: usize) -> u64 {
        let mut open = std::mem::take(&mut *self.open.lock().unwrap());
        let count = open.len();
        open.rotate_left(first % count.max(1));
        open.into_iter().rev().for_each(|open| self.finish_somewhere(open));
        count as u64
    }

    /// Drops one of the calls that are under way.
    pub fn drop_one(&self, number: usize) -> bool {
        let open = self.take_open(number);
        let drop_it = |mut open: Open| {
            open.begun.answer = Answer::Short;
            self.lock().ops[open.begun.number].answer = Answer::Short;
            self.finish_somewhere(open);
        };
        open.into_iter().map(drop_it).count() > 0
    }

    fn take_open(&self, number: usize) -> Option<Open> {
        let mut open = self.open.lock().unwrap();
        let count = open.len();
        (count > 0).then(|| open.remove(number % count))
    }

    fn finish_somewhere(&self, open: Open) {
        match &*self.elsewhere.lock().unwrap() {
            Some(elsewhere) => elsewhere.send(open).unwrap_or_else(|error| self.finish(error.0)),
            None => self.finish(open),
        }
    }

    /// Performs a call's operation and answers the call.
    fn finish(&self, open: Open) {
        let Open { call, begun } = open;
        let result = self.end(&call, begun, begun.answer);
        match begun.answer {
            Answer::Panic | Answer::PanicBatch => {
                let unwound = catch_unwind(AssertUnwindSafe(|| panic_with(call)));
                drop(unwound);
            }
            Answer::Short => drop(call),
            _ => call.answer(result.map(Stored::from)),
        }
    }

    /// Performs a call's operation. The caller then answers the call.
    fn end(&self, call: &SinkCall, begun: Begun, answer: Answer) -> Result<Event, SinkError> {
        let creates = matches!(call.op(), SinkOp::Create(_));
        let mut state = self.lock();
        let (outcome, result) = state.apply(call.event(), creates, answer);
        let is_answered = !matches!(answer, Answer::Panic | Answer::PanicBatch | Answer::Short);
        state.ops[begun.number].outcome = if is_answered { outcome } else { outcome.unanswered() };
        state.leave(call.event(), self.moments.next());
        result
    }

    /// Returns the number of events that the recording knows to be stored. Returns `None` if the
    /// recording may or may not count one of these events, because the event was already in the
    /// store.
    pub fn told_as_stored(&self) -> Option<u64> {
        let state = self.lock();
        let is_unsure = state.ops.iter().any(|op| op.outcome == Outcome::Exists);
        let is_told = |op: &&Op| op.outcome == Outcome::Done && op.ended.is_some();
        (!is_unsure).then(|| state.ops.iter().filter(is_told).count() as u64)
    }

    /// Returns the number of the recording's calls that contained several operations.
    pub fn several(&self) -> u64 {
        self.lock().several
    }

    /// Returns whether no operation is under way.
    pub fn is_idle(&self) -> bool {
        self.lock().ops.iter().all(|op| op.outcome != Outcome::Running)
    }
}

/// Panics, dropping this value during unwinding.
fn panic_with<T>(_dropped: T) -> ! {
    resume_unwind(Box::new(All))
}

/// The sink that is passed to the recording.
pub struct Scripted(pub Arc<Script>);

impl EventSink for Scripted {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.operate_alone(event, true)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.complain("an update, which no recording asks for".to_owned());
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.operate_alone(event, false)
    }

    fn mode(&self) -> SinkMode {
        self.0.options.mode
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        self.0.note_thread(true);
        if self.0.options.order == WriteOrder::PerKey && self.0.options.group_panics(event) {
            resume_unwind(Box::new(ThisOne));
        }
        self.0.options.group(event)
    }

    fn submit(&self, batch: SinkBatch) {
        match self.0.options.mode {
            SinkMode::InFlight(_) => self.0.submit_calls(batch),
            SinkMode::Batches => self.0.submit_batch(batch),
            _ => {
                self.0.complain(format!("{} operations submitted to a sink of {batch:?}", batch.ops().len()));
            }
        }
    }
}
