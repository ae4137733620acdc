//! client-go: `tools/record/event_test.go`, how often a write is tried.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use eventcast::sink::SinkErrorKind;
use eventcast::stats::RecordingStats;
use eventcast::{EventBroadcaster, EventType, ObjectReference, RetryPolicy, SinkError};
use test_support::watched;

use crate::support::{LONG, Op, TestSink, at_once, clock};

/// Records one event to a store that answers its attempts like this. Returns the number of
/// attempts, and how many events were lost after the last one.
fn attempts(answer: impl Fn(usize) -> Result<(), SinkError> + Send + Sync + 'static) -> (usize, u64) {
    let events = EventBroadcaster::builder().clock(clock().clock()).retry(at_once()).build().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let on_create =
        move |event: &_| answer(count.fetch_add(1, Ordering::SeqCst) + 1).map(|()| Clone::clone(event));
    let (sink, _ops) = TestSink::new(on_create, |event| Ok(event.clone()));
    let recording = events.record_to(sink).unwrap();
    assert!(events.recorder("t").normal(ObjectReference::new("Pod", "a"), "R", "m").is_accepted());
    events.flush(LONG).unwrap();
    (calls.load(Ordering::SeqCst), recording.stats().exhausted)
}

/// `TestWriteEventError`.
#[test]
fn an_answer_decides_how_often_a_write_is_tried() {
    watched(|| {
        assert_eq!(attempts(|_| Err(SinkError::rejected("RequestConstructionError"))), (1, 0));
        assert_eq!(attempts(|_| Err(SinkError::rejected("StatusError"))), (1, 0));
        let weird = || Err(SinkError::retry("A weird error"));
        assert_eq!(attempts(move |n| if n < 2 { weird() } else { Ok(()) }), (2, 0));
        // An error that does not end.
        assert_eq!(attempts(move |_| weird()), (12, 1));
    });
}

/// `TestUpdateExpiredEvent`.
#[test]
fn a_repeat_of_an_expired_event_is_created_without_a_resource_version() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap();
    let (sink, ops) = TestSink::new(
        |event| {
            let mut event = event.clone();
            event.metadata.set_resource_version("updated-resource-version");
            Ok(event)
        },
        |_| Err(SinkError::new(SinkErrorKind::NotFound, "expired")),
    );
    events.record_to(sink).unwrap();
    for _ in 0..2 {
        clock.advance(Duration::from_secs(1));
        assert!(events.recorder("t").normal(ObjectReference::new("Pod", "a"), "R", "m").is_accepted());
        events.flush(LONG).unwrap();
    }
    let ops: Vec<_> = ops.try_iter().collect();
    let [Op::Create(_), Op::Patch(patched), Op::Create(again)] = &ops[..] else { panic!("{ops:?}") };
    assert_eq!(patched.metadata.resource_version(), "updated-resource-version");
    assert_eq!((again.metadata.resource_version().as_str(), again.count), ("", 2));
}

/// `TestLotsOfEvents`.
#[test]
fn a_thousand_events_are_each_written_at_the_fifth_attempt() {
    let events = EventBroadcaster::builder().retry(at_once()).build().unwrap();
    let tries: Arc<[AtomicUsize]> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
    let (tried, logged) = (tries.clone(), Arc::new(AtomicUsize::new(0)));
    let count = logged.clone();
    let (sink, _ops) = TestSink::new(
        move |event| {
            let number: usize = event.message.parse().unwrap();
            let attempt = tried[number].fetch_add(1, Ordering::SeqCst) + 1;
            if attempt < 5 { Err(SinkError::retry("fake error")) } else { Ok(event.clone()) }
        },
        |event| Ok(event.clone()),
    );
    let recording = events.record_to(sink).unwrap();
    events.log_to(move |_| _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
    let recorder = &events.recorder("eventTest");
    std::thread::scope(|scope| {
        for part in 0..10 {
            scope.spawn(move || {
                for number in part * 100..(part + 1) * 100 {
                    let object = ObjectReference::new("Pod", format!("foo-{number}")).in_namespace("baz");
                    let (reason, message) = (format!("Reason-{number}"), format_args!("{number}"));
                    assert!(recorder.event(object, EventType::Normal, reason, message).is_accepted());
                }
            });
        }
    });
    events.flush(LONG).unwrap();
    assert_eq!((recording.stats().created, logged.load(Ordering::SeqCst)), (1000, 1000));
    assert!(tries.iter().all(|tries| tries.load(Ordering::SeqCst) == 5));
}

/// Ends a recording whose store refuses an event: before the first attempt, or in the pause after
/// it. Returns the number of attempts and what the recording counted.
fn ended(in_the_pause: bool) -> (usize, RecordingStats) {
    let clock = clock();
    let retry = RetryPolicy::default().delay(Duration::from_secs(60));
    let events = EventBroadcaster::builder().clock(clock.clock()).retry(retry).build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let (begin, goes_on) = (Mutex::new(begin), Mutex::new(goes_on));
    let (sink, ops) = TestSink::new(
        move |event| {
            begin.lock().unwrap().send(()).unwrap();
            if event.reason == "Refused" {
                return Err(SinkError::retry("UnexpectedObjectError"));
            }
            assert!(goes_on.lock().unwrap().recv().is_err());
            Ok(event.clone())
        },
        |event| Ok(event.clone()),
    );
    events.record_to(sink).unwrap();
    let record = |reason| {
        let object = ObjectReference::new("Pod", "a");
        assert!(events.recorder("t").normal(object, reason, "m").is_accepted());
    };
    if in_the_pause {
        record("Refused");
        begun.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
    } else {
        // The sink is still at the first event when the recording ends.
        record("Accepted");
        begun.recv_timeout(LONG).unwrap();
        record("Refused");
        events.close();
    }
    drop(go_on);
    let stats = events.shutdown().recordings.remove(0);
    (ops.try_iter().filter(|op| op.event().reason == "Refused").count(), stats)
}

/// `TestCancelEvent`.
#[test]
fn a_shutdown_ends_the_attempts_and_their_pauses() {
    watched(|| {
        let (attempts, stats) = ended(false);
        assert_eq!((attempts, stats.created, stats.handled()), (1, 1, 2));
        // Difference: Go returns from its pause without another attempt. Here there is a last one,
        // because the store may have become available in the pause.
        let (attempts, stats) = ended(true);
        assert_eq!((attempts, stats.created, stats.handled()), (2, 0, 1));
    });
}
