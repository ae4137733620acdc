//! Stores with asynchronous clients, behind `Blocking`, on several runtimes.

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use eventcast::sink::{AsyncEventSink, Blocking, SinkErrorKind, SinkOp, Stored, WriteOrder};
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, SinkError};
use futures::channel::oneshot;
use test_support::LONG;
use tokio::runtime::{Builder, Runtime};

use crate::support::{at_once, record};

/// A store in memory that awaits what `request` returns before it answers.
struct Remote<R> {
    store: MemorySink,
    request: R,
}

impl<R, F> Remote<R>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    fn new(request: R) -> (Self, MemorySink) {
        let store = MemorySink::new();
        (Self { store: store.clone(), request }, store)
    }
}

impl<R, F> AsyncEventSink for Remote<R>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        (self.request)().await;
        self.store.create(event)
    }

    async fn update(&self, event: &Event) -> Result<Event, SinkError> {
        (self.request)().await;
        self.store.update(event)
    }

    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        (self.request)().await;
        self.store.patch(event)
    }
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.reason = "Started".into();
    event
}

/// Records events about 40 pods, two about each, on this broadcaster.
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
    assert!(store.events().iter().all(|event| event.count == 2), "{}", store.table());
}

/// A request to a tokio runtime: it uses a timer, and another task.
async fn tokio_request() {
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::spawn(async {}).await.unwrap();
}

fn tokio_runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread().worker_threads(1), &mut Builder::new_current_thread()]
        .map(|builder| builder.enable_time().build().unwrap())
}

/// With one thread, the timers run only because the task awaits the shutdown.
#[test]
fn with_tokio_a_shutdown_that_is_awaited_loses_nothing() {
    for runtime in tokio_runtimes() {
        for workers in [1, 4] {
            let (sink, store) = Remote::new(tokio_request);
            let handle = runtime.handle().clone();
            let sink = Blocking::new(sink, move |future| handle.block_on(future));
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
fn with_tokio_on_threads_of_its_own_a_shutdown_may_block() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (sink, store) = Remote::new(tokio_request);
    let handle = runtime.handle().clone();
    let events = EventBroadcaster::new().unwrap();
    events.start_recording_to_sink(Blocking::new(sink, move |future| handle.block_on(future))).unwrap();
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
    events.start_recording_to_sink(Blocking::new(sink, |future| smol::block_on(future))).unwrap();
    record_pods(&events);
    assert!(smol::block_on(events.shutdown_async(LONG)).complete);
    assert_all_stored(&store);
}

#[test]
fn with_futures_nothing_is_lost() {
    // A client with a thread of its own.
    let (requests, received) = std::sync::mpsc::channel::<oneshot::Sender<()>>();
    let client =
        thread::spawn(move || received.into_iter().filter_map(|answer| answer.send(()).ok()).count());
    let (sink, store) = Remote::new(move || {
        let (answer, answered) = oneshot::channel();
        requests.send(answer).unwrap();
        async { answered.await.unwrap() }
    });
    let events = EventBroadcaster::new().unwrap();
    let sink = Blocking::new(sink, |future| futures::executor::block_on(future));
    events.start_recording_to_sink(sink).unwrap();
    record_pods(&events);
    assert!(events.shutdown().complete);
    assert_all_stored(&store);
    // The recording has dropped the sink, so the client has ended.
    assert!(client.join().unwrap() >= 40);
}

/// A store that rejects the first creation of every second event, as an admission webhook may that
/// starts at the same time.
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

/// Each event is in the store because a creation put it there, and the statistics say so. The
/// repeat carries the count of the event that was rejected, which is therefore no loss.
#[test]
fn an_event_that_was_rejected_is_created_by_its_repeat_and_counted_so() {
    let store = MemorySink::new();
    let sink = Gate { store: store.clone(), seen: Mutex::default() };
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let recording =
        events.start_recording_to_sink(Blocking::new(sink, |future| smol::block_on(future))).unwrap();
    for _ in 0..2 {
        (0..40).for_each(|pod| record(&events, &format!("web-{pod}"), "Started"));
        // An event and its repeat must not share a write.
        events.flush(LONG).unwrap();
    }
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.recreated, stats.coalesced), (40, 20, 20), "{stats}");
    assert_eq!(stats.lost(), 0, "{stats}");
    assert!(store.events().iter().all(|event| event.count == 2));
    assert_all_stored(&store);
}

/// Recordings never replace an event, so a sink need not be able to.
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
    let sinks: [Box<dyn EventSink>; 2] =
        [Box::new(Least), Box::new(Blocking::new(gate, |future| smol::block_on(future)))];
    for sink in sinks {
        let error = sink.update(&event("a")).unwrap_err();
        assert_eq!(error.to_string(), "rejected: this sink does not replace events");
        let answers = sink.apply(&mut [SinkOp::Update(event("a")), SinkOp::Create(event("b"))]);
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), SinkErrorKind::Rejected);
        assert_eq!(answers[1].as_ref().unwrap().name, "b");
    }
}

/// A store that answers by the name of the event: it panics, never answers, or echoes.
#[derive(Debug)]
struct ByName;

impl AsyncEventSink for ByName {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        smol::future::yield_now().await;
        match event.metadata.name.as_str() {
            "panic" => panic!("at this event"),
            "silence" => smol::future::pending().await,
            _ => Ok(event.clone()),
        }
    }

    /// Not an `async fn`, so it panics before there is a future.
    fn patch(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        assert_ne!(event.metadata.name, "panic", "before the future");
        self.create(event)
    }
}

#[test]
fn a_panic_in_a_batch_is_that_events_own() {
    let sink = Blocking::new(ByName, |future| smol::block_on(future));
    let answers = sink.apply(&mut [
        SinkOp::Create(event("a")),
        SinkOp::Create(event("panic")),
        SinkOp::Patch(event("panic")),
        SinkOp::Patch(event("b")),
    ]);
    assert_eq!(answers[0].as_ref().unwrap(), &Stored::from(event("a")));
    let texts = [1, 2].map(|at: usize| answers[at].as_ref().unwrap_err().to_string());
    assert_eq!(texts[0], "rejected: the sink panicked: at this event");
    assert!(texts[1].starts_with("rejected: the sink panicked: ") && texts[1].contains("before the future"));
    // The default of `patch` is `update`, whose default here is `create`.
    assert_eq!(answers[3].as_ref().unwrap(), &Stored::from(event("b")));
}

#[test]
fn a_panic_in_a_future_reaches_the_caller_and_a_recording_counts_it() {
    let sink = Arc::new(Blocking::new(ByName, |future| smol::block_on(future)));
    assert!(catch_unwind(AssertUnwindSafe(|| sink.create(&event("panic")))).is_err());
    assert_eq!(sink.create(&event("a")).unwrap(), event("a"));

    let (failing, store) = Remote::new(|| async { panic!("in the client") });
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let sink = Blocking::new(failing, |future| futures::executor::block_on(future));
    let recording = events.start_recording_to_sink(sink).unwrap();
    record(&events, "web-0", "Started");
    events.shutdown();
    let stats = recording.stats();
    assert_eq!((stats.rejected, stats.panics, store.len()), (1, 1, 0), "{stats}");
    let refusal = stats.last_refusal.unwrap();
    assert!(refusal.contains("in the client"), "{refusal}");
}

/// A function that polls a few times and then gives up, as one with a time limit does.
fn poll_twice(mut future: Pin<&mut (dyn Future<Output = ()> + Send)>) {
    smol::block_on(async {
        for _ in 0..2 {
            if smol::future::poll_once(future.as_mut()).await.is_some() {
                break;
            }
        }
    });
}

#[test]
fn an_operation_that_is_not_waited_for_may_be_tried_again() {
    let sink = Blocking::new(Arc::new(ByName), poll_twice);
    assert_eq!(sink.create(&event("a")).unwrap(), event("a"));
    let error = sink.create(&event("silence")).unwrap_err();
    assert_eq!(error.kind(), SinkErrorKind::Unavailable);
    assert_eq!(error.to_string(), "unavailable: the sink's future was dropped before it was ready");
    let mut batch = [SinkOp::Create(event("a")), SinkOp::Create(event("silence"))];
    let answers = sink.apply(&mut batch);
    // Nobody knows which of them were done.
    assert!(answers.len() == 2 && answers.iter().all(|answer| answer.as_ref().is_err()));
    assert_eq!(format!("{sink:?}"), "Blocking { sink: ByName, .. }");
}

/// A store that appends: it notes the count of each event that it gets.
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
}

#[test]
fn a_store_that_appends_gets_every_write_in_order() {
    let journal = Arc::new(Journal::default());
    let sink = Arc::new(Blocking::new(journal.clone(), |future| smol::block_on(future)));
    assert_eq!(sink.ttl(), Some(Duration::from_secs(5)));
    let events = EventBroadcaster::new().unwrap();
    let error = events.recording().workers(2).start(sink.clone()).unwrap_err();
    assert!(error.to_string().contains("1 thread with WriteOrder::Bus"), "{error}");
    let recording = events.start_recording_to_sink(sink).unwrap();
    for _ in 0..20 {
        record(&events, "web-0", "Started");
    }
    assert!(events.shutdown().complete);
    assert_eq!(*journal.0.lock().unwrap(), (1..=20).collect::<Vec<_>>());
    assert_eq!((recording.stats().written(), recording.stats().coalesced), (20, 0));

    let (other, _) = Remote::new(|| async {});
    let other = Blocking::new(other, |future| smol::block_on(future));
    assert_eq!((other.write_order(), other.ttl()), (WriteOrder::PerKey, None), "by default");
}
