//! Losses and store failures as reported to `tracing`.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::Jitter;
use eventcast::sink::SinkErrorKind;
use eventcast::{EventBroadcaster, Recorded, Recorder, RetryPolicy, SinkError};
use test_support::in_own_process;

use crate::support::{Scripted, clock, clocked, pod, record, tried, until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::hostile::{PAYLOAD, assert_harmless_error, hostile};

/// A subscriber that passes each of this library's records to a function.
struct Subscribed<F>(F);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl<F: Fn(&tracing::Event<'_>) + 'static> Subscriber for Subscribed<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("eventcast")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        (self.0)(event);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The records, formatted as `LEVEL name field=value ...`.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Installs the only subscriber that a process can have.
fn log() {
    let add = |event: &tracing::Event<'_>| {
        let mut line = format!("{} {}", event.metadata().level(), event.metadata().name());
        event.record(&mut Fields(&mut line));
        LINES.lock().unwrap().push(line);
    };
    tracing::subscriber::set_global_default(Subscribed(add)).unwrap();
}

fn lines() -> Vec<String> {
    LINES.lock().unwrap().clone()
}

#[test]
fn without_a_hook_a_loss_is_a_warning_at_most_once_a_second() {
    in_own_process!();
    log();
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let recorder = events.recorder("tester");
    let lose =
        || assert_eq!(recorder.event(pod("web-0"), Normal, "", "not for the log"), Recorded::EmptyReason);
    for _ in 0..5 {
        lose();
    }
    clock.advance(Duration::from_millis(999));
    lose();
    clock.advance(Duration::from_millis(1));
    lose();
    events.close();
    // Losses with a different reason have their own one-second limit.
    assert_eq!(recorder.event(pod("web-0"), Normal, "Late", "not for the log"), Recorded::Closed);
    assert_eq!(
        lines().iter().map(|line| line.split_once(" message=").unwrap().1).collect::<Vec<_>>(),
        [
            "tester: 1 event lost (empty reason): Pod/web-0 unmentioned=0",
            "tester: 1 event lost (empty reason): Pod/web-0 unmentioned=5",
            "tester: 1 event lost (broadcaster closed): Pod/web-0 Late unmentioned=0",
        ]
    );
}

/// An unavailable store produces a line immediately, with or without a hook, then a line every ten
/// seconds, and a line when the store responds again.
#[test]
fn an_unavailable_store_is_a_warning_immediately() {
    in_own_process!();
    log();
    let clock = clock();
    let retry = RetryPolicy::default().delay(Duration::from_secs(1)).jitter(Jitter::Never);
    let events = clocked(&clock).retry(retry).on_loss(|_| ()).build().unwrap();
    let (sink, calls) = Scripted::new(&clock, |number, _| match number {
        0 => Err(SinkError::retry("401 Unauthorized\u{1b}[2J")),
        1..=12 => Err(SinkError::new(SinkErrorKind::Unavailable, "connection refused\n")),
        _ => Ok(()),
    });
    let recording = events.recording().name("cluster\u{1b}[2J").start(sink).unwrap();
    record(&events, "web-0", "Started");
    let messages = || -> Vec<String> {
        lines()
            .iter()
            .map(|line| line.replacen(" event ", " ", 1))
            .map(|line| {
                let (level, message) = line.split_once(" message=").unwrap();
                format!("{} {message}", level.split_once(' ').unwrap().0)
            })
            .collect()
    };
    for attempt in 0..13 {
        tried(&calls, &clock);
        assert_eq!(messages().len(), [1, 2, 3][usize::from(attempt >= 1) + usize::from(attempt >= 11)]);
        clock.advance(Duration::from_secs(1));
    }
    until(|| recording.stats().created == 1);
    let (name, text) = (r"cluster\u{1b}[2J", r"unavailable: connection refused\n");
    assert_eq!(
        messages(),
        [
            format!(
                r"WARN {name}: attempt 1 failed, the first one at 2023-11-14T22:13:20Z: may be tried again: 401 Unauthorized\u{{1b}}[2J unmentioned=0"
            ),
            format!("WARN {name}: store unavailable since 2023-11-14T22:13:21Z: {text} unmentioned=0"),
            format!("WARN {name}: store unavailable since 2023-11-14T22:13:21Z: {text} unmentioned=9"),
            format!("INFO {name}: store available again, unavailable since 2023-11-14T22:13:21Z"),
        ]
    );
}

#[test]
fn with_a_hook_nothing_is_logged() {
    in_own_process!();
    log();
    let events = EventBroadcaster::builder().on_loss(|_| ()).build().unwrap();
    events.recorder("tester").event(pod("web-0"), Normal, "", "");
    events.shutdown();
    assert!(lines().is_empty());
}

/// The subscriber does not escape anything itself.
#[test]
fn a_warning_shows_a_hostile_event_escaped() {
    in_own_process!();
    log();
    let events = EventBroadcaster::builder().scrub(|event| event.type_ = PAYLOAD.into()).build().unwrap();
    let (sink, _calls) =
        Scripted::new(&clock(), |_, op| Err(SinkError::rejected(op.event().message.to_string())));
    events.record_to(sink).unwrap();
    events.recorder(PAYLOAD).warning(hostile().involved_object, PAYLOAD, PAYLOAD);
    events.shutdown();
    assert!(!lines().is_empty());
    for line in lines() {
        assert_harmless_error(&line);
    }
}

/// The subscriber turns warnings into events, which are lost as well. The library does not report
/// these losses to the subscriber again.
#[test]
fn a_subscriber_may_record_what_it_receives() {
    let (slot, calls) = (Arc::new(OnceLock::<Recorder>::new()), Arc::new(AtomicU64::new(0)));
    let (own, count) = (slot.clone(), calls.clone());
    let subscriber = Subscribed(move |_: &tracing::Event<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        assert_eq!(own.get().unwrap().warning(pod("a"), "Reported", ""), Recorded::Closed);
    });
    tracing::subscriber::with_default(subscriber, || {
        let events = EventBroadcaster::new().unwrap();
        let recorder = slot.get_or_init(|| events.recorder("tester"));
        events.close();
        assert_eq!(recorder.normal(pod("a"), "R", ""), Recorded::Closed);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!((recorder.stats().closed, recorder.stats().hook_panics), (2, 0));
    });
}
