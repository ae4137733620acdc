//! Exercises recorders, a log, a handler, and recordings to a store and to a sink that fails in
//! every way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::sink::{MemorySinkOptions, SinkErrorKind};
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, EventSink, MemorySink, ObjectReference,
    OverflowPolicy, Recorded, RetryPolicy, SinkError,
};

use super::dice::Dice;
use super::ledger::{Ledger, add, get};
use super::tick::ON_PURPOSE;
use super::visit::PATIENCE;

/// The maximum number of events in the store.
const STORED: usize = 500;

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    full: AtomicU64,
    closed: AtomicU64,
    /// The number of lost events that the hook received.
    reported: AtomicU64,
    /// The number of events that the handler received, and the number of events on which the
    /// handler panicked.
    handled: AtomicU64,
    panicked: AtomicU64,
    lines: AtomicU64,
}

pub(crate) struct Recording {
    ledger: Arc<Ledger>,
    counts: Arc<Counts>,
    events: EventBroadcaster,
    pub(crate) store: MemorySink,
    threads: Vec<thread::JoinHandle<()>>,
}

/// A sink that forwards most calls to a store. Occasionally, it fails, sleeps or panics.
#[derive(Clone)]
struct Flaky {
    store: MemorySink,
    calls: Arc<AtomicU64>,
    seed: u64,
}

impl Flaky {
    fn new(store: &MemorySink, seed: u64) -> Self {
        Self { store: store.clone(), calls: Arc::default(), seed }
    }

    fn mood(&self) -> Result<(), SinkError> {
        let mut dice = Dice::new(self.seed, self.calls.fetch_add(1, Ordering::Relaxed));
        match dice.roll(60) {
            0..8 => Err(SinkError::retry("busy")),
            8 => Err(SinkError::retry("busy for long").with_retry_after(dice.micros(800))),
            9 => Err(SinkError::rejected("no")),
            10 => Err(SinkError::new(SinkErrorKind::NotFound, "expired")),
            11 => Err(SinkError::new(SinkErrorKind::AlreadyExists, "there")),
            12 => panic!("{ON_PURPOSE}: sink"),
            13 => {
                thread::sleep(dice.micros(1500));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl EventSink for Flaky {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.mood().and_then(|()| self.store.create(event))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.mood().and_then(|()| self.store.update(event))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.mood().and_then(|()| self.store.patch(event))
    }
}

fn small_store() -> Result<MemorySink, Box<dyn std::error::Error>> {
    Ok(MemorySink::with_options(MemorySinkOptions::default().max_events(STORED))?)
}

impl Recording {
    pub(crate) fn start(ledger: &Arc<Ledger>, seed: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let counts = Arc::new(Counts::default());
        let retry = RetryPolicy::default()
            .attempts(3)
            .delay(Duration::from_millis(1))
            .max_delay(Duration::from_millis(2));
        let hook = counts.clone();
        let events = EventBroadcaster::builder()
            .bus(BusOptions::default().incoming_capacity(128).queue_capacity(128).thread_name("soak-events"))
            .correlator(CorrelatorOptions::default().cache_size(256))
            .retry(retry)
            .on_loss(move |loss| {
                add(&hook.reported, loss.count);
                assert!(get(&hook.reported) % 1009 != 0, "{ON_PURPOSE}: loss hook");
            })
            .build()?;
        let store = small_store()?;
        events.record_to(store.clone())?;
        let flaky = Flaky::new(&small_store()?, seed);
        events.recording().name("flaky").overflow(OverflowPolicy::DropOldest).start(flaky)?;
        let log = counts.clone();
        events.log_to(move |_| add(&log.lines, 1))?;
        let handler = counts.clone();
        events.spawn(move |_| {
            add(&handler.handled, 1);
            if get(&handler.handled) % 509 == 0 {
                add(&handler.panicked, 1);
                panic!("{ON_PURPOSE}: event handler");
            }
        })?;
        let mut recording = Self { ledger: ledger.clone(), counts, events, store, threads: Vec::new() };
        for number in 0..2 {
            recording.record(seed, number)?;
        }
        recording.come_and_go(seed)?;
        Ok(recording)
    }

    /// Starts a thread that records events at varying rates.
    fn record(&mut self, seed: u64, number: u64) -> std::io::Result<()> {
        let (ledger, counts) = (self.ledger.clone(), self.counts.clone());
        let recorder = self.events.recorder(format!("soak-{number}"));
        let mut dice = Dice::new(seed, 3000 + number);
        let run = move || {
            while !ledger.is_over() {
                let pause = dice.micros(2000);
                for _ in 0..=dice.roll(60) {
                    let object = ObjectReference::new("Pod", format!("pod-{}", dice.roll(300)));
                    let reason = ["Started", "Pulled", "BackOff", "Failed"][dice.roll(4) as usize];
                    let type_ = if dice.once_in(3) { Warning } else { Normal };
                    let recorded = match dice.roll(3) {
                        0 => recorder.event(&object, type_, reason, "as ever"),
                        1 => recorder.event(&object, type_, reason, format_args!("{}", dice.roll(1000))),
                        _ => recorder.draft(&object, type_, reason).message("drafted").record(),
                    };
                    match recorded {
                        Recorded::Accepted => add(&counts.accepted, 1),
                        Recorded::Full => add(&counts.full, 1),
                        Recorded::Closed => add(&counts.closed, 1),
                        other => ledger.fault(format!("recorder: {other:?}")),
                    }
                }
                thread::sleep(pause);
            }
        };
        self.threads.push(thread::Builder::new().name(format!("recorder-{number}")).spawn(run)?);
        Ok(())
    }

    /// Starts a thread that repeatedly starts, stops and flushes recordings.
    fn come_and_go(&mut self, seed: u64) -> Result<(), Box<dyn std::error::Error>> {
        let (ledger, events) = (self.ledger.clone(), self.events.clone());
        let store = small_store()?;
        let mut dice = Dice::new(seed, 3100);
        let run = move || {
            while !ledger.is_over() {
                ledger.work("recordings", "start, pause, stop, flush".to_owned());
                let sink = Flaky::new(&store, dice.roll(u64::MAX));
                match events.recording().name("guest").queue_capacity(1 + dice.roll(64) as usize).start(sink)
                {
                    Ok(recording) => {
                        thread::sleep(dice.micros(50_000));
                        recording.stop();
                        if !recording.join(PATIENCE) {
                            ledger.fault("a stopped recording does not end".to_owned());
                        }
                    }
                    Err(error) => ledger.fault(format!("a recording: {error}")),
                }
                add(&ledger.flushes, 1);
                if let Err(error) = events.flush(PATIENCE) {
                    ledger.fault(format!("recordings: {error}"));
                }
            }
            ledger.done("recordings");
        };
        self.threads.push(thread::Builder::new().name("recordings".to_owned()).spawn(run)?);
        Ok(())
    }

    /// Ends the recordings, checks that all events were handled and accounted for, and returns a
    /// summary.
    pub(crate) fn end(self) -> String {
        let Self { ledger, counts, events, store, threads } = self;
        for thread in threads {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if catch_unwind(AssertUnwindSafe(|| thread.join())).is_ok_and(|ended| ended.is_err()) {
                ledger.fault(format!("{name} has panicked"));
            }
        }
        if let Err(error) = events.flush(PATIENCE) {
            ledger.fault(format!("recordings, at the end: {error}"));
        }
        let report = events.shutdown_timeout(PATIENCE);
        let stats = events.stats();
        let equal = |what: &str, theirs: u64, ours: u64| {
            if theirs != ours {
                ledger.fault(format!("recorder: {what}: {theirs} in the statistics, {ours} counted"));
            }
        };
        // A stopped recording tries to write each remaining event once. If a write fails, the
        // report is incomplete.
        let abandoned = stats.recordings.iter().any(|recording| recording.abandoned > 0);
        equal("incomplete", u64::from(!report.complete), u64::from(abandoned));
        equal("accepted", stats.bus.accepted, get(&counts.accepted));
        equal("full", stats.recorder.full, get(&counts.full));
        equal("closed", stats.recorder.closed, get(&counts.closed));
        let all = || stats.bus.watchers.iter().chain([&stats.bus.departed]);
        // A later write may have included the count of an event that was reported as lost.
        let mut carried = 0;
        let mut lost = get(&counts.full) + get(&counts.closed) + get(&counts.panicked);
        for watcher in all() {
            equal(&watcher.name, watcher.offered, watcher.delivered + watcher.dropped.total());
            lost += watcher.dropped.total();
        }
        for recording in &stats.recordings {
            equal(&recording.watcher.name, recording.watcher.delivered, recording.handled());
            lost +=
                recording.already_existed + recording.rejected + recording.exhausted + recording.abandoned;
            carried += recording.coalesced;
        }
        // Events that a stopped recording discards itself are counted, but not reported to the
        // hook.
        let reported = get(&counts.reported);
        equal(
            "losses passed to the hook",
            reported.max(lost.saturating_sub(stats.bus.departed.dropped.stopped)).min(lost + carried),
            reported,
        );
        if store.len() > STORED {
            ledger.fault(format!("the store holds {} events, and {STORED} are allowed", store.len()));
        }
        format!(
            "recorder: {} accepted, {} lost and reported, {} lines logged, {} stored",
            stats.bus.accepted,
            reported,
            get(&counts.lines),
            store.len()
        )
    }
}
