//! Series, with which a recording counts events that have an event time.

mod keys;
mod options;
mod programs;
mod stores;
mod timers;
mod ttl;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::event::EventSeries;
use eventcast::record::{RecordingHandle, SeriesOptions};
use eventcast::sink::{MemorySinkOptions, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{
    Event, EventBroadcaster, EventSink, EventSource, MemorySink, ObjectReference, Recorder, SinkError,
    Timestamp,
};

use crate::support::{assert_balanced, at_once, clock, clocked, pod, until};

type Answer = dyn Fn(&Event) -> Result<(), SinkError> + Send + Sync;

/// A store that logs each call with the time in seconds, the verb, the object's name and the
/// series.
#[derive(Clone)]
struct Noting {
    store: MemorySink,
    began: Timestamp,
    clock: FakeClock,
    calls: Arc<Mutex<Vec<String>>>,
    answer: Arc<Answer>,
}

impl Noting {
    fn note(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let event = op.event();
        let seconds = Timestamp::from(self.clock.clock().now()).as_secs() - self.began.as_secs();
        let (minute, second) = (seconds / 60, seconds % 60);
        let verb = if matches!(op, SinkOp::Create(_)) { "create" } else { "patch" };
        let series =
            event.series().map_or_else(String::new, |EventSeries { count, last_observed_time, .. }| {
                let last = last_observed_time.unwrap().as_secs() - self.began.as_secs();
                format!(" x{count} {}:{:02}", last / 60, last % 60)
            });
        let call = format!("{minute}:{second:02} {verb} {}{series}", event.involved_object.name);
        let answer = (self.answer)(event).and_then(|()| op.apply_to(&self.store));
        // The call is logged last, because a test that waits for it may then read the store.
        self.calls.lock().unwrap().push(call);
        answer
    }
}

impl EventSink for Noting {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.note(&SinkOp::Create(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.note(&SinkOp::Patch(event.clone()))
    }

    fn ttl(&self) -> Option<Duration> {
        self.store.ttl()
    }
}

/// A recording with a clock that only the test advances.
struct Line {
    clock: FakeClock,
    events: EventBroadcaster,
    recording: RecordingHandle,
    recorder: Recorder,
    sink: Noting,
    recorded: u64,
}

fn line(options: SeriesOptions) -> Line {
    answering(options, |_| Ok(()))
}

fn answering(
    options: SeriesOptions,
    answer: impl Fn(&Event) -> Result<(), SinkError> + Send + Sync + 'static,
) -> Line {
    on(MemorySinkOptions::default().ttl(Duration::from_secs(7 * 24 * 3600)), options, answer)
}

fn on(
    store: MemorySinkOptions,
    options: SeriesOptions,
    answer: impl Fn(&Event) -> Result<(), SinkError> + Send + Sync + 'static,
) -> Line {
    let clock = clock();
    let sink = Noting {
        store: MemorySink::with_clock(store, clock.clock()).unwrap(),
        began: Timestamp::from(clock.clock().now()),
        clock: clock.clone(),
        calls: Arc::default(),
        answer: Arc::new(answer),
    };
    let events = clocked(&clock).event_time(true).retry(at_once()).build().unwrap();
    let recording = events.recording().series(options).start(sink.clone()).unwrap();
    let recorder = events.recorder(EventSource::from("web").on_host("web-7"));
    Line { clock, events, recording, recorder, sink, recorded: 0 }
}

impl Line {
    /// Sets the clock to this time after the start of the test.
    fn at(&self, minutes: u64, seconds: u64) {
        let now = Timestamp::from(self.clock.clock().now()).as_secs() - self.sink.began.as_secs();
        let at = i64::try_from(minutes * 60 + seconds).unwrap();
        self.clock.advance(Duration::from_secs(u64::try_from(at - now).unwrap()));
    }

    /// Advances the clock, and waits until this number of calls has been made in total.
    fn expect(&self, minutes: u64, seconds: u64, calls: usize) {
        self.at(minutes, seconds);
        until(|| self.calls().len() >= calls);
    }

    /// Records an event at this time, and waits until the recording has counted it.
    fn record(&mut self, minutes: u64, seconds: u64, name: &str) {
        self.record_about(minutes, seconds, pod(name), "message");
    }

    fn record_about(&mut self, minutes: u64, seconds: u64, object: ObjectReference, message: &str) {
        self.at(minutes, seconds);
        assert!(self.recorder.event(object, Normal, "Started", message.to_owned()).is_accepted());
        self.recorded += 1;
        until(|| self.recording.stats().watcher.delivered == self.recorded);
    }

    fn calls(&self) -> Vec<String> {
        self.sink.calls.lock().unwrap().clone()
    }

    /// Ends the recording and returns all calls. Checks that the statistics balance and that the
    /// store has every count.
    fn end(self) -> Vec<String> {
        let report = self.events.shutdown();
        assert!(report.complete);
        assert_balanced(&report.recordings[0]);
        let seen = |event: Event| u64::try_from(event.series().map_or(1, |series| series.count)).unwrap();
        let stored: u64 = self.sink.store.events().into_iter().map(seen).sum();
        assert_eq!(stored, self.recorded - report.recordings[0].rejected);
        self.calls()
    }
}
