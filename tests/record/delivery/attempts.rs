//! The number of attempts for each event, and the pauses between attempts.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::sink::SinkErrorKind;
use eventcast::{ObjectReference, RetryPolicy, SinkError, Timestamp};

use crate::support::{
    LONG, Scripted, assert_balanced, at_once, clock, clocked, logged, record, short, tried, with_losses,
};

use super::{PAUSE, broadcaster, reason_of, retry, with_policy};

/// client-go's `TestWriteEventError`, extended with the errors that only this library has.
#[test]
fn each_error_has_its_number_of_attempts() {
    type Make = fn() -> SinkError;
    let cases: [(Make, usize, LossReason); 5] = [
        (|| SinkError::rejected("cannot be built"), 1, LossReason::Rejected),
        (|| SinkError::new(SinkErrorKind::NotFound, "no such namespace"), 1, LossReason::Rejected),
        // The recording tries once more with another name.
        (|| SinkError::new(SinkErrorKind::AlreadyExists, "exists"), 2, LossReason::AlreadyExists),
        (|| SinkError::retry("no route to host"), 12, LossReason::Exhausted),
        (|| SinkError::retry("busy").with_retry_after(Duration::ZERO), 12, LossReason::Exhausted),
    ];
    for (error, attempts, reason) in cases {
        let clock = clock();
        let (events, losses) = with_losses(clocked(&clock).retry(at_once()), |loss| {
            let cause = loss.cause.unwrap().downcast_ref::<SinkError>().unwrap().kind();
            (loss.reason, loss.place.to_owned(), loss.count, loss.events[0].reason.clone(), cause)
        });
        let (sink, _calls) = Scripted::new(&clock, move |_, _| Err(error()));
        let recording = events.record_to(sink.clone()).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();

        assert_eq!(sink.calls().len(), attempts, "{}", error());
        let names: HashSet<String> = sink.names().into_iter().collect();
        assert_eq!(names.len(), if reason == LossReason::AlreadyExists { 2 } else { 1 });
        let stats = recording.stats();
        assert_balanced(&stats);
        let outcome = match reason {
            LossReason::Rejected => stats.rejected,
            LossReason::AlreadyExists => stats.already_existed,
            _ => stats.exhausted,
        };
        assert_eq!((outcome, stats.handled()), (1, 1), "{stats:?}");
        assert_eq!(stats.retried, attempts as u64 - 1);
        let expected = (reason, "recording".to_owned(), 1, "Started".into(), error().kind());
        assert_eq!(losses.try_iter().collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn errors_that_are_not_worth_another_attempt_get_none() {
    let clock = clock();
    let events = with_policy(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |number, op| match &*op.event().reason {
        "Asked" if number < 2 => Err(SinkError::retry("busy").with_retry_after(Duration::ZERO)),
        "Asked" => Ok(()),
        "Panics" => Err(SinkError::retry("panic")),
        _ => Err(SinkError::retry("503")),
    });
    let recording = events
        .recording()
        .retry_if(|error| {
            assert!(!error.to_string().contains("panic"), "a function that panics");
            error.retry_after().is_some()
        })
        .start(sink.clone())
        .unwrap();
    for reason in ["Asked", "Plain", "Panics"] {
        record(&events, "web-0", reason);
        events.flush(LONG).unwrap();
    }
    let stats = recording.stats();
    assert_eq!((stats.created, stats.exhausted), (1, 2));
    let tries = |reason: &str| sink.calls().iter().filter(|op| reason_of(op) == reason).count();
    assert_eq!((tries("Asked"), tries("Plain"), tries("Panics")), (3, 1, 12));
    assert_eq!(stats.panics, 12);
    assert_balanced(&stats);
}

/// client-go's `TestLotsOfEvents`, with fewer threads.
#[test]
fn a_thousand_events_survive_four_failures_each() {
    let clock = clock();
    let events = clocked(&clock).retry(at_once()).build().unwrap();
    let tries = Mutex::new(std::collections::HashMap::new());
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let mut tries = tries.lock().unwrap();
        let tries = tries.entry(op.event().reason.clone()).or_insert(0);
        *tries += 1;
        if *tries < 5 { Err(retry()) } else { Ok(()) }
    });
    let lines = logged(&events);
    let recording = events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("eventTest");
    thread::scope(|scope| {
        for thread in 0..50 {
            let recorder = &recorder;
            scope.spawn(move || {
                for i in thread * 20..(thread + 1) * 20 {
                    let object = ObjectReference::new("Pod", format!("foo-{i}")).in_namespace("baz");
                    let recorded =
                        recorder.event(&object, Normal, format!("Reason-{i}"), format_args!("{i}"));
                    assert!(recorded.is_accepted());
                }
            });
        }
    });
    events.flush(LONG).unwrap();
    let report = events.shutdown();
    assert!(report.complete, "{report}");
    assert_eq!(lines.lock().unwrap().len(), 1000);
    assert_eq!(sink.calls().len(), 5000);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.retried), (1000, 4000));
    assert_balanced(&stats);
    let mut reasons: Vec<_> = sink.store.events().into_iter().map(|event| event.reason).collect();
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons.len(), 1000);
}

#[test]
fn pauses_are_ten_seconds_and_the_first_a_part_of_that() {
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    tried(&calls, &clock);
    clock.advance(PAUSE);
    for attempts in 2..12 {
        tried(&calls, &clock);
        clock.advance(PAUSE.saturating_sub(Duration::from_millis(1)));
        assert_eq!(sink.calls().len(), attempts, "no attempt is made early");
        clock.advance(Duration::from_millis(1));
    }
    events.flush(LONG).unwrap();
    assert_eq!(sink.calls().len(), 12);
    assert_eq!(recording.stats().exhausted, 1);
}

#[test]
fn a_back_off_that_the_sink_requests_is_kept_up_to_a_limit() {
    let clock = clock();
    let policy = RetryPolicy::default().max_delay(Duration::from_secs(20));
    let events = clocked(&clock).retry(policy).build().unwrap();
    let waits = [Duration::from_secs(3), Duration::from_secs(3600)];
    let (sink, calls) = Scripted::new(&clock, move |number, _| match waits.get(number) {
        Some(wait) => Err(SinkError::retry("too many requests").with_retry_after(*wait)),
        None => Ok(()),
    });
    events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    for wait in [3, 20] {
        tried(&calls, &clock);
        let before = sink.calls().len();
        clock.advance(Duration::from_millis(wait * 1000 - 1));
        assert_eq!(sink.calls().len(), before);
        clock.advance(Duration::from_millis(1));
    }
    events.flush(LONG).unwrap();
    assert_eq!(sink.store.len(), 1);
}

/// client-go's `TestUpdateExpiredEvent`. The new event continues the count.
#[test]
fn an_event_that_has_expired_is_created_again_without_its_version() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    clock.advance(Duration::from_secs(2 * 3600));
    assert!(sink.store.is_empty());
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();

    let calls = sink.calls();
    assert_eq!(
        calls.iter().map(short).collect::<Vec<_>>(),
        ["create Started x1", "patch Started x2", "create Started x2"]
    );
    assert_eq!(calls[1].event().metadata.resource_version(), "1");
    assert_eq!(calls[2].event().metadata.resource_version(), "");
    assert_eq!(calls[2].event().metadata.name, calls[0].event().metadata.name);
    assert_eq!(sink.store.events()[0].count, 2);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.recreated, stats.updated), (2, 1, 0));
    assert_balanced(&stats);
}

#[test]
fn a_repeat_that_fails_is_patched_again_before_it_is_created() {
    let clock = clock();
    let events = clocked(&clock).retry(at_once()).build().unwrap();
    // The first patch does not find the event. The create operation that follows fails without a
    // response, so the event may or may not have been stored.
    let (sink, _calls) = Scripted::new(&clock, |number, _| match number {
        1 => Err(SinkError::new(SinkErrorKind::NotFound, "expired")),
        2 => Err(retry()),
        _ => Ok(()),
    });
    events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    assert_eq!(
        sink.shorts(),
        ["create Started x1", "patch Started x2", "create Started x2", "patch Started x2"]
    );
    assert_eq!(sink.store.events()[0].count, 2);
}

/// The administrator sets the clock back by a day while events are being recorded, counted and
/// retried. Nothing waits for that day to pass again, counts continue, and each event carries the
/// time that the clock showed.
#[test]
fn a_clock_that_is_set_back_delays_nothing_and_loses_no_count() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let (sink, called) = Scripted::new(&clock, |call, _| match call {
        2 => Err(SinkError::retry("busy")),
        _ => Ok(()),
    });
    events.recording().start(sink.clone()).unwrap();
    let before = clock.clock().now();
    record(&events, "web", "Started");
    called.recv_timeout(LONG).unwrap();
    clock.set(before - DAY);
    record(&events, "web", "Started");
    called.recv_timeout(LONG).unwrap();
    record(&events, "db", "Failed");
    called.recv_timeout(LONG).unwrap();
    // The pause before the next attempt is at most the policy's ten seconds, regardless of changes
    // to the system time.
    clock.wait_for_waiters(1);
    clock.set(before - 2 * DAY);
    clock.advance(Duration::from_secs(10));
    called.recv_timeout(LONG).unwrap();
    assert!(events.shutdown().complete);
    let calls: Vec<_> = sink.shorts();
    assert_eq!(calls, ["create Started x1", "patch Started x2", "create Failed x1", "create Failed x1"]);
    let stored = sink.store.events();
    let started = stored.iter().find(|event| event.reason == "Started").unwrap();
    assert_eq!((started.count, started.first_timestamp), (2, Some(Timestamp::from(before))));
    assert_eq!(started.last_timestamp, Some(Timestamp::from(before - DAY)));
    assert_balanced(&events.stats().recordings[0]);
}
