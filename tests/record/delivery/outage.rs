//! Stores that are away, or fail for some of their events, for minutes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::Outage;
use eventcast::sink::SinkErrorKind;
use eventcast::{EventBroadcaster, RetryPolicy, SinkError, Timestamp};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, pod, record, until};

use super::{PAUSE, broadcaster, calls_of, turnstile, without_budget};

/// While the store is away, each probe is about another key, and has the newest state of it. A
/// probe costs no attempt, and repeats take no room.
#[test]
fn a_probe_has_the_newest_state_of_another_key_each_time() {
    const KEYS: [&str; 3] = ["A", "B", "C"];
    let clock = clock();
    let events = broadcaster(&clock);
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) = Scripted::new(&clock, move |_, _| {
        if back.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err(SinkError::new(SinkErrorKind::Unavailable, "no connection"))
        }
    });
    let policy = RetryPolicy::default().jitter(eventcast::record::Jitter::Never).attempts(2);
    let builder = events.recording().correlator(without_budget()).queue_len(4).retry(policy);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    let mut offered = 1;
    for round in 0..9 {
        for reason in KEYS {
            record(&events, "web-0", reason);
            offered += 1;
            until(|| {
                let watcher = recording.stats().watcher;
                watcher.offered == offered && watcher.lag <= KEYS.len() as u64
            });
        }
        clock.advance(PAUSE);
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
        // The first event of A had an attempt before the others came.
        let (reason, count) = (KEYS[(round + 1) % 3], round + 1 + usize::from(round % 3 == 2));
        assert_eq!(calls_of(&sink).last(), Some(&format!("create {reason} x{count}")), "{round}");
    }
    assert_eq!(recording.stats().exhausted, 0);
    is_back.store(true, Ordering::SeqCst);
    clock.advance(PAUSE);
    until(|| recording.stats().unavailable_since.is_none());
    clock.advance(PAUSE);
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.written(), stats.lost()), (3, 25, 3, 0));
    let mut counts: Vec<i32> = sink.store.events().iter().map(|event| event.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [9, 9, 10]);
}

/// The hook is called once when an outage begins, and once when it ends. A failure of one event is
/// not an outage. The statistics say the same.
#[test]
fn the_hook_is_told_the_begin_and_the_end_of_each_outage() {
    type Answer = fn() -> Result<(), SinkError>;
    let clock = clock();
    let events = broadcaster(&clock);
    let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(|| Ok(())));
    let answering = answer.clone();
    let (sink, calls) = Scripted::new(&clock, move |_, _| answering.lock().unwrap()());
    let (tx, outages) = mpsc::channel();
    let hook = move |outage: &Outage<'_>| {
        let cause = outage.cause.map(str::to_owned);
        tx.send((outage.cause.is_none(), outage.since, cause, outage.recording.to_owned())).unwrap();
    };
    let builder = events.recording().name("audit").correlator(without_budget()).on_outage(hook);
    let recording = builder.start(sink).unwrap();
    // Records an event, and waits until it has been tried.
    let try_one = |reason: &str| {
        let before = Timestamp::from(clock.clock().now());
        record(&events, "web-0", reason);
        calls.recv_timeout(LONG).unwrap();
        before
    };
    try_one("Stored");
    *answer.lock().unwrap() = || Err(SinkError::retry("500"));
    try_one("Failed");
    clock.wait_for_waiters(1);
    assert!(outages.try_recv().is_err(), "only one event has failed");

    let two: [(&str, Answer); 2] = [
        ("first", || Err(SinkError::new(SinkErrorKind::Unavailable, "first"))),
        ("second", || Err(SinkError::new(SinkErrorKind::Unavailable, "second"))),
    ];
    for (cause, error) in two {
        // The next event has another time.
        clock.advance(Duration::from_millis(1));
        *answer.lock().unwrap() = error;
        let since = try_one(cause);
        let text = Some(format!("unavailable: {cause}"));
        assert_eq!(outages.recv_timeout(LONG).unwrap(), (false, since, text, "audit".to_owned()));
        for _ in 0..3 {
            clock.wait_for_waiters(1);
            assert_eq!(recording.stats().unavailable_since, Some(since));
            clock.advance(PAUSE);
            calls.recv_timeout(LONG).unwrap();
        }
        clock.wait_for_waiters(1);
        assert!(outages.try_recv().is_err(), "the store is still unavailable");

        *answer.lock().unwrap() = || Ok(());
        clock.advance(PAUSE);
        assert_eq!(outages.recv_timeout(LONG).unwrap(), (true, since, None, "audit".to_owned()));
        until(|| recording.stats().unavailable_since.is_none());
        // The event that was not the probe is due.
        clock.advance(PAUSE);
        events.flush(LONG).unwrap();
        while calls.try_recv().is_ok() {}
    }
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.lost(), stats.panics), (4, 0, 0));
    assert_balanced(&stats);
    assert!(outages.try_recv().is_err());
}

/// Two bad and ten healthy events a second for four minutes, with the default policy. The healthy
/// ones are stored in the second in which they come.
#[test]
fn events_that_fail_hold_up_no_healthy_ones_for_minutes() {
    const SECONDS: u64 = 240;
    const BAD: u64 = 2;
    const HEALTHY: u64 = 10;
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let tried: Arc<Mutex<HashSet<String>>> = Arc::default();
    let noting = tried.clone();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let object = &event_of(op).involved_object;
        if object.namespace != "bad" {
            return Ok(());
        }
        noting.lock().unwrap().insert(object.name.to_string());
        Err(SinkError::retry("500 InternalError: failed calling webhook"))
    });
    let recording =
        events.recording().correlator(without_budget()).queue_len(10_000).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    let record = |namespace: &str, name: String| {
        let object = pod(&name).in_namespace(namespace);
        assert!(recorder.event(&object, Normal, "Started", "message").is_accepted());
    };
    for second in 1..=SECONDS {
        for number in 0..BAD {
            record("bad", format!("web-{second}-{number}"));
        }
        for number in 0..HEALTHY {
            record("good", format!("web-{second}-{number}"));
        }
        until(|| recording.stats().created == HEALTHY * second);
        until(|| tried.lock().unwrap().len() as u64 == BAD * second);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(recording.stats().unavailable_since, None);
    events.shutdown();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.exhausted + stats.abandoned), (HEALTHY * SECONDS, BAD * SECONDS));
    assert!(stats.exhausted > 0, "{stats}");
}

/// An event that the store refuses shows that the store is available again, although nothing else
/// is left to write. The pauses of the next outage begin with the shortest one.
#[test]
fn a_refusal_ends_an_outage_and_its_growing_pauses() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) = Scripted::new(&clock, |number, _| match number {
        0 | 1 | 3 => Err(SinkError::new(SinkErrorKind::Unavailable, "no connection")),
        2 => Err(SinkError::rejected("no")),
        _ => Ok(()),
    });
    let policy = RetryPolicy::default().jitter(eventcast::record::Jitter::Never).factor(2);
    let builder = events.recording().correlator(without_budget()).retry(policy);
    let recording = builder.start(sink.clone()).unwrap();
    // Waits for a call that is due after this pause and not before.
    let called_after = |pause: Duration| {
        clock.wait_for_waiters(1);
        clock.advance(pause.saturating_sub(Duration::from_millis(1)));
        assert!(calls.try_recv().is_err(), "before {pause:?}");
        clock.advance(Duration::from_millis(1));
        calls.recv_timeout(LONG).unwrap_or_else(|_| panic!("not after {pause:?}"));
    };
    record(&events, "web-0", "Refused");
    calls.recv_timeout(LONG).unwrap();
    called_after(PAUSE);
    called_after(2 * PAUSE);
    until(|| recording.stats().rejected == 1 && recording.stats().unavailable_since.is_none());
    record(&events, "web-0", "Stored");
    calls.recv_timeout(LONG).unwrap();
    until(|| recording.stats().unavailable_since.is_some());
    called_after(PAUSE);
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.unavailable_since), (1, 1, None));
    assert_balanced(&stats);
}

/// If the store asks for several waits at the same time, the longest counts.
#[test]
fn the_longest_wait_of_a_batch_counts() {
    const LONGEST: Duration = Duration::from_secs(30);
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let (sink, calls) = Scripted::new(&clock, move |number, _| match number {
        0 => {
            pass();
            Ok(())
        }
        1 => Err(SinkError::new(SinkErrorKind::Unavailable, "busy").with_retry_after(LONGEST)),
        2 => Err(SinkError::new(SinkErrorKind::Unavailable, "busy").with_retry_after(PAUSE)),
        _ => Ok(()),
    });
    let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
    record(&events, "web-0", "First");
    turnstile.wait();
    // The sink gets these two together.
    for reason in ["A", "B"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 3);
    drop(turnstile);
    for _ in 0..3 {
        calls.recv_timeout(LONG).unwrap();
    }
    until(|| recording.stats().unavailable_since.is_some());
    clock.wait_for_waiters(1);
    clock.advance(LONGEST.saturating_sub(Duration::from_millis(1)));
    assert_eq!(clock.waiters(), 1, "the next attempt is due already");
    clock.advance(Duration::from_millis(1));
    calls.recv_timeout(LONG).unwrap();
    events.flush(LONG).unwrap();
    assert_eq!(recording.stats().created, 3);
    assert_balanced(&recording.stats());
}

/// A recording that ends while the store is unavailable does not report that it is available again.
#[test]
fn the_end_of_a_recording_is_not_the_end_of_an_outage() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) =
        Scripted::new(&clock, |_, _| Err(SinkError::new(SinkErrorKind::Unavailable, "no connection")));
    let (tx, outages) = mpsc::channel();
    let hook = move |outage: &Outage<'_>| tx.send(outage.cause.is_none()).unwrap();
    let recording = events.recording().on_outage(hook).start(sink).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    assert_eq!(outages.recv_timeout(LONG), Ok(false));
    events.shutdown();
    assert!(recording.join(LONG));
    assert_eq!(outages.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    let stats = recording.stats();
    assert_eq!((stats.created, stats.abandoned), (0, 1));
    assert_balanced(&stats);
}
