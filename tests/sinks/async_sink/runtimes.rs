//! Recordings to a store that is wrapped in an `AsyncSink`, on each runtime.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::sink::{AsyncEventSink, AsyncSink, SinkBatch, SinkErrorKind, SinkOp, WriteOrder};
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, SinkError};
use futures::channel::oneshot;
use test_support::LONG;
use tokio::runtime::{Builder, Runtime};

use super::{Remote, Task, event, on_smol};
use crate::support::{at_once, record};

/// Records two events about each of 40 pods.
fn record_pods(events: &EventBroadcaster) {
    for _ in 0..2 {
        for pod in 0..40 {
            record(events, &format!("web-{pod}"), "Started");
        }
    }
}

#[track_caller]
fn assert_all_stored(store: &MemorySink) {
    assert_eq!(store.len(), 40);
    assert!(store.events().iter().all(|event| event.count == 2), "{:?}", store.events());
}

/// A request that runs on a tokio runtime and uses a timer and another task.
async fn tokio_request() {
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::spawn(async {}).await.unwrap();
}

fn tokio_runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread().worker_threads(1), &mut Builder::new_current_thread()]
        .map(|builder| builder.enable_time().build().unwrap())
}

/// Returns a function that spawns tasks on this runtime.
fn spawn_on(runtime: &Runtime) -> impl Fn(Task) + Send + Sync + 'static {
    let handle = runtime.handle().clone();
    move |operation| {
        handle.spawn(operation);
    }
}

/// On a single-threaded runtime, the requests run only because the task awaits the shutdown.
#[test]
fn with_tokio_a_shutdown_that_is_awaited_loses_nothing() {
    for runtime in tokio_runtimes() {
        for workers in [1, 4] {
            let (sink, store) = Remote::new(tokio_request);
            let sink = AsyncSink::new(sink, spawn_on(&runtime));
            runtime.block_on(async {
                let events = EventBroadcaster::new().unwrap();
                let recording = events.recording().workers(workers).start(sink).unwrap();
                record_pods(&events);
                let report = events.shutdown_async(LONG).await;
                assert!(report.complete, "{report}");
                assert_eq!(recording.stats().handled(), 80);
            });
            assert_all_stored(&store);
        }
    }
}

#[test]
fn with_tokio_on_its_own_threads_a_shutdown_may_block() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (sink, store) = Remote::new(tokio_request);
    let events = EventBroadcaster::new().unwrap();
    events.record_to(AsyncSink::new(sink, spawn_on(&runtime))).unwrap();
    record_pods(&events);
    assert!(events.shutdown().complete);
    assert_all_stored(&store);
}

#[test]
fn with_smol_nothing_is_lost() {
    let (sink, store) = Remote::new(|| async {
        smol::Timer::after(Duration::from_millis(1)).await;
        smol::spawn(async {}).await;
    });
    let events = EventBroadcaster::new().unwrap();
    events.record_to(on_smol(sink)).unwrap();
    record_pods(&events);
    assert!(smol::block_on(events.shutdown_async(LONG)).complete);
    assert_all_stored(&store);
}

/// Runs each task on its own thread, which is the simplest possible runtime.
fn spawn_thread(operation: Task) {
    thread::spawn(|| futures::executor::block_on(operation));
}

#[test]
fn with_futures_nothing_is_lost() {
    // The client has its own thread.
    let (requests, received) = mpsc::channel::<oneshot::Sender<()>>();
    let client =
        thread::spawn(move || received.into_iter().filter_map(|answer| answer.send(()).ok()).count());
    let (sink, store) = Remote::new(move || {
        let (answer, answered) = oneshot::channel();
        requests.send(answer).unwrap();
        async { answered.await.unwrap() }
    });
    let events = EventBroadcaster::new().unwrap();
    events.record_to(AsyncSink::new(sink, spawn_thread)).unwrap();
    record_pods(&events);
    assert!(events.shutdown().complete);
    assert_all_stored(&store);
    // The recording and its tasks have dropped the sink, so the client thread has ended.
    assert!(client.join().unwrap() >= 40);
}

/// A store that rejects the first creation of every second event, like an admission webhook that is
/// starting up.
struct Gate {
    store: MemorySink,
    seen: Mutex<BTreeSet<String>>,
}

impl AsyncEventSink for Gate {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let object = event.involved_object.name.to_string();
        let is_odd = object.ends_with(['1', '3', '5', '7', '9']);
        if self.seen.lock().unwrap().insert(object) && is_odd {
            return Err(SinkError::rejected("not now"));
        }
        self.store.create(event)
    }

    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.store.patch(event)
    }
}

/// Each event is in the store because a create operation put it there, and the statistics show
/// this. The repeat carries the rejected event's count, so the rejected event is not a loss.
#[test]
fn an_event_that_was_rejected_is_created_by_its_repeat_and_counted_so() {
    let store = MemorySink::new();
    let sink = Gate { store: store.clone(), seen: Mutex::default() };
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let recording = events.record_to(on_smol(sink)).unwrap();
    for _ in 0..2 {
        (0..40).for_each(|pod| record(&events, &format!("web-{pod}"), "Started"));
        // Prevents an event and its repeat from sharing a write.
        events.flush(LONG).unwrap();
    }
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.recreated, stats.coalesced), (40, 20, 20), "{stats}");
    assert_eq!(stats.lost(), 0, "{stats}");
    assert!(store.events().iter().all(|event| event.count == 2));
    assert_all_stored(&store);
}

/// Recordings never replace an event, so a sink does not have to support updates.
#[test]
fn a_sink_without_an_update_rejects_one() {
    struct Least;

    impl EventSink for Least {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }

        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
    }

    let gate = Gate { store: MemorySink::new(), seen: Mutex::default() };
    let sinks: [Box<dyn EventSink>; 2] = [Box::new(Least), Box::new(on_smol(gate))];
    for sink in sinks {
        let error = sink.update(&event("a")).unwrap_err();
        assert_eq!(error.to_string(), "rejected: this sink does not replace events");
        let ops = vec![SinkOp::Update(event("a")), SinkOp::Create(event("b"))];
        let answers = SinkBatch::perform(ops.clone(), &sink);
        let failed = answers[0].as_ref().unwrap_err();
        assert_eq!((failed.error().kind(), failed.op()), (SinkErrorKind::Rejected, &ops[0]));
        assert_eq!(answers[1].as_ref().unwrap().name, "b");
    }
}

/// An append-only store that records the count of each event that it receives.
#[derive(Default)]
struct Journal(Mutex<Vec<i32>>);

impl AsyncEventSink for Journal {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        smol::future::yield_now().await;
        self.0.lock().unwrap().push(event.count);
        Ok(event.clone())
    }

    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event).await
    }

    fn write_order(&self) -> WriteOrder {
        WriteOrder::Bus
    }

    fn ttl(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    fn refresh_every(&self) -> Option<Duration> {
        None
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        &event.metadata.namespace
    }
}

#[test]
fn a_store_that_appends_gets_every_write_in_order() {
    let journal = Arc::new(Journal::default());
    let sink = Arc::new(on_smol(journal.clone()));
    let events = EventBroadcaster::new().unwrap();
    let error = events.recording().workers(2).start(sink.clone()).unwrap_err();
    assert!(error.to_string().contains("1 thread with WriteOrder::Bus"), "{error}");
    let recording = events.record_to(sink).unwrap();
    for _ in 0..20 {
        record(&events, "web-0", "Started");
    }
    assert!(events.shutdown().complete);
    assert_eq!(*journal.0.lock().unwrap(), (1..=20).collect::<Vec<_>>());
    assert_eq!((recording.stats().written(), recording.stats().coalesced), (20, 0));
}

#[test]
fn a_store_describes_itself_through_the_sink() {
    let mut event = event("a");
    event.metadata.namespace = "shop".into();
    let sink = on_smol(Arc::new(Journal::default()));
    assert_eq!((sink.write_order(), sink.ttl()), (WriteOrder::Bus, Some(Duration::from_secs(5))));
    assert_eq!((sink.refresh_every(), sink.group(&event)), (None, "shop"));
    let other = on_smol(Remote::new(|| async {}).0);
    assert_eq!((other.write_order(), other.ttl()), (WriteOrder::PerKey, None), "by default");
    assert_eq!((other.refresh_every(), other.group(&event)), (Some(Duration::from_secs(1800)), ""));
}
