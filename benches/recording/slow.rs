//! Measures recordings to slow stores.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use eventcast::sink::{SinkBatch, SinkMode};
use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, EventSink, ObjectReference, OverflowPolicy, Recorded,
    Recorder, SinkError,
};
use eventcast_benches::recorded::pods;

use crate::ledger::Ledger;
use crate::row::{Figure, Load};
use crate::way::{LONG, record};

/// The pause before a refused event is recorded again.
const PAUSE: Duration = Duration::from_micros(20);

/// Records an event, retrying until the incoming queue has space.
pub(crate) fn record_all(recorder: &Recorder, object: &ObjectReference) {
    while record(recorder, object) != Recorded::Accepted {
        thread::sleep(PAUSE);
    }
}

/// Measures a burst of repeats for each object with a store that handles eight requests at a time,
/// each in 5 ms, as an API server might.
pub(crate) fn store(load: &Load) -> Vec<Figure> {
    /// The number of events per object.
    const EACH: u64 = 100;
    let objects = load.events(100_000) / EACH;
    let (events, pods) = (objects * EACH, pods(objects));
    let ledger = Arc::new(Ledger::with_pause(Duration::from_millis(5)));
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let recording = broadcaster.recording().workers(8).overflow(OverflowPolicy::Wait);
    let recording = recording.queue_capacity(events as usize);
    let recording = recording.correlator(CorrelatorOptions::default().spam_filter(None));
    let recording = recording.start(ledger.clone()).expect("the system gives threads");
    let recorder = broadcaster.recorder("kubelet");
    let start = Instant::now();
    for number in 0..events {
        record_all(&recorder, &pods[(number % objects) as usize]);
    }
    broadcaster.flush(LONG).expect("the store answers");
    let elapsed = start.elapsed();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated), (objects, events - objects), "{stats}");
    let entries = ledger.checked(&pods, |_| EACH);
    let requests: u64 = entries.iter().map(|entry| entry.requests).sum();
    let most = entries.iter().map(|entry| entry.requests).max().unwrap_or_default();
    vec![
        Figure::new("store of 5 ms, 8 at once, until all is stored", elapsed.as_secs_f64(), "s"),
        Figure::new("store of 5 ms, requests for an object", requests as f64 / objects as f64, "requests"),
        Figure::new("store of 5 ms, most requests for an object", most as f64, "requests"),
    ]
}

/// A sink in which each call takes a millisecond, regardless of the number of operations.
struct PerCall(Arc<Ledger>);

impl PerCall {
    fn wait() {
        thread::sleep(Duration::from_millis(1));
    }
}

impl EventSink for PerCall {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Self::wait();
        self.0.create(event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        Self::wait();
        self.0.patch(event)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        Self::wait();
        self.0.submit(batch);
    }
}

/// The number of keys other than the hot key.
const OTHERS: u64 = 10_000;

/// Measures how many events per second a recording handles if every second event has the same key,
/// and how many events it handles if no key recurs soon.
pub(crate) fn hot_key(load: &Load) -> Vec<Figure> {
    let length = if load.quick { Duration::from_millis(50) } else { Duration::from_secs(2) };
    let (hot, none) = (rate(length, true), rate(length, false));
    vec![
        Figure::new("hot key, sink of 1 ms a call", hot, "events/s"),
        Figure::new("the same without the hot key", none, "events/s"),
        Figure::new("hot key by none", hot / none, "times"),
    ]
}

/// Records events for the given time and returns the number of events stored per second.
fn rate(length: Duration, has_hot_key: bool) -> f64 {
    let pods = pods(OTHERS + 1);
    let (hot, others) = pods.split_last().expect("there is one more");
    let ledger = Arc::new(Ledger::default());
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let options = CorrelatorOptions::default().spam_filter(None).cache_size(2 * pods.len());
    let recording = broadcaster.recording().overflow(OverflowPolicy::Wait).correlator(options);
    let recording = recording.start(PerCall(ledger.clone())).expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let mut next_others = others.iter().cycle();
    let (mut events, mut of_hot) = (0_u64, 0);
    let start = Instant::now();
    while start.elapsed() < length {
        if has_hot_key {
            record_all(&recorder, hot);
            of_hot += 1;
        }
        record_all(&recorder, next_others.next().expect("they begin again"));
        events += 1 + u64::from(has_hot_key);
    }
    broadcaster.flush(LONG).expect("the store answers");
    let elapsed = start.elapsed();
    let stats = recording.stats();
    assert_eq!((stats.handled(), stats.lost()), (events, 0), "{stats}");
    let of_others = events - of_hot;
    let of_other = |at| (of_others + OTHERS - 1 - at) / OTHERS;
    ledger.checked(&pods, |at| if at == OTHERS { of_hot } else { of_other(at) });
    events as f64 / elapsed.as_secs_f64()
}
