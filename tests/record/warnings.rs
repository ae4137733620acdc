//! Losses and failing stores as `tracing` sees them.

use std::fmt::{self, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::Jitter;
use eventcast::sink::SinkErrorKind;
use eventcast::{EventBroadcaster, Recorded, RetryPolicy, SinkError};
use test_support::in_own_process;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::support::{LONG, Scripted, clock, pod, record, until};

/// A subscriber that writes down every record of this library as `LEVEL name field=value ...`.
struct Log;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("eventcast")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = format!("{} {}", event.metadata().level(), event.metadata().name());
        event.record(&mut Fields(&mut line));
        LINES.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Installs the one subscriber that a process can have.
fn log() {
    tracing::subscriber::set_global_default(Log).unwrap();
}

fn lines() -> Vec<String> {
    LINES.lock().unwrap().clone()
}

#[test]
fn without_a_hook_a_loss_is_a_warning_at_most_once_a_second() {
    in_own_process!();
    log();
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
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
    // Another reason has its own second.
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

/// An unavailable store gives a line at once, with or without a hook, then one in ten seconds, and
/// one when it answers again.
#[test]
fn a_store_that_is_away_is_a_warning_at_once() {
    in_own_process!();
    log();
    let clock = clock();
    let retry = RetryPolicy::default().delay(Duration::from_secs(1)).jitter(Jitter::Never);
    let events =
        EventBroadcaster::builder().clock(clock.clock()).retry(retry).on_loss(|_| ()).build().unwrap();
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
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
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
            format!("INFO {name}: store answers again, unavailable since 2023-11-14T22:13:21Z"),
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
