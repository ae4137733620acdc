//! The event broadcaster: logs, watchers, hooks, the end, and the behaviour when any of the user's
//! code panics.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::error::{FlushError, PublishError, WatchError};
use eventcast::record::{LogFormat, LossReason};
use eventcast::stats::{DropReason, EventBroadcasterStats};
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, Delivery, Event, EventBroadcaster, MemorySink, ObjectReference, OverflowPolicy, Recorded,
    ShutdownReport,
};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, gate, pod, record, until};

type Shared<T> = Arc<Mutex<Vec<T>>>;

fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).build().unwrap()
}

/// Returns a list, and a handler that adds the message of each event to it.
fn collect() -> (Shared<String>, impl FnMut(&Event) + Send) {
    let seen = Shared::default();
    let into = seen.clone();
    (seen, move |event: &Event| into.lock().unwrap().push(event.message.to_string()))
}

// ── logs ──

#[test]
fn a_log_line_has_columns_as_events_watch_prints_them() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_999));
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .scrub(|event| {
            if event.reason == "Timeless" {
                (event.first_timestamp, event.last_timestamp) = (None, None);
            }
        })
        .build()
        .unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    events.start_logging(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    let recorder = events.new_recorder("tester");
    let web = pod("web-0").in_namespace("default");
    recorder.event(&web, Warning, "BackOff", " restarting 100 %d {}\n");
    recorder.event(ObjectReference::default(), Normal, "Odd", "about nothing");
    let past = "2001-02-03T04:05:06.7+01:00".parse().unwrap();
    recorder.past_eventf(&web, past, Normal, "Started", format_args!("it's up"));
    recorder.event(&web, Normal, "Timeless", "");
    events.shutdown();
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "2023-11-14T22:13:20Z  Warning  BackOff  pod/web-0  restarting 100 %d {}",
            "2023-11-14T22:13:20Z  Normal   Odd    about nothing",
            "2001-02-03T03:05:06Z  Normal   Started  pod/web-0  it's up",
            "<unknown>             Normal   Timeless  pod/web-0  ",
        ]
    );
}

#[test]
fn a_log_line_of_klogs_form_names_the_whole_object() {
    let events = EventBroadcaster::new().unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    let logging =
        events.start_logging_as(LogFormat::Klog, move |line| into.lock().unwrap().push(line.to_owned()));
    assert_eq!(logging.unwrap().stats().name, "logging");
    let recorder = events.new_recorder("tester");
    let mut web = pod("web-0").in_namespace("default");
    recorder.event(&web, Warning, "BackOff", "restarting 100 %d {}");
    web.uid = "7f3a".into();
    web.field_path = "spec.containers{web}".into();
    recorder.event(&web, Normal, "Started", "");
    recorder.event(ObjectReference::default(), Normal, "Odd", "about nothing");
    events.shutdown();
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "Event(Pod/default/web-0): type: 'Warning' reason: 'BackOff' restarting 100 %d {}",
            "Event(Pod/default/web-0 uid=7f3a fieldPath=spec.containers{web}): type: 'Normal' reason: 'Started' ",
            "Event(): type: 'Normal' reason: 'Odd' about nothing",
        ]
    );
}

/// A payload such as that of CVE-2021-25743, in every field that a line shows.
#[test]
fn a_hostile_event_cannot_reach_a_log() {
    let payload = "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rEvent(\u{8}\u{7f}\u{202e}txet\u{2028}next\nEvent(";
    let shown = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rEvent(\u{8}\u{7f}\u{202e}txet\u{2028}next\nEvent(";
    let events = broadcaster(&FakeClock::new(SystemTime::UNIX_EPOCH));
    let (tx, lines) = mpsc::channel();
    let (klog_tx, klog_lines) = mpsc::channel();
    events.start_logging(move |line| tx.send(line.to_owned()).unwrap()).unwrap();
    events.start_logging_as(LogFormat::Klog, move |line| klog_tx.send(line.to_owned()).unwrap()).unwrap();
    let mut object = ObjectReference::new(payload, payload).in_namespace(payload);
    object.uid = payload.into();
    object.field_path = payload.into();
    events.new_recorder("tester").event(&object, Normal, payload, payload);
    events.shutdown();
    let kind = shown.to_lowercase();
    assert_eq!(
        lines.recv().unwrap(),
        format!("1970-01-01T00:00:00Z  Normal   {shown}  {kind}/{shown}  {shown}")
    );
    assert_eq!(
        klog_lines.recv().unwrap(),
        format!(
            "Event({shown}/{shown}/{shown} uid={shown} fieldPath={shown}): type: 'Normal' reason: '{shown}' {shown}"
        )
    );
}

#[test]
fn a_log_says_where_events_are_missing() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let events = EventBroadcaster::builder()
        .bus(BusOptions::default().queue_len(1))
        .clock(clock.clock())
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let lines = Shared::default();
    let into = lines.clone();
    let logging = events
        .start_logging(move |line| {
            into.lock().unwrap().push(line.to_owned());
            pass();
        })
        .unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| logging.stats().dropped.incoming == 2);
    drop(gate);
    events.shutdown();
    assert_eq!(
        *lines.lock().unwrap(),
        ["1970-01-01T00:00:00Z  Normal   Started  pod/a  message", "(2 events lost here)"]
    );
}

// ── the end ──

/// client-go's `Shutdown` loses nearly all of these events.
#[test]
fn shutdown_finishes_every_handler_log_and_sink() {
    let events = EventBroadcaster::new().unwrap();
    let (seen, handler) = collect();
    events.start_event_watcher(handler).unwrap();
    let logged = Arc::new(AtomicUsize::new(0));
    let counter = logged.clone();
    events
        .start_logging(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    let store = MemorySink::new();
    events.start_recording_to_sink(store.clone()).unwrap();
    let mut own = events.watch_builder().watch().unwrap();
    let recorder = events.new_recorder("tester");
    for i in 0..500 {
        assert!(
            recorder.eventf(pod(&format!("web-{i}")), Normal, "Started", format_args!("{i}")).is_accepted()
        );
    }
    let report = events.shutdown();
    assert!(report.complete, "{report}");
    assert_eq!(*seen.lock().unwrap(), (0..500).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!((logged.load(Ordering::Relaxed), store.len()), (500, 500));
    assert_eq!(report.recordings[0].created, 500);
    assert_balanced(&report.recordings[0]);
    assert_eq!(own.events().count(), 500, "what you read yourself stays readable");
    assert!(recorder.event(pod("late"), Normal, "Started", "") == Recorded::Stopped);
}

#[test]
fn shutdown_can_be_called_by_anybody_at_any_time() {
    let events = EventBroadcaster::new().unwrap();
    let store = MemorySink::new();
    events.start_recording_to_sink(store.clone()).unwrap();
    record(&events, "web-0", "Started");
    let barrier = Barrier::new(4);
    let reports: Vec<ShutdownReport> = thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .map(|i| {
                let (events, barrier) = (&events, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    if i % 2 == 0 { events.shutdown() } else { events.shutdown_timeout(LONG) }
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(reports[0].complete);
    assert!(reports.iter().all(|report| *report == reports[0]));
    assert_eq!(store.len(), 1);
    let text = serde_json::to_string(&reports[0]).unwrap();
    assert_eq!(serde_json::from_str::<ShutdownReport>(&text).unwrap(), reports[0]);

    // Afterwards nothing can be started, and every call returns at once.
    assert!(matches!(events.start_recording_to_sink(store.clone()), Err(WatchError::Stopped)));
    assert!(matches!(events.start_logging(|_| ()), Err(WatchError::Stopped)));
    assert!(matches!(events.start_event_watcher(|_| ()), Err(WatchError::Stopped)));
    assert!(matches!(events.watch_builder().watch(), Err(WatchError::Stopped)));
    assert_eq!(events.flush(LONG), Ok(()));
    assert_eq!(events.stats().recordings, reports[0].recordings);
}

/// client-go's `TestNonRacyShutdown`, with a shutdown while the recorders record.
#[test]
fn a_shutdown_among_recorders_loses_nothing_that_was_accepted() {
    for round in 0..20 {
        let events = EventBroadcaster::new().unwrap();
        let (seen, handler) = collect();
        events.start_event_watcher(handler).unwrap();
        let recorder = events.new_recorder("tester");
        let accepted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let recorded = recorder.eventf(
                            ObjectReference::default(),
                            Normal,
                            "Started",
                            format_args!("blah"),
                        );
                        match recorded {
                            Recorded::Accepted => accepted.fetch_add(1, Ordering::Relaxed),
                            Recorded::Stopped => 0,
                            other => panic!("{other}"),
                        };
                    }
                });
            }
            if round % 2 == 0 {
                scope.spawn(|| assert!(events.shutdown().complete));
            }
        });
        let report = events.shutdown();
        let accepted = accepted.into_inner();
        assert_eq!(seen.lock().unwrap().len(), accepted);
        assert_eq!(report.bus.accepted, accepted as u64);
        let stats = events.stats();
        assert_eq!(stats.bus.accepted + stats.recorder.refused(), 160);
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(serde_json::from_str::<EventBroadcasterStats>(&text).unwrap(), stats);
    }
}

#[test]
fn close_waits_for_nobody_and_what_was_recorded_is_handled() {
    let events = EventBroadcaster::new().unwrap();
    let (gate, pass) = gate();
    let (seen, mut handler) = collect();
    events
        .start_event_watcher(move |event| {
            pass();
            handler(event);
        })
        .unwrap();
    record(&events, "web-0", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    events.close();
    assert_eq!(events.new_recorder("late").event(pod("web-0"), Normal, "Started", ""), Recorded::Stopped);
    drop(gate);
    assert!(events.shutdown().complete);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

// ── dropping ──

#[test]
fn dropping_waits_for_handlers_and_sinks() {
    let clock = clock();
    let events = broadcaster(&clock);
    let store = MemorySink::new();
    events.start_recording_to_sink(store.clone()).unwrap();
    let (seen, handler) = collect();
    events.start_event_watcher(handler).unwrap();
    for i in 0..100 {
        record(&events, &format!("web-{i}"), "Started");
    }
    drop(events);
    assert_eq!((store.len(), seen.lock().unwrap().len()), (100, 100));
}

#[test]
fn dropping_waits_no_longer_than_it_may_and_gives_nothing_up() {
    let clock = clock();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .drop_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let (sink, calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "a", "Started");
    record(&events, "b", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let dropping = thread::spawn(move || drop(events));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(2_999));
    assert!(!dropping.is_finished());
    clock.advance(Duration::from_millis(1));
    dropping.join().unwrap();
    assert!(calls.try_recv().is_err(), "nothing has been stored yet");

    drop(gate);
    assert!(recording.join(LONG));
    assert_eq!(sink.store.len(), 2);
    assert_balanced(&recording.stats());
}

#[test]
fn dropping_does_not_wait_when_told_so() {
    let clock = clock();
    let events =
        EventBroadcaster::builder().clock(clock.clock()).drop_timeout(Duration::ZERO).build().unwrap();
    let (gate, pass) = gate();
    let handler = events.start_event_watcher(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    // The clock stands still, so any wait would last for ever.
    drop(events);
    assert!(!handler.join(Duration::ZERO));
    drop(gate);
    assert!(handler.join(LONG));
}

#[test]
fn dropping_on_a_thread_of_its_own_does_not_wait() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let last = Arc::new(Mutex::new(None::<Arc<EventBroadcaster>>));
    let taken = last.clone();
    let (tx, dropped) = mpsc::channel();
    let handler = events
        .start_event_watcher(move |_| {
            drop(taken.lock().unwrap().take());
            tx.send(()).unwrap();
        })
        .unwrap();
    record(&events, "a", "Started");
    let recorder = events.new_recorder("tester");
    // The handler may be waiting for the broadcaster already, or find it there later.
    *last.lock().unwrap() = Some(events);
    dropped.recv_timeout(LONG).unwrap();
    // If the handler was too early, the second event makes it drop the last owner.
    if last.lock().unwrap().is_some() {
        recorder.event(pod("b"), Normal, "Started", "");
    }
    assert!(handler.join(LONG));
    assert_eq!(recorder.event(pod("c"), Normal, "Started", ""), Recorded::Stopped);
}

#[test]
fn a_test_that_fails_with_a_broadcaster_in_hand_does_not_hang() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    events.start_event_watcher(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let failed = thread::spawn(move || {
        let _held = events;
        panic!("a test that fails");
    });
    assert!(failed.join().is_err());
    drop(gate);
}

// ── re-entrancy ──

#[test]
fn a_sink_may_use_the_broadcaster_it_serves() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let (answers_tx, answers) = mpsc::channel();
    let weak = Arc::downgrade(&events);
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        let Some(events) = weak.upgrade() else { return Ok(()) };
        if number == 0 {
            let flushed = events.flush(LONG);
            let recorded = events.new_recorder("sink").event(pod("sink"), Normal, "Stored", "");
            answers_tx.send((flushed, recorded, None)).unwrap();
        } else {
            let report = events.shutdown();
            answers_tx.send((Ok(()), Recorded::Stopped, Some(report.complete))).unwrap();
        }
        Ok(())
    });
    events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    assert_eq!(
        answers.recv_timeout(LONG).unwrap(),
        (Err(FlushError::WouldDeadlock), Recorded::Accepted, None)
    );
    assert_eq!(answers.recv_timeout(LONG).unwrap(), (Ok(()), Recorded::Stopped, Some(false)));
    let report = events.shutdown();
    assert!(report.complete);
    assert_eq!(sink.store.len(), 2);
}

// ── hooks ──

#[test]
fn scrub_comes_before_everybody() {
    let events = EventBroadcaster::builder()
        .max_message_len(20)
        .scrub(|event| {
            if event.message.contains("secret") {
                event.message = "(removed)".into();
            }
        })
        .build()
        .unwrap();
    let (seen, handler) = collect();
    events.start_event_watcher(handler).unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    events.start_logging(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    let store = MemorySink::new();
    events.start_recording_to_sink(store.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    recorder.event(pod("a"), Normal, "Login", "the password is a long secret");
    recorder.event(pod("b"), Normal, "Login", "ääääääääääääääääääää");
    events.shutdown();
    let expected = ["(removed)", "ääääääää..."];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(store.events().iter().map(|event| event.message.to_string()).collect::<Vec<_>>(), expected);
    assert!(lines.lock().unwrap().iter().zip(expected).all(|(line, message)| line.ends_with(message)));
    assert_eq!(events.stats().recorder.truncated, 1);
}

#[test]
fn on_loss_hears_of_every_refusal() {
    let clock = clock();
    let losses = Shared::default();
    let into = losses.clone();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .bus(BusOptions::default().incoming_len(1).max_batch(1))
        .scrub(|event| assert!(event.reason != "Unscrubbable", "a scrub that panics"))
        .on_loss(move |loss| into.lock().unwrap().push((loss.reason(), loss.to_string())))
        .build()
        .unwrap();
    let recorder = events.new_recorder("tester");
    let secret = "not for the log";
    assert_eq!(recorder.event(pod("a"), Normal, "", secret), Recorded::EmptyReason);
    assert_eq!(recorder.event(pod("a"), Normal, "Unscrubbable", secret), Recorded::ScrubPanicked);
    // A watcher that nobody reads holds up the dispatcher, so the incoming queue fills up.
    let held =
        events.watch_builder().name("held").queue_len(1).overflow(OverflowPolicy::Wait).watch().unwrap();
    until(|| recorder.event(pod("a\u{1b}"), Normal, "Full", secret) == Recorded::Full);
    drop(held);
    events.shutdown();
    assert_eq!(recorder.event(pod("a"), Normal, "Late", secret), Recorded::Stopped);

    // The watcher may have lost an event too, which the dispatcher held when the watcher was
    // dropped.
    losses.lock().unwrap().retain(|(reason, _)| !matches!(reason, LossReason::Dropped(_)));
    let losses = losses.lock().unwrap();
    let (first, last) = (&losses[..2], losses.last().unwrap());
    assert_eq!(first[0], (LossReason::EmptyReason, "tester: 1 event lost (empty reason): Pod/a".to_owned()));
    assert_eq!(first[1].0, LossReason::ScrubPanicked);
    assert_eq!(
        losses[2],
        (LossReason::QueueFull, r"tester: 1 event lost (incoming queue full): Pod/a\u{1b} Full".to_owned())
    );
    assert_eq!(last.0, LossReason::Stopped);
    assert!(losses.iter().all(|(_, text)| !text.contains(secret)));
    let stats = events.stats();
    assert_eq!(losses.len() as u64, stats.recorder.refused());
}

#[test]
fn on_loss_hears_of_watchers_unless_they_have_a_hook_of_their_own() {
    let losses = Shared::default();
    let into = losses.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.reason(), loss.place().to_owned(), loss.count()));
        })
        .build()
        .unwrap();
    let own = Shared::default();
    let into = own.clone();
    let _small = events.watch_builder().name("small").queue_len(1).watch().unwrap();
    let _newest = events
        .watch_builder()
        .name("newest")
        .queue_len(1)
        .overflow(OverflowPolicy::DropOldest)
        .watch()
        .unwrap();
    let _other = events
        .watch_builder()
        .queue_len(1)
        .on_drop(move |reason, events| into.lock().unwrap().push((reason, events.len())))
        .watch()
        .unwrap();
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    record(&events, "b", "Started");
    events.flush(LONG).unwrap();
    let dropped = |reason, name: &str| (LossReason::Dropped(reason), name.to_owned(), 1);
    assert_eq!(
        *losses.lock().unwrap(),
        [dropped(DropReason::Incoming, "small"), dropped(DropReason::Oldest, "newest")]
    );
    assert_eq!(*own.lock().unwrap(), [(DropReason::Incoming, 1)]);
}

#[test]
fn a_hook_that_records_is_not_told_of_what_it_loses() {
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let recorder = Arc::new(Mutex::new(None::<eventcast::Recorder>));
    let own = recorder.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let recorder = own.lock().unwrap().clone().unwrap();
            assert_eq!(recorder.event(pod("a"), Normal, "", ""), Recorded::EmptyReason);
        })
        .build()
        .unwrap();
    *recorder.lock().unwrap() = Some(events.new_recorder("hook"));
    events.new_recorder("tester").event(pod("a"), Normal, "", "");
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert_eq!(events.stats().recorder.empty_reason, 2);
    // The broadcaster reports again afterwards.
    events.new_recorder("tester").event(pod("a"), Normal, "", "");
    assert_eq!(told.load(Ordering::Relaxed), 2);
}

/// Each hook of the user's panics for one event. Everything else goes on.
#[test]
fn a_panic_in_any_hook_stops_nothing() {
    let clock = clock();
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .scrub(|event| assert!(event.reason != "Scrub", "scrub"))
        .on_loss(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            panic!("on_loss");
        })
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, op| {
        assert!(event_of(op).reason != "Sink", "sink");
        Ok(())
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    let handler = events.start_event_watcher(|event| assert!(event.reason != "Handler", "handler")).unwrap();
    let logging = events.start_logging(|line| assert!(!line.contains("  Log  "), "log")).unwrap();
    let on_drop_ran = Arc::new(AtomicBool::new(false));
    let ran = on_drop_ran.clone();
    let mut filtered = events
        .watch_builder()
        .name("filtered")
        .filter(|event| {
            assert!(event.reason != "Filter", "filter");
            true
        })
        .watch()
        .unwrap();
    let _full = events
        .watch_builder()
        .queue_len(1)
        .on_drop(move |_, _| {
            ran.store(true, Ordering::Relaxed);
            panic!("on_drop");
        })
        .watch()
        .unwrap();
    let recorder = events.new_recorder("tester");
    for reason in ["Scrub", "Sink", "Handler", "Log", "Filter", "Fine"] {
        let expected = if reason == "Scrub" { Recorded::ScrubPanicked } else { Recorded::Accepted };
        assert_eq!(recorder.event(pod("web-0"), Normal, reason, ""), expected);
        events.flush(LONG).unwrap();
    }
    let report = events.shutdown();
    assert!(report.complete, "{report}");
    let reasons: Vec<_> = sink.store.events().iter().map(|event| event.reason.to_string()).collect();
    assert_eq!(reasons, ["Handler", "Log", "Filter", "Fine"]);
    assert_eq!((recording.stats().rejected, recording.stats().panics), (1, 1));
    assert_balanced(&recording.stats());
    assert_eq!((handler.stats().panics, handler.stats().delivered), (1, 5));
    assert_eq!((logging.stats().panics, logging.stats().delivered), (1, 5));
    // A filter that panics ends its watcher. The events that the watcher got before stay readable.
    assert_eq!(filtered.events().count(), 3);
    assert!(on_drop_ran.load(Ordering::Relaxed));
    // The four are scrub, sink, handler and log.
    assert_eq!(told.load(Ordering::Relaxed), 4);
    assert_eq!(events.stats().recorder.hook_panics, 4);
}

// ── the rest ──

#[test]
fn flush_waits_for_recordings_and_names_the_one_that_is_late() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    events.recording().name("late").start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let flushing = events.clone();
    let flush = thread::spawn(move || flushing.flush(Duration::from_secs(1)));
    clock.wait_for_waiters(1);
    // When an event behind the flush has gone through the queue, the dispatcher has come to the
    // flush.
    let mut witness = events.watch_builder().watch().unwrap();
    record(&events, "web-1", "Started");
    witness.recv().unwrap();
    clock.advance(Duration::from_secs(1));
    let error = flush.join().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "not flushed in time, waiting for late");
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(sink.store.len(), 2);
}

#[test]
fn watchers_get_what_was_recorded_before_it_is_correlated() {
    let events = EventBroadcaster::new().unwrap();
    let mut watcher = events.watch_builder().filter(|event| event.type_ == "Warning").watch().unwrap();
    let recorder = events.new_recorder("tester");
    recorder.event(pod("web-0"), Normal, "Started", "");
    recorder.event(pod("web-0"), Warning, "BackOff", "");
    recorder.event(pod("web-0"), Warning, "BackOff", "");
    let counts: Vec<i32> = (0..2)
        .map(|_| match watcher.recv().unwrap() {
            Delivery::Event(event) => event.count,
            Delivery::Lagged(count) => panic!("{count} lost"),
        })
        .collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn a_handle_stops_what_it_was_given_for() {
    let events = EventBroadcaster::new().unwrap();
    let (seen, handler) = collect();
    let handle = events.start_event_watcher(handler).unwrap();
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    handle.stop();
    assert!(handle.join(LONG));
    record(&events, "b", "Started");
    assert!(events.shutdown().complete);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn options_out_of_range_are_named() {
    let build = |builder: eventcast::record::EventBroadcasterBuilder| builder.build().unwrap_err();
    let error = build(EventBroadcaster::builder().max_message_len(0));
    assert_eq!(error.to_string(), "max_message_len must be 1 byte or more, got 0");
    let error = build(EventBroadcaster::builder().bus(BusOptions::default().incoming_len(0)));
    assert_eq!(error.option(), "incoming_len");
}

#[test]
fn types_can_go_where_they_are_needed() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<EventBroadcaster>();
    shared::<eventcast::record::RecordingHandle>();
    shared::<eventcast::Recorder>();
    shared::<MemorySink>();
    shared::<eventcast::SinkError>();
    shared::<PublishError<Event>>();
}

// ── reports about handlers ──

/// Returns a broadcaster, and the list of all that its `on_loss` learns: the reason, the place, and
/// the events.
fn told() -> (Shared<(LossReason, String, Vec<String>)>, EventBroadcaster) {
    let told = Shared::default();
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .bus(BusOptions::default().queue_len(1))
        .on_loss(move |loss| {
            let reasons: Vec<_> = loss.events().iter().map(|event| event.reason.to_string()).collect();
            assert_eq!(loss.count(), reasons.len() as u64);
            into.lock().unwrap().push((loss.reason(), loss.place().to_owned(), reasons));
        })
        .build()
        .unwrap();
    (told, events)
}

#[test]
fn an_event_at_which_a_handler_panics_is_told_with_the_handlers_name() {
    let (told, events) = told();
    let is = |wanted: &'static str| move |event: &Event| assert!(event.reason != wanted, "{wanted}");
    let watcher = events.start_event_watcher(is("Watcher")).unwrap();
    events.start_logging(|line| assert!(!line.contains("  Logging  "), "log")).unwrap();
    let panics = |wanted| {
        let check = is(wanted);
        move |delivery: Delivery<&Event>| check(delivery.event().unwrap())
    };
    let spawned = events.watch_builder().name("spawned").spawn(panics("Spawned")).unwrap();
    // The runner's own hook for the losses of its queue makes no difference.
    let own =
        events.watch_builder().name("own").on_drop(|_, _| ()).stop_on_panic(true).runner(panics("Runner"));
    let own = own.unwrap();
    let (ran_tx, ran) = mpsc::channel();
    thread::spawn(move || {
        own.run();
        ran_tx.send(()).unwrap();
    });
    for reason in ["Watcher", "Logging", "Spawned", "Runner", "Fine"] {
        record(&events, "web-0", reason);
        events.flush(LONG).unwrap();
    }
    ran.recv_timeout(LONG).expect("it was to stop");
    let places = [watcher.stats().name, "logging".to_owned(), "spawned".to_owned(), "own".to_owned()];
    let expected: Vec<_> = ["Watcher", "Logging", "Spawned", "Runner"]
        .into_iter()
        .zip(places)
        .map(|(reason, place)| (LossReason::HandlerPanicked, place, vec![reason.to_owned()]))
        .collect();
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!((spawned.stats().delivered, spawned.stats().panics), (5, 1), "it went on");
    assert_eq!(LossReason::HandlerPanicked.to_string(), "handler panicked");
    assert!(events.shutdown().complete);
}

/// The events of a gap were reported when they were lost.
#[test]
fn a_panic_at_a_gap_is_counted_and_not_told() {
    let (told, events) = told();
    let (gate, pass) = gate();
    let handler = events.watch_builder().name("gaps").spawn(move |delivery: Delivery<&Event>| {
        assert!(delivery.event().is_some(), "a gap");
        pass();
    });
    let handler = handler.unwrap();
    record(&events, "web-0", "First");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "web-0", "Second");
    until(|| handler.stats().offered == 2);
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!((handler.stats().delivered, handler.stats().panics), (1, 1));
    let incoming = LossReason::Dropped(DropReason::Incoming);
    assert_eq!(*told.lock().unwrap(), [(incoming, "gaps".to_owned(), vec!["Second".to_owned()])]);
}

/// `on_loss` learns of the events that a handler discards at a deadline, although nobody asks
/// again.
#[test]
fn what_a_handler_gives_up_at_a_deadline_is_told() {
    let told = Shared::default();
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.reason(), loss.place().to_owned(), loss.count()));
        })
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let handler = events.watch_builder().name("slow").spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| handler.stats().queued == 3);
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    drop(gate);
    assert!(handler.join(LONG));
    let count = |told: &Shared<(LossReason, String, u64)>| -> u64 {
        told.lock().unwrap().iter().map(|(_, _, count)| count).sum()
    };
    until(|| handler.stats().lag == 0 && count(&told) >= handler.stats().dropped.abandoned);
    assert_eq!((handler.stats().dropped.abandoned, count(&told)), (2, 2));
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    assert!(told.lock().unwrap().iter().all(|(reason, place, _)| (*reason, &**place) == (abandoned, "slow")));
}

/// Each loss is reported once: to the watcher's own hook if there is one, and otherwise to the
/// broadcaster's.
#[test]
fn what_a_hook_of_the_watchers_own_learns_is_told_to_nobody_else() {
    let (told, events) = told();
    let own = Shared::default();
    let into = own.clone();
    let watcher = events
        .watch_builder()
        .overflow(OverflowPolicy::Wait)
        .on_drop(move |reason, events| into.lock().unwrap().extend(events.iter().map(|_| reason)))
        .watch()
        .unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    until(|| watcher.stats().dropped.abandoned == 2);
    events.shutdown();
    assert_eq!(*own.lock().unwrap(), [DropReason::Abandoned; 2]);
    assert_eq!(*told.lock().unwrap(), []);
}
