//! Groups of events. A slow or unavailable part of the store delays only the events in its own
//! group.

mod closed;
mod outages;
mod places;
mod refused;
mod share;
mod slow;
mod turns;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use eventcast::record::{EventBroadcasterBuilder, Outage, RecordingBuilder};
use eventcast::sink::{SinkBatch, SinkCall, SinkErrorKind, SinkMode, Stored};
use eventcast::stats::RecordingStats;
use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster, EventSink, SinkError};

use crate::support::{LONG, clock, clocked, every_ten_seconds, pod, until, with_losses};

use super::{PAUSE, without_budget};

/// A sink that holds each operation until the test answers it. An event's group is its namespace.
#[derive(Clone)]
struct Held {
    places: usize,
    /// The operations under way, keyed by `namespace/object reason`, and the number of operations
    /// so far.
    calls: Arc<Mutex<(BTreeMap<String, SinkCall>, u64)>>,
    /// Whether the test is over, in which case everything is stored immediately.
    is_over: Arc<AtomicBool>,
}

fn name_of(event: &Event) -> String {
    let object = &event.involved_object;
    format!("{}/{} {}", object.namespace, object.name, event.reason)
}

impl EventSink for Held {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(event.clone())
    }

    fn mode(&self) -> SinkMode {
        SinkMode::InFlight(self.places)
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        &event.involved_object.namespace
    }

    fn submit(&self, batch: SinkBatch) {
        let mut calls = self.calls.lock().unwrap();
        if self.is_over.load(Ordering::SeqCst) {
            return batch.answer_each(|op| Ok(Stored::from(op.event())));
        }
        for call in batch {
            calls.1 += 1;
            let before = calls.0.insert(name_of(call.event()), call);
            assert!(before.is_none(), "two operations on one event are under way");
        }
    }
}

impl Held {
    fn new(places: usize) -> Self {
        Self { places, calls: Arc::default(), is_over: Arc::default() }
    }

    /// Returns the operations that are under way.
    fn under_way(&self) -> Vec<String> {
        self.calls.lock().unwrap().0.keys().cloned().collect()
    }

    /// Returns the number of operations under way in a namespace.
    fn of(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        self.under_way().iter().filter(|name| name.starts_with(&prefix)).count()
    }

    fn take(&self, name: &str) -> SinkCall {
        self.calls.lock().unwrap().0.remove(name).unwrap_or_else(|| panic!("{name} is not under way"))
    }

    /// Answers an operation with the event as stored.
    fn finish(&self, name: &str) {
        let call = self.take(name);
        let stored = Stored::from(call.event());
        call.answer(Ok(stored));
    }

    fn fail(&self, name: &str, error: SinkError) {
        self.take(name).answer(Err(error));
    }

    /// Waits until exactly these operations are under way.
    #[track_caller]
    fn wait_for(&self, expected: &[&str]) {
        until(|| self.under_way() == expected);
    }

    /// Stores the events of all operations under way outside these namespaces, and returns the
    /// number of events stored.
    fn store_all_but(&self, namespaces: &[&str]) -> usize {
        let is_other = |name: &&String| !namespaces.iter().any(|held| name.starts_with(&format!("{held}/")));
        let others: Vec<String> = self.under_way().iter().filter(is_other).cloned().collect();
        for name in &others {
            self.finish(name);
        }
        others.len()
    }
}

/// A recording with a sink whose operations the test answers.
struct Setup {
    clock: FakeClock,
    events: EventBroadcaster,
    recording: eventcast::record::RecordingHandle,
    sink: Held,
    /// The reported outages.
    outages: mpsc::Receiver<String>,
    /// The losses reported to the hook, each with its group, its reason and the number of events.
    losses: mpsc::Receiver<(String, String, u64)>,
}

fn setup(places: usize, options: impl FnOnce(RecordingBuilder<'_>) -> RecordingBuilder<'_>) -> Setup {
    let clock = clock();
    setup_on(clocked(&clock).retry(every_ten_seconds()), clock, places, options)
}

/// Sets up a recording on a broadcaster built with this builder, which may use a different clock.
fn setup_on(
    builder: EventBroadcasterBuilder,
    clock: FakeClock,
    places: usize,
    options: impl FnOnce(RecordingBuilder<'_>) -> RecordingBuilder<'_>,
) -> Setup {
    let (events, losses) =
        with_losses(builder, |loss| (loss.group.to_owned(), loss.reason.to_string(), loss.count));
    let (tx, outages) = mpsc::channel();
    let on_outage = move |outage: &Outage<'_>| {
        let group = outage.group.map(|group| format!("{group}: ")).unwrap_or_default();
        let text = outage.cause.unwrap_or("works again");
        tx.send(format!("{group}{text}")).unwrap();
    };
    let sink = Held::new(places);
    let builder = events.recording().correlator(without_budget());
    let recording = options(builder.on_outage(on_outage)).start(sink.clone()).unwrap();
    Setup { clock, events, recording, sink, outages, losses }
}

/// Returns the error for a group that does not respond.
fn no_answer() -> SinkError {
    SinkError::new(SinkErrorKind::GroupUnavailable, "no response within 30s")
}

/// Returns the error for a group that the sink is not allowed to write to.
fn forbidden() -> SinkError {
    SinkError::new(SinkErrorKind::Forbidden, "403: cannot create resource \"events\"")
}

impl Setup {
    /// Records an event about an object, given as `namespace/object`.
    #[track_caller]
    fn record(&self, object: &str) {
        let (namespace, name) = object.split_once('/').unwrap();
        let object = pod(name).in_namespace(namespace.to_owned());
        assert!(self.events.recorder("tester").normal(object, "Run", "it runs").is_accepted());
    }

    /// Records one event for each of these object numbers.
    #[track_caller]
    fn record_all(&self, namespace: &str, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.record(&format!("{namespace}/{number}")));
    }

    /// Answers an operation with an error, and waits until the recording has received the error.
    #[track_caller]
    fn fail(&self, name: &str, error: SinkError) {
        let before = self.stats().last_failure;
        self.sink.fail(name, error);
        until(|| self.stats().last_failure != before);
    }

    /// Records an event about an object, and fails its operation, which must be the only one under
    /// way.
    #[track_caller]
    fn record_failing(&self, object: &str, error: SinkError) {
        let name = format!("{object} Run");
        self.record(object);
        self.sink.wait_for(&[&name]);
        self.fail(&name, error);
    }

    /// Records an event about each of these objects in turn, and stores each event.
    #[track_caller]
    fn store_all(&self, objects: &[&str]) {
        for object in objects {
            self.store(object);
        }
    }

    /// Records an event about an object, and stores it.
    #[track_caller]
    fn store(&self, object: &str) {
        let stored = || self.stats().created + self.stats().updated;
        let before = stored();
        self.record(object);
        let name = format!("{object} Run");
        until(|| self.sink.under_way().contains(&name));
        self.sink.finish(&name);
        until(|| stored() == before + 1);
    }

    /// Advances the clock and stores each operation that begins, until the condition holds.
    #[track_caller]
    fn store_until(&self, done: impl Fn(&RecordingStats) -> bool) {
        until(|| {
            self.clock.advance(PAUSE);
            self.sink.store_all_but(&[]);
            done(&self.stats())
        });
    }

    fn stats(&self) -> RecordingStats {
        self.recording.stats()
    }

    /// Returns the next report of an outage.
    #[track_caller]
    fn outage(&self) -> String {
        self.outages.recv_timeout(LONG).unwrap()
    }

    /// Returns the names of the degraded groups, sorted.
    fn degraded(&self) -> Vec<String> {
        let mut names: Vec<_> = self.stats().degraded_groups.into_iter().map(|group| group.group).collect();
        names.sort();
        names
    }

    /// Waits until the recording is asleep, then advances the clock.
    #[track_caller]
    fn pass(&self, time: Duration) {
        self.clock.wait_for_waiters(1);
        self.clock.advance(time);
    }

    /// Waits for the only operation under way, and returns its name.
    #[track_caller]
    fn probe(&self) -> String {
        until(|| self.sink.under_way().len() == 1);
        self.sink.under_way().remove(0)
    }

    /// Advances the clock to the next probe, and fails that probe.
    #[track_caller]
    fn fail_a_probe(&self, error: SinkError) {
        self.pass(PAUSE);
        self.fail(&self.probe(), error);
        until(|| self.sink.under_way().is_empty());
    }

    /// Waits until the recording has been offered this number of events.
    #[track_caller]
    fn wait_until_offered(&self, events: u64) {
        until(|| self.stats().watcher.offered == events);
    }
}

impl Drop for Setup {
    /// Stores the remaining events so that nothing is left waiting for the sink.
    fn drop(&mut self) {
        self.sink.is_over.store(true, Ordering::SeqCst);
        let calls = self.sink.calls.lock().map(|mut calls| std::mem::take(&mut calls.0)).unwrap_or_default();
        for call in calls.into_values() {
            let stored = Stored::from(call.event());
            call.answer(Ok(stored));
        }
    }
}
