//! Stores that are unavailable: probes, reports, and the end of an outage.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use eventcast::record::Outage;
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkMode, Stored};
use eventcast::{Event, EventBroadcaster, SinkError, Timestamp};

use crate::support::{
    LONG, Scripted, Submitting, assert_balanced, away, clock, clocked, every_ten_seconds, gate, modes, pod,
    record, tried, until,
};

use super::{PAUSE, broadcaster, counts, with_policy, without_budget};

/// While the store is unavailable, one event is tried after each pause, each time with another key
/// and in its newest state. A probe does not count as an attempt, and repeats do not use any
/// capacity.
#[test]
fn a_probe_has_the_newest_state_of_another_key_each_time() {
    const KEYS: [&str; 3] = ["A", "B", "C"];
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls, is_back) = Scripted::failing(&clock, away);
    let builder = events.recording().correlator(without_budget()).queue_capacity(4);
    let recording = builder.retry(every_ten_seconds().attempts(2)).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    tried(&calls, &clock);
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
        clock.wait_for_waiters(1);
        clock.advance(PAUSE.saturating_sub(Duration::from_millis(1)));
        assert_eq!(sink.calls().len(), round + 1, "no other event is tried");
        clock.advance(Duration::from_millis(1));
        tried(&calls, &clock);
        // The first event of A was already tried before the other events were recorded.
        let (reason, count) = (KEYS[(round + 1) % 3], round + 1 + usize::from(round % 3 == 2));
        assert_eq!(sink.shorts().last(), Some(&format!("create {reason} x{count}")), "{round}");
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
    let mut counts = counts(&sink.store);
    counts.sort_unstable();
    assert_eq!(counts, [9, 9, 10]);
}

/// Any response to the probe shows that the store is available.
#[test]
fn any_answer_ends_an_outage() {
    let answers: [fn() -> Result<(), SinkError>; 3] =
        [|| Ok(()), || Err(SinkError::retry("500")), || Err(SinkError::rejected("422"))];
    for answer in answers {
        let clock = clock();
        let events = with_policy(&clock, every_ten_seconds());
        let (sink, calls) = Scripted::new(&clock, move |number, _| match number {
            0 => Err(away()),
            1 => answer(),
            _ => Ok(()),
        });
        let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
        record(&events, "web-0", "First");
        tried(&calls, &clock);
        for i in 0..10 {
            record(&events, "web-0", &format!("Later-{i}"));
        }
        until(|| recording.stats().watcher.queued == 11);
        clock.advance(Duration::from_secs(10));
        // The first event is due as well, and one event may have been refused.
        until(|| recording.stats().created >= 10);
    }
}

/// The hook is called once when an outage begins, and once when it ends. A failure of one event is
/// not an outage. The statistics agree with the hook's reports.
#[test]
fn the_hook_reports_the_begin_and_the_end_of_each_outage() {
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
    // Records an event and waits until it has been tried.
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

    for reason in ["First", "Second"] {
        // Advances the clock so that the next event has a different time.
        clock.advance(Duration::from_millis(1));
        *answer.lock().unwrap() = || Err(away());
        let since = try_one(reason);
        let text = Some(away().to_string());
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

/// If the store refuses an event, the store is available again, even if nothing else is left to
/// write. The pauses in the next outage start with the shortest pause.
#[test]
fn a_refusal_ends_an_outage_and_its_growing_pauses() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) = Scripted::new(&clock, |number, _| match number {
        0 | 1 | 3 => Err(away()),
        2 => Err(SinkError::rejected("no")),
        _ => Ok(()),
    });
    let policy = every_ten_seconds().factor(2);
    let builder = events.recording().correlator(without_budget()).retry(policy);
    let recording = builder.start(sink.clone()).unwrap();
    // Waits for a call that is due after this pause and not earlier.
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

/// If the store requests several waits at the same time, the longest wait applies.
#[test]
fn the_longest_wait_of_a_batch_counts() {
    const LONGEST: Duration = Duration::from_secs(30);
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let (tx, sizes) = mpsc::channel();
    let sink = Submitting(SinkMode::Batches, move |batch: SinkBatch| {
        pass();
        let busy = |wait| Err(away().with_retry_after(wait));
        tx.send(batch.ops().len()).unwrap();
        match batch.ops() {
            [_, _] => batch.answer([busy(LONGEST), busy(PAUSE)]),
            _ => batch.answer_each(|op| Ok(Stored::from(op.event()))),
        }
    });
    let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
    record(&events, "web-0", "First");
    gate.wait();
    // The sink receives these two events together.
    for reason in ["A", "B"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 3);
    drop(gate);
    assert_eq!([(); 2].map(|()| sizes.recv_timeout(LONG).unwrap()), [1, 2]);
    until(|| recording.stats().unavailable_since.is_some());
    clock.wait_for_waiters(1);
    clock.advance(LONGEST.saturating_sub(Duration::from_millis(1)));
    assert_eq!(clock.waiters(), 1, "the next attempt is already due");
    clock.advance(Duration::from_millis(1));
    assert_eq!(sizes.recv_timeout(LONG), Ok(1));
    events.flush(LONG).unwrap();
    assert_eq!(recording.stats().created, 3);
    assert_balanced(&recording.stats());
}

/// The responses arrive in different rounds, and the last response requests a shorter pause than
/// the first response.
#[test]
fn the_longest_wait_counts_across_separate_answers() {
    const LONGEST: Duration = Duration::from_secs(30);
    let clock = clock();
    let events = broadcaster(&clock);
    let (tx, calls) = mpsc::channel();
    let sink = Submitting(SinkMode::InFlight(2), move |batch: SinkBatch| {
        batch.into_iter().for_each(|call| tx.send(call).unwrap());
    });
    let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
    for reason in ["A", "B"] {
        record(&events, "web-0", reason);
    }
    let [first, second] = [(); 2].map(|()| calls.recv_timeout(LONG).unwrap());
    for (call, wait, attempts) in [(first, LONGEST, 1), (second, PAUSE, 2)] {
        call.answer(Err(away().with_retry_after(wait)));
        until(|| recording.stats().last_failure.is_some_and(|failure| failure.attempts == attempts));
    }
    clock.wait_for_waiters(1);
    clock.advance(LONGEST.saturating_sub(Duration::from_millis(1)));
    assert_eq!(clock.waiters(), 1, "the next attempt is already due");
    clock.advance(Duration::from_millis(1));
    for _ in 0..2 {
        let call = calls.recv_timeout(LONG).unwrap();
        let stored = Stored::from(call.event());
        call.answer(Ok(stored));
    }
    events.flush(LONG).unwrap();
    assert_eq!(recording.stats().created, 2);
    assert_balanced(&recording.stats());
}

/// No event is lost yet, but the statistics already show why none is stored, since when, and how
/// many times the recording tried.
#[test]
fn the_first_attempt_shows_why_nothing_is_stored() {
    type Make = fn() -> SinkError;
    let cases: [(Make, bool); 2] = [
        (|| SinkError::retry("401 Unauthorized\u{1b}[2J"), false),
        (|| SinkError::new(SinkErrorKind::Unavailable, "connection refused\u{1b}[2J"), true),
    ];
    for (error, is_away) in cases {
        let clock = clock();
        let policy = every_ten_seconds();
        let events = clocked(&clock).retry(policy).build().unwrap();
        let (sink, calls, is_back) = Scripted::failing(&clock, error);
        let recording = events.record_to(sink).unwrap();
        assert_eq!(recording.stats().last_failure, None);
        let begin = Timestamp::from(clock.clock().now());
        record(&events, "web-0", "Started");
        for attempts in 1..4 {
            tried(&calls, &clock);
            let stats = recording.stats();
            let failure = stats.last_failure.clone().unwrap();
            assert_eq!((failure.text.as_str(), failure.since), (error().to_string().as_str(), begin));
            assert_eq!((failure.attempts, stats.unavailable_since), (attempts, is_away.then_some(begin)));
            let shown = stats.to_string();
            assert!(shown.contains(&format!("since {begin:.0}: {}", error())), "{shown}");
            assert_eq!(shown.contains("store unavailable"), is_away, "{shown}");
            assert!(!shown.contains('\u{1b}'), "{shown}");
            assert_eq!((stats.last_refusal.as_ref(), stats.handled()), (None, 0));
            let text = serde_json::to_string(&stats).unwrap();
            assert_eq!(serde_json::from_str::<eventcast::stats::RecordingStats>(&text).unwrap(), stats);
            clock.advance(Duration::from_secs(10));
        }
        is_back.store(true, Ordering::SeqCst);
        calls.recv_timeout(LONG).unwrap();
        // The fourth attempt may have been made before the store was available.
        until(|| {
            if clock.waiters() > 0 {
                clock.advance(Duration::from_secs(10));
            }
            recording.stats().created == 1
        });
        events.shutdown();
        let stats = recording.stats();
        assert_eq!(stats.unavailable_since, None);
        assert_eq!(stats.last_failure.unwrap().since, begin, "it stays");
    }
}

/// A hanging sink does not report anything, so the recording reports the outage. Uses the system
/// clock, because a call takes real time.
#[test]
fn a_sink_that_hangs_is_reported_and_its_answer_ends_that() {
    let (tx, outages) = mpsc::channel();
    let events = EventBroadcaster::new().unwrap();
    let (gate, sink) = Scripted::gated(&clock(), 0..=0);
    let hook = move |outage: &Outage<'_>| {
        let cause = outage.cause.map(str::to_owned);
        tx.send((outage.recording.to_owned(), cause, outage.since, outage.cause.is_none())).unwrap();
        panic!("a hook that panics");
    };
    let recording = events.recording().on_outage(hook).start(sink).unwrap();
    let before = Timestamp::from(std::time::SystemTime::now());
    record(&events, "web-0", "Started");
    gate.wait();
    let (name, cause, since, is_over) = outages.recv_timeout(LONG).unwrap();
    assert_eq!((name.as_str(), is_over), ("recording", false));
    assert_eq!(cause.as_deref(), Some("no response from the sink for 1 s"));
    assert!(since >= before);
    until(|| recording.stats().unavailable_since == Some(since));
    assert_eq!(recording.stats().last_failure.map(|failure| failure.text), cause);
    drop(gate);
    assert_eq!(outages.recv_timeout(LONG).unwrap(), (name, None, since, true));
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.unavailable_since, stats.panics), (1, None, 2));
    assert_balanced(&stats);
}

/// A recording that is ending no longer waits for its store, and does not report that the store is
/// available again.
#[test]
fn a_recording_that_ends_is_in_no_outage_and_reports_the_end_of_none() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(away()));
    let (tx, outages) = mpsc::channel();
    let hook = move |outage: &Outage<'_>| tx.send(outage.cause.is_none()).unwrap();
    let recording = events.recording().on_outage(hook).start(sink).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    assert_eq!(outages.recv_timeout(LONG), Ok(false));
    until(|| recording.stats().unavailable_since.is_some());
    let stats = events.shutdown().recordings.remove(0);
    assert!(recording.join(LONG));
    assert_eq!(outages.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    assert_eq!((stats.created, stats.abandoned, stats.unavailable_since), (0, 1, None));
    assert_eq!(stats.last_failure.as_ref().unwrap().text, "unavailable: connection refused");
    assert_balanced(&stats);
}

#[test]
fn an_unavailable_store_delays_only_its_own_recording() {
    for bus in modes() {
        let clock = clock();
        let events = clocked(&clock).bus(bus).build().unwrap();
        let (all, _calls, is_up) = Scripted::failing(&clock, away);
        let warnings = Scripted::obedient(&clock);
        let unfiltered = events.recording().start(all.clone()).unwrap();
        let filter = |event: &Event| event.type_ == "Warning";
        let filtered = events.recording().filter(filter).start(warnings.clone()).unwrap();
        let recorder = events.recorder("tester");
        assert!(recorder.normal(pod("web-0"), "Started", "message").is_accepted());
        until(|| unfiltered.stats().unavailable_since.is_some());
        for _ in 0..2 {
            assert!(recorder.warning(pod("web-0"), "BackOff", "message").is_accepted());
        }
        until(|| filtered.stats().updated == 1);
        assert_eq!(counts(&warnings.store), [2]);
        assert_eq!(filtered.stats().unavailable_since, None);
        assert_eq!((unfiltered.stats().created, all.store.len()), (0, 0));

        is_up.store(true, Ordering::SeqCst);
        clock.advance(PAUSE);
        until(|| unfiltered.stats().handled() == 3);
        let report = events.shutdown();
        assert_eq!(counts(&all.store).iter().sum::<i32>(), 3);
        for (stats, stopped) in report.recordings.iter().zip([0, 1]) {
            assert_balanced(stats);
            assert_eq!((stats.lost(), stats.watcher.filtered), (0, stopped));
        }
    }
}
