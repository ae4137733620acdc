//! Faults around a recorder: the time of day jumps or is absurd, sinks fail for good, and no sink
//! or watcher exists. `docs/verification.md` lists all faults, with the tests of other files.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use eventcast::record::LossReason;
use eventcast::sink::{EventTable, MemorySinkOptions};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster, EventType, MemorySink, OverflowPolicy, SinkError, Timestamp};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, gate, pod, record, short, until};

const HOUR: Duration = Duration::from_secs(3600);

/// The administrator sets the clock back by a day while events are recorded, counted and tried
/// again. Nothing waits for the lost day to come again, counts continue, and each event has the
/// time that the clock showed.
#[test]
fn a_clock_that_is_set_back_delays_nothing_and_loses_no_count() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let (sink, called) = Scripted::new(&clock, |call, _| match call {
        2 => Err(SinkError::retry("busy")),
        _ => Ok(()),
    });
    events.recording().start(sink.clone()).unwrap();
    let before = clock.clock().now();
    record(&events, "web", "Started");
    called.recv_timeout(LONG).unwrap();
    clock.set(before - 24 * HOUR);
    record(&events, "web", "Started");
    called.recv_timeout(LONG).unwrap();
    record(&events, "db", "Failed");
    called.recv_timeout(LONG).unwrap();
    // The pause before the next attempt is at most the policy's ten seconds, whatever the time of
    // day does.
    clock.wait_for_waiters(1);
    clock.set(before - 48 * HOUR);
    clock.advance(Duration::from_secs(10));
    called.recv_timeout(LONG).unwrap();
    assert!(events.shutdown().complete);
    let calls: Vec<_> = sink.calls().iter().map(short).collect();
    assert_eq!(calls, ["create Started x1", "patch Started x2", "create Failed x1", "create Failed x1"]);
    let stored = sink.store.events();
    let started = stored.iter().find(|event| event.reason == "Started").unwrap();
    assert_eq!((started.count, started.first_timestamp), (2, Some(Timestamp::from(before))));
    assert_eq!(started.last_timestamp, Some(Timestamp::from(before - 24 * HOUR)));
    assert_balanced(&events.stats().recordings[0]);
}

/// The system clock is far beyond the range of a timestamp, or far before 1970. Events are
/// recorded, folded, stored, listed and read back, with times at the end of the range.
#[test]
fn a_clock_at_the_ends_of_time_records_and_stores_as_ever() {
    let far = Duration::from_secs(300_000_000_000);
    for (at, shown) in
        [(SystemTime::UNIX_EPOCH + far, Timestamp::MAX), (SystemTime::UNIX_EPOCH - far, Timestamp::MIN)]
    {
        let clock = FakeClock::new(at).drive_the_end();
        let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap();
        let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
        let (lines, logged) = mpsc::channel();
        events.log_to(move |line| drop(lines.send(line.to_owned()))).unwrap();
        events.record_to(store.clone()).unwrap();
        let recorder = events.recorder("tester");
        for n in 0..15 {
            recorder.event(pod("web"), EventType::Warning, "BackOff", format_args!("restart {n}"));
            recorder.event(pod("db"), EventType::Normal, "Ready", "ready");
            clock.advance(Duration::from_secs(1));
        }
        let report = events.shutdown();
        assert!(report.complete, "{report}");
        assert_balanced(&report.recordings[0]);
        assert_eq!(report.recordings[0].rejected, 0, "{report}");
        let stored = store.events();
        assert_eq!(stored.iter().map(|event| event.count).max(), Some(15));
        for event in &stored {
            // A store keeps whole seconds.
            let first = event.first_timestamp.unwrap().to_string();
            assert_eq!(first.get(..19), shown.to_string().get(..19), "{event:?}");
            assert_eq!(Event::from_json(&event.to_json()).unwrap(), *event);
        }
        let table = EventTable::new(shown).rows(&stored);
        assert_eq!(table.lines().count(), stored.len() + 1);
        assert_eq!(logged.into_iter().count(), 30);
    }
}

/// A sink fails at every call. Each event has its attempts and is reported, the store stays empty,
/// and a log beside the sink has everything.
#[test]
fn a_sink_that_always_fails_costs_its_own_events_only() {
    let clock = clock();
    let told = Arc::new(AtomicU64::new(0));
    let counter = told.clone();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| {
            assert_eq!((loss.reason, loss.count), (LossReason::Exhausted, 1));
            assert!(loss.cause.unwrap().to_string().ends_with("no store today"), "{loss}");
            counter.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let (sink, _) = Scripted::new(&clock, |_, _| Err(SinkError::retry("no store today")));
    events.recording().retry(at_once()).start(sink.clone()).unwrap();
    let (lines, logged) = mpsc::channel();
    events.log_to(move |line| drop(lines.send(line.to_owned()))).unwrap();
    for n in 0..20 {
        record(&events, &format!("pod-{n}"), "Started");
    }
    events.flush(LONG).unwrap();
    let report = events.shutdown();
    assert!(report.complete, "given up by its policy, not by the shutdown");
    assert_eq!((report.recordings[0].exhausted, told.load(Ordering::SeqCst)), (20, 20));
    assert_balanced(&report.recordings[0]);
    assert_eq!(sink.calls().len(), 20 * 12);
    assert_eq!((sink.store.len(), logged.into_iter().count()), (0, 20));
}

/// A sink hangs for good, on a recording that waits. Recorders continue, and refuse events when all
/// queues are full. The report comes at the deadline and counts the abandoned events.
#[test]
fn a_sink_that_hangs_for_good_is_left_behind_at_the_deadline() {
    let clock = clock();
    let options = eventcast::BusOptions::default().incoming_len(2).queue_len(2);
    let events = EventBroadcaster::builder().clock(clock.clock()).bus(options).build().unwrap();
    let (gate, pass) = gate();
    let (sink, _) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.recording().queue_len(2).overflow(OverflowPolicy::Wait).start(sink).unwrap();
    let recorder = events.recorder("tester");
    // Record until one event is in the sink, the recording's queue is full, the dispatcher waits,
    // and the incoming queue is full.
    let mut accepted = 0;
    while accepted < 5 || events.stats().bus.accepted + 2 != accepted {
        let recorded = recorder.event(pod(&format!("pod-{accepted}")), EventType::Normal, "Started", "");
        accepted += u64::from(recorded.is_accepted());
    }
    gate.entered.recv_timeout(LONG).unwrap();
    let report = events.shutdown_timeout(Duration::ZERO);
    assert!(!report.complete);
    let stats = recording.stats();
    assert!(stats.created == 0 && !recording.join(Duration::ZERO), "it is in the sink still");
    // The recording abandons the rest as soon as the sink returns.
    drop(gate);
    assert!(recording.join(LONG));
    // The dispatcher counts, on its own thread, the events that were still on their way to the
    // recording.
    until(|| recording.stats().watcher.lag == 0 && recording.stats().watcher.offered == accepted);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert!(stats.watcher.dropped.abandoned > 0, "{stats}");
    // The sink still writes the one or two events that it had been given.
    assert!((1..=2).contains(&stats.created), "{stats}");
}

/// Without watchers and sinks, recording works and leaves nothing behind.
#[test]
fn without_sinks_and_watchers_recording_goes_on() {
    let events = EventBroadcaster::new().unwrap();
    for n in 0..100 {
        record(&events, &format!("pod-{n}"), "Started");
        if n % 10 == 0 {
            events.flush(LONG).unwrap();
        }
    }
    let report = events.shutdown();
    assert!(report.complete);
    assert_eq!((report.bus.accepted, report.bus.watchers.len(), report.recordings.len()), (100, 0, 0));
}
