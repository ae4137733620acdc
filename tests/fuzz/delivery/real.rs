//! A program's run on a real recording.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use eventcast::error::FlushError;
use eventcast::record::{self, Loss, RecordingHandle};
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, EventBroadcaster, EventType, ObjectReference, Recorder};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::evidence::{Decided, Evidence, Outage, Told, similar};
use super::met::Met;
use super::program::{End, Options, Program, Step, Trouble};
use super::sink::{Script, Scripted};

/// The time limit for the recording. Its own work takes very little time, so only a fault can reach
/// this limit.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit while a failing program is being shrunk.
const IMPATIENCE: Duration = Duration::from_millis(500);
/// The maximum time for which the clock waits for decisions that the sink or a full queue may
/// block.
const MOMENT: Duration = Duration::from_millis(5);
const RECORDING: &str = "twin";

/// Whether a program has already failed.
static FAILED: AtomicBool = AtomicBool::new(false);

pub fn patience() -> Duration {
    if FAILED.load(Ordering::Relaxed) { IMPATIENCE } else { PATIENCE }
}

/// Waits until `done` returns true, for at most `limit`. Returns whether `done` has returned true.
pub fn wait(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if done() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        thread::yield_now();
    }
}

pub struct Run<'p> {
    pub options: &'p Options,
    clock: FakeClock,
    events: Option<Arc<EventBroadcaster>>,
    pub recording: RecordingHandle,
    recorder: Recorder,
    pub script: Arc<Script>,
    /// The events, in the order of the decisions.
    decided: Arc<Mutex<Vec<Decided>>>,
    told: Arc<Mutex<Vec<Told>>>,
    outages: Arc<Mutex<Vec<Outage>>>,
    /// The `moment`s at which the recording had received the responses to all finished operations.
    rests: Vec<u64>,
    accepted: u64,
    /// Whether the end has begun.
    pub is_over: bool,
    /// Whether the recording was stopped and is therefore not offered every event.
    is_stopped: Arc<AtomicBool>,
    flushing: Vec<JoinHandle<()>>,
    pub met: &'p Met,
}

fn note_loss(script: &Arc<Script>, told: &Arc<Mutex<Vec<Told>>>) -> impl Fn(&Loss<'_>) + Send + Sync + use<> {
    let (moments, told) = (script.moments.clone(), told.clone());
    move |loss| {
        let mut told = told.lock().unwrap();
        told.push(Told {
            moment: moments.next(),
            reason: loss.reason,
            place: loss.place.to_owned(),
            group: loss.group.to_owned(),
            count: loss.count,
            event: loss.events.first().cloned(),
        });
    }
}

fn note_outage(
    script: &Arc<Script>,
    outages: &Arc<Mutex<Vec<Outage>>>,
) -> impl FnMut(&record::Outage<'_>) + Send + use<> {
    let (moments, outages) = (script.moments.clone(), outages.clone());
    move |outage| {
        let group = outage.group.map(str::to_owned);
        let mut outages = outages.lock().unwrap();
        outages.push(Outage { moment: moments.next(), group, is_over: outage.cause.is_none() });
    }
}

/// Runs the program. An error names the fault and the step after which it occurred.
pub fn run(program: &Program, met: &Met) -> Result<(), TestCaseError> {
    let result = Run::new(program, met).run(program);
    if result.is_err() {
        FAILED.store(true, Ordering::Relaxed);
    }
    result
}

impl<'p> Run<'p> {
    fn new(program: &'p Program, met: &'p Met) -> Self {
        let options = &program.options;
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let clock = if program.end == End::Deadline { clock.drive_the_end() } else { clock };
        let (script, told, outages) = (Script::new(options), Arc::default(), Arc::default());
        let bus =
            BusOptions::default().incoming_capacity(options.incoming_capacity).max_batch(options.max_batch);
        let builder = EventBroadcaster::builder().bus(bus).clock(clock.clock());
        let events = builder.on_loss(note_loss(&script, &told)).build().unwrap();
        let decided: Arc<Mutex<Vec<Decided>>> = Arc::default();
        let (noted, moving, noting) = (decided.clone(), clock.clone(), script.clone());
        let forgets = !options.is_determined();
        // The correlator requests this key once per event, just before it makes a decision.
        let correlator = options.correlator().aggregate_key(move |event| {
            noting.note_thread(false);
            let mut noted = noted.lock().unwrap();
            let at = moving.clock().now();
            noted.push(Decided { moment: noting.moments.next(), at, event: event.clone() });
            if forgets {
                // An evicted group that is recorded again gets a new name, because the clock is
                // ahead of the numbers that the recorder has used for names since.
                moving.advance(Duration::from_micros(10));
            }
            similar(event)
        });
        let builder = events
            .recording()
            .name(RECORDING)
            .order(options.order)
            .workers(options.workers)
            .queue_capacity(options.queue_capacity)
            .overflow(options.policy)
            .retry(options.retry())
            .on_outage(note_outage(&script, &outages))
            .correlator(correlator);
        let builder = match options.group_queue_capacity {
            Some(events) => builder.group_queue_capacity(events),
            None => builder,
        };
        let recording = builder.start(Scripted(script.clone())).unwrap();
        let recorder = events.recorder("fuzz");
        Self {
            options,
            clock,
            events: Some(Arc::new(events)),
            recording,
            recorder,
            script,
            decided,
            told,
            outages,
            rests: Vec::new(),
            accepted: 0,
            is_over: false,
            is_stopped: Arc::default(),
            flushing: Vec::new(),
            met,
        }
    }

    fn run(mut self, program: &Program) -> Result<(), TestCaseError> {
        let result = self.all_steps(program);
        // A failed program's threads must not wait forever.
        self.script.release_for_good();
        if let Some(events) = self.events.take().filter(|_| result.is_err()) {
            drop(events.shutdown_timeout(Duration::ZERO));
        }
        result
    }

    fn all_steps(&mut self, program: &Program) -> Result<(), TestCaseError> {
        for (number, step) in program.steps.iter().enumerate() {
            let result = self.step(step).and_then(|()| self.check_sink());
            self.note_rest();
            result.map_err(|error| TestCaseError::fail(format!("step {number}, {step:?}: {error}")))?;
        }
        self.end(program).map_err(|error| TestCaseError::fail(format!("the end: {error}")))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Record { namespace, object, reason, message, is_warning, times } => {
                let namespace = self.options.namespace(*namespace);
                for _ in 0..*times {
                    self.record(&namespace, *object, *reason, *message, *is_warning);
                }
            }
            Step::Answers(answers) => self.script.answer(answers),
            Step::Away(is_away) => self.script.set_away(*is_away),
            Step::Release => self.script.release(),
            Step::Keep(keeps) => self.script.keep(*keeps),
            Step::AnswerOne(number) => self.note_late(self.script.answer_one(*number).into()),
            Step::AnswerAll(first) => self.note_late(self.script.answer_all(*first)),
            Step::DropOne(number) => self.met.note("a dropped call", self.script.drop_one(*number).into()),
            Step::Trouble(namespace, trouble) => self.trouble(*namespace, *trouble),
            Step::OthersSettle(namespace, trouble) => {
                self.trouble(*namespace, Some(*trouble));
                return self.let_others_settle(*trouble);
            }
            Step::Advance(seconds) => self.advance(Duration::from_secs(*seconds)),
            Step::Flush => self.flush(),
            Step::Settle => return self.settle(),
        }
        Ok(())
    }

    fn trouble(&self, namespace: u8, trouble: Option<Trouble>) {
        self.script.trouble(self.options.namespace(namespace), trouble);
    }

    fn note_late(&self, answers: u64) {
        let is_elsewhere = self.options.answers_elsewhere;
        self.met
            .note(if is_elsewhere { "a late answer on another thread" } else { "a late answer" }, answers);
    }

    /// Records the current `moment` if the recording has received the responses to all finished
    /// operations.
    fn note_rest(&mut self) {
        // The responses to operations that end later may be unknown.
        let moment = self.script.moments.next();
        // An event that is already in the store may or may not count as stored.
        let Some(told) = self.script.told_as_stored() else { return };
        let counts = || {
            let stats = self.recording.stats();
            (stats.created, stats.updated, stats.coalesced)
        };
        let (created, updated, coalesced) = counts();
        let is_at_rest = created + updated == coalesced + told && (created, updated, coalesced) == counts();
        if is_at_rest {
            self.rests.push(moment);
        }
    }

    fn check_sink(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.script.wrong(), Vec::<String>::new());
        Ok(())
    }

    fn record(&mut self, namespace: &str, object: u8, reason: u8, message: u8, is_warning: bool) {
        let object = ObjectReference::new("Pod", format!("web-{object}")).in_namespace(namespace);
        let type_ = if is_warning { EventType::Warning } else { EventType::Normal };
        let (reason, message) = (format!("Reason{reason}"), format!("message {message}"));
        self.accepted += u64::from(self.recorder.event(object, type_, reason, message).is_accepted());
    }

    /// Returns whether every accepted event has been decided or dropped.
    pub fn is_decided(&self) -> bool {
        let stats = self.recording.stats();
        let decided = self.decided.lock().unwrap().len() as u64;
        decided + stats.watcher.dropped.total() >= self.accepted
    }

    /// Returns the number of events that have been decided, have no outcome yet and occupy the
    /// queue.
    pub fn waiting(&self) -> u64 {
        let watcher = self.recording.stats().watcher;
        let decided = self.decided.lock().unwrap().len() as u64;
        let undecided = watcher.offered.saturating_sub(watcher.dropped.total() + decided);
        watcher.queued.saturating_sub(undecided)
    }

    /// Advances the clock. If decisions depend on the time, the clock advances only while no
    /// decision is due.
    fn advance(&self, by: Duration) {
        // A hanging sink or a full queue may block decisions forever.
        let may_wait = self.script.hanging() > 0 || self.is_over || !self.options.is_timed;
        let limit = if may_wait { MOMENT } else { patience() };
        if wait(limit, || self.is_decided()) || !self.options.is_timed {
            self.clock.advance(by);
            self.script.tick();
        }
    }

    /// Advances the clock if a thread or a slow operation is waiting for it.
    pub fn advance_if_awaited(&self) {
        if self.clock.waiters() > 0 || self.script.is_slow() {
            self.advance(Duration::from_secs(1));
        }
    }

    /// Advances the clock until the thread has finished, and returns its result.
    fn advance_until<R>(&self, thread: JoinHandle<R>) -> Result<R, TestCaseError> {
        let has_ended = wait(patience(), || {
            if !thread.is_finished() {
                self.advance_if_awaited();
            }
            // After a fault in the recording, the call may never return.
            thread.is_finished() || !self.script.wrong().is_empty()
        });
        self.check_sink()?;
        prop_assert!(has_ended, "a call does not return: {:?}", self.recording.stats());
        thread.join().map_err(|_| TestCaseError::fail("a call panics"))
    }

    /// Flushes on another thread, and checks there that every event before the flush has its
    /// outcome once the flush returns.
    fn flush(&mut self) {
        let Some(events) = self.events.clone() else { return };
        let (recording, script, before) = (self.recording.clone(), self.script.clone(), self.accepted);
        let is_stopped = self.is_stopped.clone();
        self.flushing.push(thread::spawn(move || {
            let result = events.flush(Duration::MAX);
            let is_through = || {
                let stats = recording.stats();
                let through = stats.handled() + stats.watcher.dropped.total();
                through >= before || is_stopped.load(Ordering::SeqCst)
            };
            match result {
                // If an event is dropped to free capacity, it is counted shortly afterwards.
                Ok(()) if wait(patience(), is_through) => {}
                Ok(()) => {
                    script.complain(format!("flushed before {before} were through: {:?}", recording.stats()));
                }
                Err(FlushError::Abandoned) => {}
                Err(error) => script.complain(format!("a flush says {error}")),
            }
        }));
    }

    /// Waits for all flushes while advancing the clock.
    fn join_flushes(&mut self) -> Result<(), TestCaseError> {
        for flushing in std::mem::take(&mut self.flushing) {
            self.advance_until(flushing)?;
            self.met.note("flushed", 1);
        }
        self.check_sink()
    }

    /// Lets the sink work, waits until every event has its outcome, and checks the result.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.script.heal();
        if self.is_over {
            return Ok(());
        }
        self.flush();
        self.join_flushes()?;
        self.judge()?;
        self.rests.push(self.script.moments.next());
        Ok(())
    }

    /// Returns the decisions made so far.
    pub fn decided(&self) -> Vec<Decided> {
        self.decided.lock().unwrap().clone()
    }

    /// Returns this recording's losses that were reported to the hook.
    pub fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().iter().filter(|told| told.place == RECORDING).cloned().collect()
    }

    fn judge(&self) -> Result<(), TestCaseError> {
        // Only events that are dropped to free capacity may be counted after a flush has returned.
        let is_balanced = wait(patience(), || {
            let watcher = self.recording.stats().watcher;
            watcher.offered == watcher.delivered + watcher.dropped.total() && watcher.queued == 0
        });
        let stats = self.recording.stats();
        prop_assert!(is_balanced, "{:?}", stats);
        // A recording does not wait for all responses when it ends.
        prop_assert!(wait(patience(), || self.script.is_idle()), "an operation never ended");
        let evidence = Evidence {
            options: self.options,
            decided: &self.decided(),
            stats: &stats,
            told: &self.told(),
            outages: &self.outages.lock().unwrap().clone(),
            ops: &self.script.ops(),
            stored: &self.script.stored(),
            rests: &self.rests,
            asked: self.script.asked(),
            several: self.script.several(),
            is_over: self.is_over,
        };
        if self.is_over {
            self.met.note_all(&evidence);
        }
        evidence.judge()
    }

    /// Starts ending the program (on another thread if ending it may block), performs the late
    /// steps, and waits for the end.
    fn end(&mut self, program: &Program) -> Result<(), TestCaseError> {
        let Some(events) = self.events.clone() else { return Ok(()) };
        let deadline = Duration::from_secs(5);
        self.is_over = true;
        let ending: JoinHandle<()> = match program.end {
            End::Shutdown => thread::spawn(move || drop(events.shutdown())),
            End::Stop => {
                self.is_stopped.store(true, Ordering::SeqCst);
                self.recording.stop();
                thread::spawn(|| {})
            }
            End::Close => {
                events.close();
                thread::spawn(|| {})
            }
            End::AtOnce => thread::spawn(move || drop(events.shutdown_timeout(Duration::ZERO))),
            End::Deadline => thread::spawn(move || drop(events.shutdown_timeout(deadline))),
            End::Drop => {
                self.events = None;
                thread::spawn(move || drop(events))
            }
        };
        for step in &program.late {
            self.step(step)?;
        }
        if self.events.is_none() {
            // The last flush drops the broadcaster, and a flush waits for as long as the store is
            // unavailable.
            self.script.heal();
        }
        // A shutdown with a deadline returns even while the sink hangs.
        let gives_up = matches!(program.end, End::AtOnce | End::Deadline) && !self.options.is_timed;
        if !gives_up {
            self.script.release_for_good();
        }
        self.advance_until(ending)?;
        self.script.release_for_good();
        self.join_flushes()?;
        let has_ended = wait(patience(), || self.recording.join(Duration::ZERO));
        prop_assert!(has_ended, "the recording does not end: {:?}", self.recording.stats());
        if let Some(events) = self.events.take() {
            events.shutdown();
        }
        self.judge()
    }
}
