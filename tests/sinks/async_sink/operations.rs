//! The operations of an `AsyncSink`. Several operations run at the same time, and each operation
//! can time out, panic and finish independently.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use eventcast::sink::{AsyncEventSink, AsyncSink, SinkBatch, SinkErrorKind, SinkMode, SinkOp, Stored};
use eventcast::{Event, EventBroadcaster, EventSink, SinkError};
use futures::channel::oneshot;
use test_support::{LONG, until, watched};
use tokio::sync::Semaphore;

use super::{Remote, Task, event, on_smol};
use crate::support::{at_once, record};

/// A store whose operations wait until the test answers each of them.
struct Asks(mpsc::Sender<(String, oneshot::Sender<()>)>);

impl AsyncEventSink for Asks {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let (answer, answered) = oneshot::channel();
        self.0.send((event.involved_object.name.to_string(), answer)).unwrap();
        answered.await.map_err(|_| SinkError::rejected("the test refuses"))?;
        Ok(event.clone())
    }

    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event).await
    }
}

#[test]
fn operations_are_under_way_together_and_end_in_any_order() {
    watched(|| {
        let (asks, asked) = mpsc::channel();
        let events = EventBroadcaster::new().unwrap();
        let recording = events.record_to(on_smol(Asks(asks))).unwrap();
        for pod in 0..5 {
            record(&events, &format!("web-{pod}"), "Started");
        }
        // All operations have begun, and no operation has been answered.
        let mut requests: Vec<_> = asked.iter().take(5).collect();
        requests.sort_by(|(a, _), (b, _)| a.cmp(b));
        // Answers the other operations in reverse order while the first operation is still under
        // way.
        for (done, (_, answer)) in (1..).zip(requests.drain(1..).rev()) {
            answer.send(()).unwrap();
            until(|| recording.stats().created == done);
        }
        let (name, answer) = requests.remove(0);
        assert_eq!(name, "web-0");
        answer.send(()).unwrap();
        assert!(events.shutdown().complete);
        assert_eq!(recording.stats().created, 5);
    });
}

#[test]
fn no_more_operations_are_under_way_than_allowed() {
    watched(|| {
        let permits = Arc::new(Semaphore::new(0));
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (gate, now, peak) = (permits.clone(), busy.clone(), most.clone());
        let (sink, store) = Remote::new(move || {
            let (gate, now, peak) = (gate.clone(), now.clone(), peak.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                now.fetch_sub(1, Ordering::SeqCst);
            }
        });
        let events = EventBroadcaster::new().unwrap();
        let recording = events.record_to(on_smol(sink).in_flight(3)).unwrap();
        for pod in 0..20 {
            record(&events, &format!("web-{pod}"), "Started");
        }
        // Three operations have begun. Each answer allows another operation to begin.
        for done in 0..20 {
            until(|| busy.load(Ordering::SeqCst) == 3.min(20 - done));
            permits.add_permits(1);
            until(|| recording.stats().created == done as u64 + 1);
        }
        events.flush(LONG).unwrap();
        assert_eq!((most.load(Ordering::SeqCst), store.len()), (3, 20));
    });
}

#[test]
fn at_least_one_operation_is_allowed() {
    let sink = on_smol(Remote::new(|| async {}).0);
    assert_eq!(sink.mode(), SinkMode::InFlight(16), "by default");
    assert_eq!(sink.in_flight(0).mode(), SinkMode::InFlight(1));
}

/// Sets a flag when dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Returns a store that does not respond to the first operation.
fn silent_once(is_dropped: &Arc<AtomicBool>) -> (impl AsyncEventSink, eventcast::MemorySink) {
    let (is_first, is_dropped) = (AtomicBool::new(true), is_dropped.clone());
    Remote::new(move || {
        let guard = is_first.swap(false, Ordering::SeqCst).then(|| Gone(is_dropped.clone()));
        async move {
            if let Some(_guard) = guard {
                std::future::pending::<()>().await;
            }
        }
    })
}

const SHORT: Duration = Duration::from_millis(30);

#[test]
fn an_operation_that_takes_too_long_is_dropped_and_may_be_tried_again() {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let sink = on_smol(silent_once(&is_dropped).0).timeout(SHORT);
    let error = sink.create(&event("a")).unwrap_err();
    assert!(is_dropped.load(Ordering::SeqCst), "the future is dropped before the answer");
    assert_eq!(error.to_string(), "group unavailable: no response within 30ms");
    assert_eq!(sink.create(&event("a")).unwrap().metadata.name, "a");

    // In a batch, only this operation fails.
    let is_dropped = Arc::new(AtomicBool::new(false));
    let sink = on_smol(silent_once(&is_dropped).0).timeout(SHORT);
    let ops = ["a", "b", "c"].map(|name| SinkOp::Create(event(name))).to_vec();
    let answers = SinkBatch::perform(ops.clone(), &sink);
    assert!(is_dropped.load(Ordering::SeqCst));
    let failed: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].error().kind(), SinkErrorKind::GroupUnavailable);
    assert!(ops.contains(failed[0].op()), "the event is returned");
}

#[test]
fn an_operation_that_took_too_long_frees_its_place() {
    watched(|| {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let (sink, store) = silent_once(&is_dropped);
        let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
        let sink = on_smol(sink).in_flight(1).timeout(SHORT);
        let recording = events.record_to(sink).unwrap();
        for pod in 0..3 {
            record(&events, &format!("web-{pod}"), "Started");
        }
        events.flush(LONG).unwrap();
        let stats = recording.stats();
        assert_eq!((store.len(), stats.created, stats.lost()), (3, 3, 0), "{stats}");
        assert!(stats.retried >= 1, "{stats}");
        assert!(events.shutdown().complete);
    });
}

#[test]
fn without_a_limit_an_operation_is_waited_for() {
    let (asks, asked) = mpsc::channel();
    let sink = on_smol(Asks(asks)).timeout(Duration::MAX);
    let waiting = thread::spawn(move || sink.create(&event("a")));
    let (_, answer) = asked.recv_timeout(LONG).unwrap();
    answer.send(()).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap(), event("a"));
    // With a limit of zero, only operations that finish immediately succeed.
    let sink = on_smol(ByName).timeout(Duration::ZERO);
    assert_eq!(sink.create(&event("quick")).unwrap(), event("quick"));
    assert_eq!(sink.create(&event("silence")).unwrap_err().kind(), SinkErrorKind::GroupUnavailable);
}

/// A store whose response depends on the event's name. The store panics, never responds, or echoes
/// the event.
#[derive(Debug)]
struct ByName;

impl AsyncEventSink for ByName {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        if event.metadata.name == "quick" {
            return Ok(event.clone());
        }
        smol::future::yield_now().await;
        match event.metadata.name.as_str() {
            "panic" => panic!("at this event"),
            "silence" => smol::future::pending().await,
            _ => Ok(event.clone()),
        }
    }

    /// This method is not an `async fn`, so it panics before a future exists.
    fn patch(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        assert_ne!(event.metadata.name, "panic", "before the future");
        self.create(event)
    }
}

#[test]
fn a_panic_in_a_batch_is_that_events_own() {
    let sink = on_smol(ByName);
    let ops = vec![
        SinkOp::Create(event("a")),
        SinkOp::Create(event("panic")),
        SinkOp::Patch(event("panic")),
        SinkOp::Patch(event("b")),
    ];
    let answers = SinkBatch::perform(ops.clone(), &sink);
    assert_eq!(answers[0].as_ref().unwrap(), &Stored::from(event("a")));
    assert_eq!(answers[3].as_ref().unwrap(), &Stored::from(event("b")));
    let failed = [1, 2].map(|at: usize| answers[at].as_ref().unwrap_err());
    assert_eq!([failed[0].op(), failed[1].op()], [&ops[1], &ops[2]]);
    let texts = failed.map(ToString::to_string);
    assert_eq!(texts[0], "rejected: the sink panicked: at this event");
    assert!(texts[1].starts_with("rejected: the sink panicked: ") && texts[1].contains("before the future"));
}

#[test]
fn a_panic_in_a_future_is_an_answer_and_a_recording_counts_it() {
    let sink = Arc::new(on_smol(ByName));
    let error = sink.create(&event("panic")).unwrap_err();
    assert_eq!(error.to_string(), "rejected: the sink panicked: at this event");
    assert_eq!(sink.create(&event("a")).unwrap(), event("a"));

    let (failing, store) = Remote::new(|| async { panic!("in the client") });
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let recording = events.record_to(on_smol(failing)).unwrap();
    record(&events, "web-0", "Started");
    events.shutdown();
    let stats = recording.stats();
    assert_eq!((stats.rejected, stats.panics, store.len()), (1, 1, 0), "{stats}");
    let refusal = stats.last_refusal.unwrap();
    assert!(refusal.contains("in the client"), "{refusal}");
}

/// Asserts that the sink responds even though its runtime drops every task, and that the operations
/// may be retried.
#[track_caller]
fn assert_dropped(spawn: impl Fn(Task) + Send + Sync + 'static) {
    let sink = AsyncSink::new(ByName, spawn);
    let error = sink.create(&event("silence")).unwrap_err();
    assert_eq!(error.to_string(), "group unavailable: the runtime dropped the operation");
    let ops = vec![SinkOp::Create(event("silence")), SinkOp::Patch(event("silence"))];
    let answers = SinkBatch::perform(ops.clone(), &sink);
    for (op, answer) in ops.iter().zip(answers) {
        let failed = answer.unwrap_err();
        let text = "group unavailable: the sink dropped the operation without an answer";
        assert_eq!((failed.to_string().as_str(), failed.op()), (text, op));
    }
}

fn poll_once(task: &mut Task) {
    assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn a_runtime_that_drops_tasks_answers_them() {
    watched(|| {
        assert_dropped(drop);
        assert_dropped(|mut task| poll_once(&mut task));
    });
}

#[test]
fn a_runtime_that_drops_tasks_on_its_own_thread_answers_them() {
    watched(|| {
        for polls in [false, true] {
            let (tasks, taken) = mpsc::channel::<Task>();
            let runtime = thread::spawn(move || {
                for mut task in taken {
                    if polls {
                        poll_once(&mut task);
                    }
                    // The caller is usually waiting by now.
                    thread::yield_now();
                    drop(task);
                }
            });
            assert_dropped(move |task| tasks.send(task).unwrap());
            runtime.join().unwrap();
        }
    });
}

#[test]
fn an_event_whose_task_was_dropped_is_written_again() {
    let (sink, store) = Remote::new(|| async {});
    let is_first = AtomicBool::new(true);
    let sink = AsyncSink::new(sink, move |task: Task| {
        if !is_first.swap(false, Ordering::SeqCst) {
            smol::spawn(task).detach();
        }
    });
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((store.len(), stats.created, stats.lost(), stats.panics), (1, 1, 0, 0), "{stats}");
}

#[test]
fn a_runtime_that_is_missing_panics_and_the_event_is_rejected() {
    let sink = Arc::new(AsyncSink::new(ByName, |_: Task| panic!("no runtime")));
    assert!(catch_unwind(AssertUnwindSafe(|| sink.create(&event("a")))).is_err());
    let ops = vec![SinkOp::Create(event("a")), SinkOp::Create(event("b"))];
    let answers = SinkBatch::perform(ops.clone(), &sink);
    for (op, answer) in ops.iter().zip(answers) {
        let failed = answer.unwrap_err();
        assert_eq!(
            (failed.to_string().as_str(), failed.op()),
            ("rejected: the sink panicked: no runtime", op)
        );
    }
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (0, 1, 1), "{stats}");
}

#[test]
fn its_own_methods_wait_for_the_answer() {
    let (sink, store) = Remote::new(smol::future::yield_now);
    let sink = on_smol(sink);
    let created = sink.create(&event("a")).unwrap();
    assert_eq!(store.get("default", "a"), Some(created.clone()));
    let taken = sink.create(&event("a")).unwrap_err();
    assert_eq!((taken.kind(), taken.stored()), (SinkErrorKind::AlreadyExists, Some(&created)));
    let mut again = created.clone();
    again.count = 2;
    assert_eq!(sink.patch(&again).unwrap().count, 2);
    assert_eq!(sink.patch(&event("b")).unwrap_err().kind(), SinkErrorKind::NotFound);
    let mut replaced = store.get("default", "a").unwrap();
    replaced.reason = "Stopped".into();
    assert_eq!(sink.update(&replaced).unwrap().reason, "Stopped");
    thread::scope(|scope| {
        for name in ["c", "d", "e", "f"] {
            let sink = &sink;
            scope.spawn(move || assert_eq!(sink.create(&event(name)).unwrap().metadata.name, name));
        }
    });
    assert_eq!(store.len(), 5);
}

#[test]
fn a_clone_shares_the_store() {
    let (sink, store) = Remote::new(|| async {});
    let sink = on_smol(sink);
    sink.clone().in_flight(2).create(&event("a")).unwrap();
    sink.create(&event("b")).unwrap();
    assert_eq!((store.len(), sink.mode()), (2, SinkMode::InFlight(16)));
    let shown = format!("{:?}", on_smol(ByName));
    assert_eq!(shown, "AsyncSink { sink: ByName, in_flight: 16, timeout: 30s, .. }");
}
