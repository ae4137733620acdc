//! Groups of events: a part of the store that is slow or away holds up its own events only.

mod closed;
mod outages;
mod places;
mod refused;
mod room;
mod slow;
mod turns;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use eventcast::record::{Outage, RecordingBuilder};
use eventcast::sink::{SinkBatch, SinkCall, SinkMode, Stored};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster, EventSink, EventType, ObjectReference, RetryPolicy, SinkError};

use crate::support::{clock, until};

/// A sink that keeps the operations under way until the test answers them. The group of an event is
/// its namespace.
#[derive(Clone)]
struct Held {
    places: usize,
    /// The operations under way, by `namespace/object reason`, and the number of all so far.
    calls: Arc<Mutex<(BTreeMap<String, SinkCall>, u64)>>,
    /// Whether the test is over, and everything is stored at once.
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
            assert!(before.is_none(), "two operations of one event are under way");
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

    /// Returns how many operations of a namespace are under way.
    fn of(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        self.under_way().iter().filter(|name| name.starts_with(&prefix)).count()
    }

    fn take(&self, name: &str) -> SinkCall {
        self.calls.lock().unwrap().0.remove(name).unwrap_or_else(|| panic!("{name} is not under way"))
    }

    /// Answers that the event is stored.
    fn finish(&self, name: &str) {
        let call = self.take(name);
        let stored = Stored::from(call.event());
        call.answer(Ok(stored));
    }

    fn fail(&self, name: &str, error: SinkError) {
        self.take(name).answer(Err(error));
    }

    /// Waits until exactly these are under way.
    #[track_caller]
    fn wait_for(&self, expected: &[&str]) {
        until(|| self.under_way() == expected);
    }

    /// Stores what is under way, except events of these namespaces, until nothing else comes for
    /// them.
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
    /// The outages that the hook was told.
    outages: mpsc::Receiver<String>,
    /// The losses that the hook was told: the group, the reason and the number.
    losses: mpsc::Receiver<(String, String, u64)>,
}

const PAUSE: Duration = Duration::from_secs(10);

fn setup(places: usize, options: impl FnOnce(RecordingBuilder<'_>) -> RecordingBuilder<'_>) -> Setup {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .retry(RetryPolicy::default().jitter(eventcast::record::Jitter::Never))
        .on_loss(move |loss| {
            losses_tx.send((loss.group.to_owned(), loss.reason.to_string(), loss.count)).unwrap();
        })
        .build()
        .unwrap();
    let (tx, outages) = mpsc::channel();
    let on_outage = move |outage: &Outage<'_>| {
        let group = outage.group.map(|group| format!("{group}: ")).unwrap_or_default();
        let text = outage.cause.unwrap_or("works again");
        tx.send(format!("{group}{text}")).unwrap();
    };
    let sink = Held::new(places);
    let builder = events.recording().correlator(eventcast::CorrelatorOptions::default().spam_filter(None));
    let recording = options(builder.on_outage(on_outage)).start(sink.clone()).unwrap();
    Setup { clock, events, recording, sink, outages, losses }
}

impl Setup {
    /// Records an event about an object, given as `namespace/object`.
    #[track_caller]
    fn record(&self, object: &str) {
        let (namespace, name) = object.split_once('/').unwrap();
        let object = ObjectReference::new("Pod", name.to_owned()).in_namespace(namespace.to_owned());
        let recorder = self.events.recorder("tester");
        assert!(recorder.event(object, EventType::Normal, "Run", "it runs").is_accepted());
    }

    /// Answers that an operation failed, and waits until the recording knows.
    #[track_caller]
    fn fail(&self, name: &str, error: SinkError) {
        let before = self.recording.stats().last_failure;
        self.sink.fail(name, error);
        until(|| self.recording.stats().last_failure != before);
    }

    /// Records an event about an object, and stores it.
    #[track_caller]
    fn store(&self, object: &str) {
        let before = self.recording.stats();
        let stored = |stats: &eventcast::stats::RecordingStats| stats.created + stats.updated;
        self.record(object);
        let name = format!("{object} Run");
        until(|| self.sink.under_way().contains(&name));
        self.sink.finish(&name);
        until(|| stored(&self.recording.stats()) == stored(&before) + 1);
    }

    /// Waits until the recording has taken in this many events.
    #[track_caller]
    fn wait_until_offered(&self, events: u64) {
        until(|| self.recording.stats().watcher.offered == events);
    }
}

impl Drop for Setup {
    /// Stores what is left, so that nothing waits for the sink.
    fn drop(&mut self) {
        self.sink.is_over.store(true, Ordering::SeqCst);
        let calls = self.sink.calls.lock().map(|mut calls| std::mem::take(&mut calls.0)).unwrap_or_default();
        for call in calls.into_values() {
            let stored = Stored::from(call.event());
            call.answer(Ok(stored));
        }
    }
}
