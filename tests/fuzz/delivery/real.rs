//! A program's run on a real recording.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use eventcast::error::FlushError;
use eventcast::record::RecordingHandle;
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, Event, EventBroadcaster, EventType, ObjectReference, Recorder};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::judge::{Evidence, Told, similar};
use super::met::Met;
use super::program::{End, Options, Program, Step};
use super::sink::{Script, Scripted};

/// The time limit for the recording. Its own work takes a moment, so only a fault takes this long.
const PATIENCE: Duration = Duration::from_secs(180);
/// The time limit while a failing program is made smaller.
const IMPATIENCE: Duration = Duration::from_millis(500);
/// How long the clock waits, at most, for decisions that the sink or a full queue may hold up.
const MOMENT: Duration = Duration::from_millis(5);
const RECORDING: &str = "twin";

/// Whether a program has failed already.
static FAILED: AtomicBool = AtomicBool::new(false);

fn patience() -> Duration {
    if FAILED.load(Ordering::Relaxed) { IMPATIENCE } else { PATIENCE }
}

/// Waits until `done` holds, at most for `limit`. Returns whether it holds.
fn wait(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
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

struct Run<'p> {
    options: &'p Options,
    clock: FakeClock,
    events: Option<Arc<EventBroadcaster>>,
    recording: RecordingHandle,
    recorder: Recorder,
    script: Arc<Script>,
    /// The events in the order of the decisions, each with its time.
    decided: Arc<Mutex<Vec<(SystemTime, Event)>>>,
    told: Arc<Mutex<Vec<Told>>>,
    accepted: u64,
    /// Whether the end has begun.
    is_over: bool,
    /// Whether the recording was stopped, and so is not offered every event.
    is_stopped: Arc<AtomicBool>,
    flushing: Vec<JoinHandle<()>>,
    met: &'p Met,
}

/// Runs the program. An error says what was wrong after which step.
pub fn run(program: &Program, met: &Met) -> Result<(), TestCaseError> {
    let result = Run::new(&program.options, met).run(program);
    if result.is_err() {
        FAILED.store(true, Ordering::Relaxed);
    }
    result
}

impl<'p> Run<'p> {
    fn new(options: &'p Options, met: &'p Met) -> Self {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let hook = told.clone();
        let bus = BusOptions::default().incoming_len(options.incoming_len).max_batch(options.max_batch);
        let events = EventBroadcaster::builder()
            .bus(bus)
            .clock(clock.clock())
            .on_loss(move |loss| {
                hook.lock().unwrap().push(Told {
                    reason: loss.reason(),
                    place: loss.place().to_owned(),
                    count: loss.count(),
                    event: loss.events().first().cloned(),
                });
            })
            .build()
            .unwrap();
        let decided: Arc<Mutex<Vec<(SystemTime, Event)>>> = Arc::default();
        let (noted, now, script) = (decided.clone(), clock.clock(), Script::new(options));
        // The correlator asks for this key once for each event, just before it decides.
        let correlator = options.correlator().aggregate_key(move |event| {
            noted.lock().unwrap().push((now.now(), event.clone()));
            similar(event)
        });
        let recording = events
            .recording()
            .name(RECORDING)
            .order(options.order)
            .workers(options.workers)
            .queue_len(options.queue_len)
            .overflow(options.policy)
            .retry(options.retry())
            .correlator(correlator)
            .start(Scripted(script.clone()))
            .unwrap();
        let recorder = events.new_recorder("fuzz");
        Self {
            options,
            clock,
            events: Some(Arc::new(events)),
            recording,
            recorder,
            script,
            decided,
            told,
            accepted: 0,
            is_over: false,
            is_stopped: Arc::default(),
            flushing: Vec::new(),
            met,
        }
    }

    fn run(mut self, program: &Program) -> Result<(), TestCaseError> {
        let result = self.all_steps(program);
        // Threads of a program that failed must not wait for ever.
        self.script.release_for_good();
        if let Some(events) = self.events.take().filter(|_| result.is_err()) {
            drop(events.shutdown_timeout(Duration::ZERO));
        }
        result
    }

    fn all_steps(&mut self, program: &Program) -> Result<(), TestCaseError> {
        for (number, step) in program.steps.iter().enumerate() {
            let result = self.step(step).and_then(|()| self.check_sink());
            result.map_err(|error| TestCaseError::fail(format!("step {number}, {step:?}: {error}")))?;
        }
        self.end(program).map_err(|error| TestCaseError::fail(format!("the end: {error}")))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Record { object, reason, message, is_warning, times } => {
                for _ in 0..*times {
                    self.record(*object, *reason, *message, *is_warning);
                }
            }
            Step::Answers(answers) => self.script.answer(answers),
            Step::Away(is_away) => self.script.set_away(*is_away),
            Step::Release => self.script.release(),
            Step::Advance(seconds) => self.advance(Duration::from_secs(*seconds)),
            Step::Flush => self.flush(),
            Step::Settle => return self.settle(),
        }
        Ok(())
    }

    fn check_sink(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.script.wrong(), Vec::<String>::new());
        Ok(())
    }

    fn record(&mut self, object: u8, reason: u8, message: u8, is_warning: bool) {
        let object = ObjectReference::new("Pod", format!("web-{object}")).in_namespace("default");
        let type_ = if is_warning { EventType::Warning } else { EventType::Normal };
        let (reason, message) = (format!("Reason{reason}"), format!("message {message}"));
        self.accepted += u64::from(self.recorder.event(object, type_, reason, message).is_accepted());
    }

    /// Returns whether every event that was accepted has been decided or dropped.
    fn is_decided(&self) -> bool {
        let stats = self.recording.stats();
        let decided = self.decided.lock().unwrap().len() as u64;
        decided + stats.watcher.dropped.total() >= self.accepted
    }

    /// Moves the clock. If decisions depend on the time, the clock moves only while none is due.
    fn advance(&self, by: Duration) {
        // A sink that hangs, or a full queue, may hold up decisions for good.
        let may_wait = self.script.hanging() > 0 || self.is_over || !self.options.is_timed;
        let limit = if may_wait { MOMENT } else { patience() };
        if wait(limit, || self.is_decided()) || !self.options.is_timed {
            self.clock.advance(by);
        }
    }

    /// Moves the clock on until the thread has finished, and returns its result.
    fn advance_until<R>(&self, thread: JoinHandle<R>) -> Result<R, TestCaseError> {
        let has_ended = wait(patience(), || {
            if self.clock.waiters() > 0 && !thread.is_finished() {
                self.advance(Duration::from_secs(1));
            }
            thread.is_finished()
        });
        prop_assert!(has_ended, "a call does not return: {:?}", self.recording.stats());
        thread.join().map_err(|_| TestCaseError::fail("a call panics"))
    }

    /// Flushes on another thread, and checks there that everything before has its outcome then.
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
                // An event that is dropped to make room is counted a little later.
                Ok(()) if wait(patience(), is_through) => {}
                Ok(()) => {
                    script.complain(format!("flushed before {before} were through: {:?}", recording.stats()));
                }
                Err(FlushError::Abandoned) => {}
                Err(error) => script.complain(format!("a flush says {error}")),
            }
        }));
    }

    /// Waits for all flushes, while the clock moves on.
    fn join_flushes(&mut self) -> Result<(), TestCaseError> {
        for flushing in std::mem::take(&mut self.flushing) {
            self.advance_until(flushing)?;
            self.met.note("flushed", 1);
        }
        self.check_sink()
    }

    /// Lets the sink work, waits until everything has its outcome, and looks at all that is there.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.script.heal();
        if self.is_over {
            return Ok(());
        }
        self.flush();
        self.join_flushes()?;
        self.judge()
    }

    fn judge(&self) -> Result<(), TestCaseError> {
        // Only events that are dropped to make room are counted later than a flush returns.
        let is_balanced = wait(patience(), || {
            let watcher = self.recording.stats().watcher;
            watcher.offered == watcher.delivered + watcher.dropped.total() && watcher.queued == 0
        });
        let stats = self.recording.stats();
        prop_assert!(is_balanced, "{:?}", stats);
        let told = self.told.lock().unwrap();
        let told: Vec<Told> = told.iter().filter(|told| told.place == RECORDING).cloned().collect();
        let evidence = Evidence {
            options: self.options,
            decided: &self.decided.lock().unwrap().clone(),
            stats: &stats,
            told: &told,
            ops: &self.script.ops(),
            stored: &self.script.stored(),
        };
        if self.is_over {
            self.met.note_all(&evidence);
        }
        evidence.judge()
    }

    /// Begins the end on another thread if it may wait, goes on with the late steps, and waits for
    /// the end.
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
            // The last of the flushes drops the broadcaster, and a flush waits for as long as the
            // store is away.
            self.script.heal();
        }
        // A shutdown by deadline returns while the sink hangs.
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
