//! client-go: `tools/events/eventseries_test.go` and `event_broadcaster_test.go`. `series` in
//! `tests/record` has this library's own cases, and `docs/events-v1.md` all differences.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use eventcast::record::{RecordingHandle, SeriesOptions, SeriesUpdate};
use eventcast::testing::FakeClock;
use eventcast::{EventBroadcaster, EventSink, EventType, MemorySink, SinkError, Timestamp};
use test_support::watched;

use crate::support::{LONG, Op, TestSink, at_once, clock, pod, until};

/// A recording whose clock the test moves.
struct Rig {
    clock: FakeClock,
    events: EventBroadcaster,
    recording: RecordingHandle,
    recorded: u64,
}

fn as_client_go() -> SeriesOptions {
    SeriesOptions::default().update(SeriesUpdate::AsClientGo)
}

impl Rig {
    fn new(sink: impl EventSink + 'static, options: SeriesOptions) -> Self {
        let clock = clock();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .retry(at_once())
            .event_time(true)
            .build()
            .unwrap();
        let recording = events.recording().series(options).start(sink).unwrap();
        Self { clock, events, recording, recorded: 0 }
    }

    /// Records the event of Go's tests so much later, and waits until the recording has it. A flush
    /// would write the count.
    fn record(&mut self, later: Duration, action: &'static str) {
        self.advance(later);
        let recorder = self.events.recorder("eventTest");
        let object = pod("bar", "baz", ".spec.containers[1]");
        let related = pod("bar", "baz", ".spec.containers[0]");
        let draft = recorder.draft(&object, EventType::Normal, "test").action(action).related(&related);
        assert!(draft.message("some verbose message: 1").record().is_accepted());
        self.recorded += 1;
        until(|| self.recording.stats().watcher.delivered == self.recorded);
    }

    /// Moves the clock, once the recording waits for its next deadline.
    fn advance(&self, by: Duration) {
        if self.recorded > 0 {
            self.clock.wait_for_waiters(1);
        }
        self.clock.advance(by);
    }
}

/// Returns the verb of a call, and the count of the series.
fn call(op: &Op) -> String {
    match op {
        Op::Create(_) => "create".to_owned(),
        Op::Patch(event) => format!("patch {}", event.series().unwrap().count),
    }
}

/// Waits for the next call of the store.
#[track_caller]
fn next(ops: &Receiver<Op>) -> Op {
    ops.recv_timeout(LONG).unwrap()
}

/// Records the first two events, and waits until the store has both.
fn begin(rig: &mut Rig, ops: &Receiver<Op>) {
    for expected in ["create", "patch 2"] {
        rig.record(SECOND, "started");
        assert_eq!(call(&next(ops)), expected);
    }
}

/// Begins a series, and continues it until it has been refreshed twice.
fn begin_and_go_on(rig: &mut Rig, ops: &Receiver<Op>) {
    begin(rig, ops);
    for _ in 0..2 {
        for _ in 0..35 {
            rig.record(MINUTE, "started");
        }
        assert!(matches!(next(ops), Op::Patch(_)));
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// `TestEventSeriesf`.
#[test]
fn an_equal_event_makes_a_series_of_two_and_another_action_does_not() {
    watched(|| {
        let (sink, ops) = TestSink::obliging();
        let mut rig = Rig::new(sink, as_client_go());
        let ops = ["started", "started", "stopped"].map(|action| {
            rig.record(SECOND, action);
            next(&ops)
        });
        let [Op::Create(first), Op::Patch(repeat), Op::Create(other)] = &ops else { panic!("{ops:?}") };
        assert!(first.series().is_none() && other.series().is_none());
        assert_eq!((repeat.series().unwrap().count, &repeat.metadata.name), (2, &first.metadata.name));
        for op in &ops {
            assert!(op.event().event_time().is_some() && op.event().metadata.name.starts_with("foo."));
        }
    });
}

/// `TestFinishSeries`.
#[test]
fn a_series_that_is_silent_is_finished_with_one_patch() {
    watched(|| {
        let (sink, ops) = TestSink::obliging();
        let mut rig = Rig::new(sink, as_client_go());
        begin(&mut rig, &ops);
        for _ in 2..10 {
            rig.record(SECOND, "started");
        }
        let last = Timestamp::from(rig.clock.clock().now());
        // Difference: Go ends the series at the next multiple of six minutes.
        for _ in 0..6 {
            rig.advance(MINUTE);
        }
        let finished = next(&ops);
        let series = finished.event().series().unwrap();
        assert_eq!((series.count, series.last_observed_time), (10, Some(last)));
        rig.clock.advance(20 * MINUTE);
        assert!(rig.events.shutdown().complete);
        assert_eq!(ops.try_iter().count(), 0);
    });
}

/// `TestRefreshExistingEventSeries`.
#[test]
fn a_series_that_continues_is_refreshed_each_half_hour() {
    watched(|| {
        let (sink, ops) = TestSink::obliging();
        let mut rig = Rig::new(sink, as_client_go());
        begin_and_go_on(&mut rig, &ops);
        // Difference: Go loses the count at the end.
        rig.events.shutdown();
        assert_eq!(ops.try_iter().map(|op| call(&op)).collect::<Vec<_>>(), ["patch 72"]);
    });
}

/// `TestRefreshExistingEventSeries`, with an error.
#[test]
fn a_series_whose_refresh_is_refused_is_remembered() {
    watched(|| {
        let (sink, ops) = TestSink::new(
            |event| Ok(event.clone()),
            |event| match event.series() {
                Some(series) if series.count > 2 => Err(SinkError::rejected("RequestConstructionError")),
                _ => Ok(event.clone()),
            },
        );
        let mut rig = Rig::new(sink, as_client_go());
        begin_and_go_on(&mut rig, &ops);
        rig.events.shutdown();
        assert!(ops.try_iter().all(|op| matches!(op, Op::Patch(_))));
    });
}

/// `TestRecordEventToSink`.
#[test]
fn equal_events_are_one_stored_event_with_a_series() {
    watched(|| {
        let store = MemorySink::new();
        let mut rig = Rig::new(store.clone(), as_client_go());
        rig.record(SECOND, "started");
        rig.events.flush(LONG).unwrap();
        assert!(store.events()[0].series().is_none());
        rig.record(SECOND, "started");
        rig.events.flush(LONG).unwrap();
        let events = store.events();
        assert_eq!((events.len(), events[0].series().unwrap().count), (1, 2));
    });
}
