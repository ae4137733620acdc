//! Tests of faults that reviews of the recorder half looked for. Each test was written to fail, and
//! some of them did.

use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::error::FlushError;
use eventcast::event::EventPatch;
use eventcast::record::LossReason;
use eventcast::sink::{MemorySinkOptions, SinkErrorKind, SinkOp};
use eventcast::stats::{DropReason, RecordingStats};
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, EventSink, MemorySink, OverflowPolicy, Recorded,
    RetryPolicy, SinkError, Timestamp,
};

use crate::support::{
    self, Bomb, LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record, until,
};

fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap()
}

/// Runs a function on another thread, and panics if it does not return in time. A hang is thus a
/// failure, not a test that never ends.
fn in_time<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = tx.send(run());
    });
    match rx.recv_timeout(LONG) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing, so it panicked"))
        }
    }
}

/// Returns every character that the library escapes except NUL, in one text.
fn hostile() -> String {
    (0..=0x10_FFFF).filter_map(char::from_u32).filter(|c| is_hostile(*c) && *c != '\0').collect()
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{061C}' | '\u{200E}' | '\u{200F}')
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn assert_harmless(shown: &str) {
    let found: Vec<_> = shown.chars().filter(|c| is_hostile(*c)).collect();
    assert!(found.is_empty(), "{found:?}");
}

// ── errors of a sink ──

#[test]
fn an_error_whose_destructor_panics_is_tried_again_like_any_other() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) =
        Scripted::new(&clock, |number, _| if number == 0 { Err(SinkError::retry(Bomb)) } else { Ok(()) });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.retried, stats.panics), (1, 1, 1));
    assert_eq!(sink.store.len(), 1);
}

#[test]
fn an_expired_event_whose_error_panics_when_it_goes_is_created() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) = Scripted::new(&clock, |_, op| match op {
        SinkOp::Patch(..) => Err(SinkError::not_found(Bomb)),
        _ => Ok(()),
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    // The event in the store has expired.
    clock.advance(Duration::from_secs(3600));
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.recreated, stats.panics), (2, 1, 1));
}

/// An error that shows its text unescaped, as the errors of some crates do.
struct Raw(String);

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raw {}

#[test]
fn no_form_of_an_error_shows_what_controls_a_terminal() {
    for error in [
        SinkError::retry(Raw(hostile())),
        SinkError::retry_after(hostile(), LONG),
        SinkError::rejected(Raw(hostile())),
        SinkError::not_found(Raw(hostile())),
        SinkError::already_exists(Raw(hostile())),
    ] {
        assert_harmless(&error.to_string());
        assert_harmless(&format!("{error:?}"));
        assert_harmless(&format!("{error:#?}").replace('\n', ""));
    }
}

#[test]
fn a_hostile_name_reaches_no_statistics_or_errors() {
    let events = EventBroadcaster::new().unwrap();
    let name = hostile();
    let (gate, pass) = gate();
    let recording = events.recording().name(&name).start(MemorySink::new()).unwrap();
    events.watch_builder().name(&name).spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let error = events.flush(Duration::ZERO).unwrap_err();
    let FlushError::Timeout { .. } = &error else { panic!("{error}") };
    for shown in [error.to_string(), format!("{error:?}"), format!("{recording:?}"), format!("{events:?}")] {
        assert_harmless(&shown);
    }
    assert_harmless(&format!("{:?}", events.recording().name(&name)));
    assert_harmless(&format!("{:?}", events.watch_builder().name(&name)));
    drop(gate);
    let report = events.shutdown();
    assert_harmless(&report.to_string());
    assert_harmless(&format!("{report:?}"));
    assert_harmless(&events.stats().to_string());
    assert_harmless(&report.recordings[0].to_string());
}

#[test]
fn every_answer_counts_for_the_next_patch() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) = Scripted::new(&clock, |_, _| Ok(()));
    events.start_recording_to_sink(sink.clone()).unwrap();
    for _ in 0..4 {
        clock.advance(Duration::from_secs(1));
        record(&events, "a", "Started");
        events.flush(LONG).unwrap();
    }
    let versions: Vec<_> =
        sink.calls().iter().map(|op| event_of(op).metadata.resource_version().to_string()).collect();
    assert_eq!(versions, ["", "1", "2", "3"]);
}

/// The correlator refills budgets by the broadcaster's clock, whatever clock the options have, and
/// it counts the entries that it evicts.
#[test]
fn a_recordings_correlator_goes_by_the_clock_of_the_broadcaster() {
    let clock = clock();
    let events = broadcaster(&clock);
    let options = CorrelatorOptions::default()
        .clock(support::clock().clock())
        .lru_cache_size(1)
        .spam_filter(SpamFilter::default().burst(1).qps(1.0));
    let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
    for seconds in [0, 1, 0] {
        record(&events, "a", "Started");
        events.flush(LONG).unwrap();
        clock.advance(Duration::from_secs(seconds));
    }
    let stats = recording.stats();
    assert_eq!((stats.created, stats.skipped, stats.updated, stats.evicted), (1, 1, 1, 0));
    record(&events, "b", "Started");
    events.flush(LONG).unwrap();
    // These are a group, an event and a budget.
    assert_eq!(recording.stats().evicted, 3);
}

/// A recording that starts while events are published is in the statistics from its first event on.
#[test]
fn a_recording_is_listed_before_it_does_anything() {
    for _ in 0..100 {
        let events = Arc::new(EventBroadcaster::new().unwrap());
        let own = Arc::downgrade(&events);
        let unlisted = Arc::new(AtomicU64::new(0));
        let counter = unlisted.clone();
        let (sink, _calls) = Scripted::new(&clock(), move |_, _| {
            let listed = own.upgrade().is_none_or(|events| !events.stats().recordings.is_empty());
            counter.fetch_add(u64::from(!listed), Ordering::Relaxed);
            Ok(())
        });
        let (ready_tx, ready) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                ready_tx.send(()).unwrap();
                let recorder = events.new_recorder("tester");
                for _ in 0..200 {
                    let _ = recorder.event(pod("a"), Normal, "Started", "");
                }
            });
            ready.recv_timeout(LONG).unwrap();
            events.start_recording_to_sink(sink).unwrap();
        });
        events.shutdown();
        assert_eq!(unlisted.load(Ordering::Relaxed), 0);
    }
}

// ── what nobody may see ──

#[test]
fn what_is_told_of_a_refused_event_has_been_scrubbed() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .scrub(|event| {
            assert!(!event.message.contains("unscrubbable"), "cannot scrub this");
            for text in [&mut event.involved_object.name, &mut event.reason] {
                *text = text.replace("secret", "*").into();
            }
        })
        .on_loss(move |loss| {
            let shown = format!("{loss} {loss:?} {:?}", loss.events());
            into.lock().unwrap().push((loss.reason(), shown));
        })
        .build()
        .unwrap();
    let recorder = events.new_recorder("tester");
    assert_eq!(recorder.event(pod("secret-a"), Normal, "", ""), Recorded::EmptyReason);
    assert_eq!(recorder.event(pod("secret-b"), Normal, "secret", "unscrubbable"), Recorded::ScrubPanicked);
    events.close();
    assert_eq!(recorder.event(pod("secret-c"), Normal, "secret", ""), Recorded::Stopped);
    assert_eq!(recorder.draft(pod("secret-d"), Normal, "secret").record(), Recorded::Stopped);
    let told = told.lock().unwrap();
    let reasons: Vec<_> = told.iter().map(|(reason, _)| *reason).collect();
    let stopped = LossReason::Stopped;
    assert_eq!(reasons, [LossReason::EmptyReason, LossReason::ScrubPanicked, stopped, stopped]);
    for (_, shown) in told.iter() {
        assert!(shown.contains("Pod/*-") && !shown.contains("secret"), "{shown}");
    }
}

#[test]
fn an_event_that_cannot_be_scrubbed_at_all_is_told_without_a_word_of_it() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .scrub(|_| panic!("nothing can be scrubbed"))
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.count(), format!("{loss} {:?}", loss.events())));
        })
        .build()
        .unwrap();
    let recorder = events.new_recorder("tester");
    assert_eq!(recorder.event(pod("secret"), Warning, "secret", "secret"), Recorded::ScrubPanicked);
    events.close();
    assert_eq!(recorder.event(pod("secret"), Warning, "secret", "secret"), Recorded::Stopped);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(count, shown)| *count == 1 && !shown.contains("secret")), "{told:?}");
    let stats = recorder.stats();
    assert_eq!((stats.scrub_panics, stats.stopped, stats.refused(), stats.hook_panics), (1, 1, 2, 0));
}

// ── names ──

/// Events of different reporters are in different groups. Events about different parts of one
/// object are in the same group.
#[test]
fn a_group_is_of_one_reporter_and_all_parts_of_an_object() {
    let fold = |change: fn(&mut Event, &str)| {
        let correlator = EventCorrelator::new(CorrelatorOptions::default()).unwrap();
        let seen = |i: usize| {
            let mut event = Event::default();
            event.involved_object = pod("web-0");
            event.message = format!("message {i}").into();
            event.count = 1;
            change(&mut event, if i % 2 == 0 { "even" } else { "odd" });
            let Correlation::Create { event, .. } = correlator.correlate(&event) else { panic!("a repeat") };
            event.message.starts_with("(combined")
        };
        (0..10).map(seen).filter(|combined| *combined).count()
    };
    assert_eq!(fold(|event, part| event.involved_object.field_path = part.to_owned().into()), 1);
    assert_eq!(fold(|event, version| event.involved_object.resource_version = version.to_owned().into()), 1);
    assert_eq!(fold(|event, controller| event.reporting_controller = controller.to_owned().into()), 0);
    assert_eq!(fold(|event, instance| event.reporting_instance = instance.to_owned().into()), 0);
    assert_eq!(fold(|event, uid| event.involved_object.uid = uid.to_owned().into()), 0);
}

/// Two correlators on one clock that see the same events give the same names, so a test sees the
/// same names every time.
#[test]
fn a_group_has_one_name_in_all_correlators_of_a_clock() {
    let clock = clock();
    let name = || {
        let correlator = EventCorrelator::new(CorrelatorOptions::default().clock(clock.clock())).unwrap();
        let mut last = None;
        for i in 0..10 {
            let mut event = Event::default();
            event.involved_object = pod("web-0");
            event.message = format!("message {i}").into();
            event.count = 1;
            if let Correlation::Create { event, .. } = correlator.correlate(&event) {
                last = Some(event.metadata.name);
            }
        }
        last.unwrap()
    };
    assert_eq!(name(), name());
}

#[test]
fn names_stay_valid_and_unique_at_the_ends_of_time() {
    let far = Duration::from_secs(300_000_000_000);
    for (at, shown) in [
        (SystemTime::UNIX_EPOCH - far, Timestamp::MIN),
        (SystemTime::UNIX_EPOCH, Timestamp::UNIX_EPOCH),
        (SystemTime::UNIX_EPOCH + far, Timestamp::MAX),
    ] {
        let clock = FakeClock::new(at);
        let fake = eventcast::testing::FakeRecorder::with_clock(100, clock.clock());
        for _ in 0..10 {
            for name in ["web-0", "Web_0", ""] {
                fake.recorder().event(pod(name), Normal, "R", "");
            }
            clock.advance(Duration::from_secs(1));
        }
        let events = fake.take();
        let names: HashSet<_> = events.iter().map(|event| event.metadata.name.to_string()).collect();
        assert_eq!(names.len(), 30);
        for event in &events {
            let name = &event.metadata.name;
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
            assert!(name.starts_with("web-0.") || name.len() == 36, "{name}");
            // The clock advanced by ten seconds in all.
            let at = event.first_timestamp.unwrap();
            assert!(at >= shown && at.duration_since(shown) < Duration::from_secs(10), "{at}");
            assert_eq!(Event::from_json(&event.to_json()).unwrap().metadata.name, *name);
        }
    }
}

// ── numbers at their ends ──

#[test]
fn the_limit_of_a_message_holds_but_for_the_prefix_of_a_group() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).max_message_len(20).build().unwrap();
    let sink = Scripted::obedient(&clock);
    events.start_recording_to_sink(sink.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    for i in 0..10 {
        recorder.eventf(pod("a"), Normal, "R", format_args!("{i}: a message that is too long"));
    }
    events.shutdown();
    let mut lens: Vec<_> = sink.store.events().iter().map(|event| event.message.len()).collect();
    assert_eq!(lens.pop(), Some(20 + "(combined from similar events): ".len()));
    assert_eq!(lens, [20; 9]);
}

/// Go compares times in the form in which it writes them, in whole seconds.
#[test]
fn a_patch_leaves_out_every_time_that_is_written_as_the_epoch() {
    let mut event = Event::default();
    event.count = 2;
    event.last_timestamp = Timestamp::new(0, 999_999_999);
    assert_eq!(EventPatch::new(&event).as_str(), r#"{"count":2}"#);
    event.last_timestamp = Timestamp::new(-1, 999_999_999);
    assert_eq!(EventPatch::new(&event).as_str(), r#"{"count":2,"lastTimestamp":"1969-12-31T23:59:59Z"}"#);
}

#[test]
fn a_time_has_as_many_digits_as_are_asked_for() {
    let at = Timestamp::new(0, 120_000_000).unwrap();
    for digits in 1..15_usize {
        let shown = format!("{at:.digits$}");
        assert_eq!(shown.len(), "1970-01-01T00:00:00.Z".len() + digits, "{shown}");
        assert_eq!(
            shown.parse(),
            Ok(Timestamp::new(0, if digits == 1 { 100_000_000 } else { 120_000_000 }).unwrap())
        );
    }
}

#[test]
fn a_count_at_its_end_stays_there() {
    let clock = clock();
    let options = CorrelatorOptions::default().clock(clock.clock()).spam_filter(None);
    let correlator = EventCorrelator::new(options).unwrap();
    let mut event = Event::default();
    event.count = i32::MAX - 1;
    assert!(matches!(correlator.correlate(&event), Correlation::Create { .. }));
    for _ in 0..3 {
        let Correlation::Update { event, patch, .. } = correlator.correlate(&event) else { panic!() };
        assert_eq!(event.count, i32::MAX);
        assert!(patch.as_str().starts_with(r#"{"count":2147483647,"#));
    }
}

#[test]
fn no_duration_is_too_long() {
    in_time(|| {
        let clock = clock();
        clock.advance(Duration::from_secs(1));
        let retry = RetryPolicy::default().delay(Duration::MAX).max_delay(Duration::MAX);
        let aggregation = Aggregation::default().max_interval(Duration::MAX);
        let correlator = CorrelatorOptions::default().aggregation(aggregation);
        let options = MemorySinkOptions::default().ttl(Duration::MAX);
        let store = MemorySink::with_clock(options, clock.clock()).unwrap();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .retry(retry)
            .correlator(correlator)
            .drop_timeout(Duration::MAX)
            .build()
            .unwrap();
        let (sink, calls) = Scripted::new(&clock, |_, op| match &*event_of(op).reason {
            "Wait" => Err(SinkError::retry_after("", Duration::MAX)),
            "Retry" => Err(SinkError::retry("")),
            _ => Ok(()),
        });
        events.start_recording_to_sink(store.clone()).unwrap();
        let pausing = events.start_recording_to_sink(sink.clone()).unwrap();
        record(&events, "a", "Started");
        record(&events, "a", "Wait");
        record(&events, "a", "Retry");
        calls.recv_timeout(LONG).unwrap();
        calls.recv_timeout(LONG).unwrap();
        // Both recordings must have been offered all three events before the end begins.
        until(|| store.len() == 3 && pausing.stats().watcher.offered == 3);
        clock.advance(Duration::from_secs(1 << 40));
        assert_eq!(store.len(), 3);
        pausing.stop();
        assert!(pausing.join(Duration::MAX));
        assert_eq!(events.flush(Duration::MAX), Ok(()));
        let report = events.shutdown_timeout(Duration::MAX);
        assert_balanced(&report.recordings[1]);
        assert_eq!((report.recordings[1].abandoned, report.recordings[1].retried), (2, 2));
    });
}

// ── hooks that call back ──

/// A hook may ask for anything on every thread that reports a loss: nothing hangs, and no event is
/// lost because of it.
#[test]
fn a_hook_may_call_everything() {
    in_time(|| {
        let clock = clock();
        let slot: Arc<OnceLock<Arc<EventBroadcaster>>> = Arc::default();
        let own = slot.clone();
        let told = Arc::new(AtomicU64::new(0));
        let counter = told.clone();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .bus(BusOptions::default().queue_len(2))
            .retry(at_once())
            .on_loss(move |_| {
                let events = own.get().unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = events.flush(Duration::ZERO);
                let _ = events.stats().to_string();
                let recorder = events.new_recorder("hook");
                let _ = recorder.event(pod("hook"), Normal, "FromHook", "");
                if let Ok(handle) = events.start_event_watcher(|_| ()) {
                    handle.stop();
                    let _ = handle.join(Duration::ZERO);
                }
                let _ = events.shutdown_timeout(Duration::ZERO);
            })
            .build()
            .unwrap();
        let events = slot.get_or_init(|| Arc::new(events));
        let (sink, _calls) = Scripted::new(&clock, |_, _| Err(SinkError::rejected("no")));
        let recording = events.start_recording_to_sink(sink).unwrap();
        let _full = events.watch_builder().name("full").queue_len(1).watch().unwrap();
        let recorder = events.new_recorder("tester");
        // The losses occur on this thread, on the dispatcher and on the recording's thread.
        recorder.event(pod("a"), Normal, "", "");
        assert_eq!(recorder.event(pod("a"), Normal, "R", ""), Recorded::Stopped);
        assert!(recording.join(Duration::MAX));
        assert!(told.load(Ordering::Relaxed) >= 2);
        // The dispatcher counts on its own thread the events that it was still offering to the
        // recording.
        let mut stats = recording.stats();
        until(|| {
            stats = recording.stats();
            stats.watcher.lag == 0
        });
        assert_balanced(&stats);
    });
}

#[test]
fn a_sink_may_close_or_shut_down_from_within() {
    in_time(|| {
        let clock = clock();
        let slot: Arc<OnceLock<Arc<EventBroadcaster>>> = Arc::default();
        let own = slot.clone();
        let events = slot.get_or_init(|| Arc::new(broadcaster(&clock)));
        let (sink, _calls) = Scripted::new(&clock, move |number, op| {
            let events = own.get().unwrap();
            if number == 0 {
                assert!(!events.shutdown().complete);
                assert_eq!(events.flush(LONG), Err(FlushError::WouldDeadlock));
            }
            let name = &event_of(op).involved_object.name;
            if name == "a" { Err(SinkError::retry("after the end has begun")) } else { Ok(()) }
        });
        let recording = events.start_recording_to_sink(sink).unwrap();
        record(events, "a", "Started");
        let _ = events.new_recorder("tester").event(pod("b"), Normal, "Started", "");
        assert!(recording.join(LONG));
        let report = events.shutdown();
        assert!(!report.complete, "an event was abandoned");
        assert_balanced(&report.recordings[0]);
        assert_eq!(report.recordings[0].abandoned, 1);
    });
}

/// The last owner of a broadcaster may be any of the broadcaster's own threads.
#[test]
fn a_broadcaster_may_be_dropped_by_the_dispatcher() {
    in_time(|| {
        let (tx, rx) = mpsc::channel();
        let events = Arc::new(EventBroadcaster::new().unwrap());
        let recorder = events.new_recorder("tester");
        let slot = Arc::new(Mutex::new(None));
        let own = slot.clone();
        let mut watcher = events
            .watch_builder()
            .filter(move |_| {
                let last: Option<Arc<EventBroadcaster>> = own.lock().unwrap().take();
                drop(last);
                tx.send(()).unwrap();
                true
            })
            .watch()
            .unwrap();
        *slot.lock().unwrap() = Some(events);
        assert!(recorder.event(pod("a"), Normal, "R", "").is_accepted());
        rx.recv_timeout(LONG).unwrap();
        assert_eq!(watcher.events().count(), 1);
    });
}

struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a `Display` that panics")
    }
}

/// The panic reaches the caller, and the recorder stays as it was.
#[test]
fn a_message_that_panics_records_nothing() {
    let events = EventBroadcaster::new().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.new_recorder("tester");
    let panicked =
        catch_unwind(AssertUnwindSafe(|| recorder.eventf(pod("a"), Normal, "R", format_args!("{Broken}"))));
    assert!(panicked.is_err());
    assert!(recorder.event(pod("a"), Normal, "R", "fine").is_accepted());
    events.shutdown();
    assert_eq!(watcher.events().map(|event| event.message).collect::<Vec<_>>(), ["fine"]);
    let stats = events.stats();
    assert_eq!((stats.bus.accepted, stats.recorder.refused()), (1, 0));
}

/// A subscriber that turns warnings into events, which are lost too. The library does not report
/// these losses to the subscriber again.
#[cfg(feature = "tracing")]
#[test]
fn a_subscriber_may_record_what_it_is_told() {
    use tracing::span::{Attributes, Id, Record};

    struct Recording(Arc<OnceLock<eventcast::Recorder>>, Arc<AtomicU64>);

    impl tracing::Subscriber for Recording {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().starts_with("eventcast")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.1.fetch_add(1, Ordering::Relaxed);
            let recorder = self.0.get().unwrap();
            assert_eq!(recorder.event(pod("a"), Warning, "Told", ""), Recorded::Stopped);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    let (slot, told) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(0)));
    tracing::subscriber::with_default(Recording(slot.clone(), told.clone()), || {
        let events = EventBroadcaster::new().unwrap();
        let recorder = slot.get_or_init(|| events.new_recorder("tester"));
        events.close();
        assert_eq!(recorder.event(pod("a"), Normal, "R", ""), Recorded::Stopped);
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert_eq!((recorder.stats().stopped, recorder.stats().hook_panics), (2, 0));
    });
}

// ── the end ──

#[test]
fn what_was_given_up_is_told_once_however_many_ask() {
    const THREADS: usize = 4;
    for _ in 0..200 {
        let clock = clock();
        let told = Arc::new(AtomicU64::new(0));
        let counter = told.clone();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .on_loss(move |loss| {
                counter.fetch_add(loss.count(), Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let (gate, pass) = gate();
        let handler = events.start_event_watcher(move |_| pass()).unwrap();
        for name in ["a", "b", "c"] {
            record(&events, name, "Started");
        }
        gate.entered.recv_timeout(LONG).unwrap();
        assert!(!events.shutdown_timeout(Duration::ZERO).complete);
        drop(gate);
        // The dispatcher may reach the last events only now. It then abandons them itself.
        until(|| handler.stats().dropped.abandoned == 2);
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    events.shutdown();
                });
            }
        });
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }
}

/// The shutdown does not report again the events that the dispatcher abandoned and reported.
#[test]
fn what_a_watcher_was_waited_for_is_told_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.reason(), loss.place().to_owned(), loss.count()));
        })
        .build()
        .unwrap();
    let watcher =
        events.watch_builder().name("unread").queue_len(1).overflow(OverflowPolicy::Wait).watch().unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    until(|| watcher.stats().dropped.abandoned == 2);
    events.shutdown();
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    let told = told.lock().unwrap();
    assert!(told.iter().all(|(reason, place, _)| *reason == abandoned && place == "unread"), "{told:?}");
    assert_eq!(told.iter().map(|(.., count)| count).sum::<u64>(), 2, "{told:?}");
}

/// Every call returns the report of the first call, whatever became of the event that the sink was
/// writing then.
#[test]
fn a_report_is_kept_although_the_sink_comes_back() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.start_recording_to_sink(sink).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let report = events.shutdown_timeout(Duration::ZERO);
    assert_eq!((report.complete, report.recordings[0].created), (false, 0));
    drop(gate);
    assert!(recording.join(LONG));
    assert_eq!(recording.stats().created, 1);
    assert_eq!(events.shutdown(), report);
    assert_eq!(events.shutdown_timeout(LONG), report);
}

/// The correlator's caches hold thousands of texts, and its functions are the user's, so the end of
/// the recording drops both.
#[test]
fn a_recording_that_has_ended_keeps_nothing_of_its_correlator() {
    let clock = clock();
    let events = broadcaster(&clock);
    let token = Arc::new(());
    let held = token.clone();
    let options = CorrelatorOptions::default().spam_key(move |event| {
        let _ = &held;
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
    for i in 0..12 {
        events.new_recorder("tester").eventf(pod("a"), Normal, "R", format_args!("message {i}"));
    }
    events.flush(LONG).unwrap();
    assert_eq!((recording.stats().aggregated, recording.stats().evicted), (3, 0));
    recording.stop();
    assert!(recording.join(LONG));
    assert_eq!(Arc::strong_count(&token), 1);
    let stats = recording.stats();
    assert_eq!((stats.aggregated, stats.created, stats.updated), (3, 10, 2));
    assert_eq!(events.stats().recordings, [stats]);
}

/// A function's destructor may call any method of the broadcaster, and may panic.
#[test]
fn the_destructor_of_a_function_may_call_back_and_panic() {
    struct Last(Arc<EventBroadcaster>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.0.stats();
            panic!("a function that panics when it goes");
        }
    }
    in_time(|| {
        let events = Arc::new(broadcaster(&clock()));
        for _ in 0..70 {
            let last = Last(events.clone());
            let options = CorrelatorOptions::default().spam_key(move |event| {
                let _ = &last;
                event.reason.clone()
            });
            let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
            record(&events, "a", "Started");
            events.flush(LONG).unwrap();
            recording.stop();
            assert!(recording.join(LONG));
        }
        // More recordings have ended than the statistics keep by name.
        let all = events.stats().recordings;
        assert!(all.len() <= 70, "{}", all.len());
        assert_eq!(all.iter().map(RecordingStats::handled).sum::<u64>(), 70);
    });
}

/// A sink and a function whose destructors both panic are dropped one after the other. Two panics
/// at the same time would end the process.
#[test]
fn what_a_recording_holds_goes_one_by_one() {
    struct Fused(MemorySink, mpsc::Sender<()>);
    impl EventSink for Fused {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            self.0.create(event)
        }

        fn update(&self, event: &Event) -> Result<Event, SinkError> {
            self.0.update(event)
        }
    }
    impl Drop for Fused {
        fn drop(&mut self) {
            let _ = self.1.send(());
            panic!("a sink that panics when it goes");
        }
    }
    struct Fuse(mpsc::Sender<()>);
    impl Drop for Fuse {
        fn drop(&mut self) {
            let _ = self.0.send(());
            panic!("a function that panics when it goes");
        }
    }
    let events = broadcaster(&clock());
    let (tx, gone) = mpsc::channel();
    let fuse = Fuse(tx.clone());
    let options = CorrelatorOptions::default().spam_key(move |event| {
        let _ = &fuse;
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(Fused(MemorySink::new(), tx)).unwrap();
    record(&events, "a", "Started");
    assert!(events.shutdown().complete);
    assert!(recording.join(LONG));
    assert_eq!(gone.iter().count(), 2);
    assert_balanced(&recording.stats());
}

// ── the store ──

#[test]
fn a_name_that_the_store_completes_is_as_valid_as_any() {
    let store = MemorySink::new();
    let mut event = Event::default();
    event.metadata.set_generate_name("a/../b");
    assert_eq!(store.create(&event).unwrap_err().kind(), SinkErrorKind::Rejected);
    assert!(store.is_empty());
}

// ── configuration ──

#[test]
fn options_are_read_from_objects_only() {
    macro_rules! refuses {
        ($($type:ty),*) => {$(
            for text in ["[]", "[5]", "null", "5", r#""x""#] {
                let error = serde_json::from_str::<$type>(text).unwrap_err().to_string();
                assert!(error.contains("as an object"), "{text}: {error}");
            }
            assert!(serde_json::from_str::<$type>("{}").is_ok());
        )*};
    }
    refuses!(RetryPolicy, CorrelatorOptions, Aggregation, SpamFilter, MemorySinkOptions);
    let error = serde_json::from_str::<CorrelatorOptions>(r#"{"aggregation": []}"#).unwrap_err().to_string();
    assert!(error.contains("as an object"), "{error}");
}
