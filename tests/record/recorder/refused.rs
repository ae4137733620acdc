//! Refused events, whose messages are not formatted.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::stats::RecorderStats;
use eventcast::testing::FakeRecorder;
use eventcast::{EventBroadcaster, Recorded, Recorder};

use crate::support::{pod, with_losses};

use super::{fake, foo, lost, overfill};

#[test]
fn an_event_without_a_reason_is_refused_as_a_value() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let formatted = Cell::new(false);
    let message = Formatted(&formatted);
    assert_eq!(recorder.event(foo(), Normal, "", format_args!("{message}")), Recorded::EmptyReason);
    assert!(!formatted.get());
    assert_eq!(recorder.draft(foo(), Normal, String::new()).record(), Recorded::EmptyReason);
    assert_eq!(recorder.stats().empty_reason, 2);
    assert_eq!(recorder.stats().refused(), 2);
    assert!(fake.take().is_empty());
    let refused = recorder.for_object(foo()).event(Normal, "", "m");
    assert_eq!((refused, refused.is_accepted()), (Recorded::EmptyReason, false));
    assert_eq!(refused.to_string(), "the reason is empty");
}

#[test]
fn a_full_fake_refuses_and_counts() {
    let fake = FakeRecorder::new(2);
    let recorder = fake.recorder("tester");
    let about = fake.recorder("other").for_object(foo());
    assert!(recorder.event(foo(), Normal, "A", "").is_accepted());
    assert!(about.event(Normal, "B", "").is_accepted());
    assert_eq!(recorder.event(foo(), Normal, "C", ""), Recorded::Full);
    assert_eq!(about.event(Normal, "D", ""), Recorded::Full);
    assert_eq!(recorder.stats().full, 2, "all recorders share the counters");
    assert_eq!(fake.take_lines(), ["Normal A ", "Normal B "]);
    assert!(recorder.event(foo(), Normal, "E", "").is_accepted(), "there is space again");
    assert_eq!(FakeRecorder::new(0).recorder("tester").event(foo(), Normal, "A", ""), Recorded::Full);
}

struct Formatted<'a>(&'a Cell<bool>);

impl fmt::Display for Formatted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.set(true);
        f.write_str("formatted")
    }
}

#[test]
fn a_disabled_recorder_formats_nothing_and_counts() {
    let recorder = Recorder::disabled();
    let formatted = Cell::new(false);
    let message = Formatted(&formatted);
    assert_eq!(recorder.event(foo(), Normal, "R", format_args!("{message}")), Recorded::Disabled);
    assert_eq!(recorder.clone().event(foo(), Normal, "", ""), Recorded::Disabled);
    assert_eq!(recorder.for_object(foo()).draft(Normal, "R").record(), Recorded::Disabled);
    assert!(!formatted.get());
    let mut expected = RecorderStats::default();
    expected.disabled = 3;
    assert_eq!(recorder.stats(), expected);
    assert_eq!(
        recorder.stats().to_string(),
        "refused 3 (full 0, closed 0, disabled 3, empty reason 0, scrub panics 0), truncated 0"
    );
}

#[test]
fn a_closed_broadcaster_refuses_without_formatting() {
    let (events, losses) = with_losses(EventBroadcaster::builder(), lost);
    let recorder = events.recorder("test");
    let formatted = Cell::new(false);
    let message = Formatted(&formatted);
    // Recorders do not keep the broadcaster open.
    drop(events);
    assert_eq!(recorder.normal(pod("a"), "R", format_args!("{message}")), Recorded::Closed);
    assert_eq!(recorder.normal(pod("a"), "Q", "secret"), Recorded::Closed);
    let draft = recorder.draft(pod("a"), Normal, "P").message("secret").annotation("a", "secret");
    assert_eq!(draft.record(), Recorded::Closed);
    assert_eq!(recorder.normal(pod("a"), "", "secret"), Recorded::EmptyReason);
    assert!(!formatted.get());
    let stats = recorder.stats();
    assert_eq!((stats.closed, stats.empty_reason, stats.hook_panics), (3, 1, 0));
    let losses: Vec<_> = losses.try_iter().collect();
    let seen: Vec<_> = losses.iter().map(|(reason, about, _)| (*reason, &**about)).collect();
    let closed = LossReason::Closed;
    let expected =
        [(closed, "Pod/a R"), (closed, "Pod/a Q"), (closed, "Pod/a P"), (LossReason::EmptyReason, "Pod/a ")];
    assert_eq!(seen, expected);
    // These events have not been scrubbed, so the hook must not see their messages and annotations.
    assert!(losses.iter().all(|(.., shown)| !shown.contains("secret")));
}

#[test]
fn a_full_queue_refuses_and_reports() {
    let (received, losses) = overfill(EventBroadcaster::builder());
    assert_eq!(received.into_iter().map(|e| e.reason).collect::<Vec<_>>(), ["A", "B", "B"]);
    let [(LossReason::QueueFull, about, shown)] = &losses[..] else { panic!("{losses:?}") };
    assert_eq!(about, "Pod/web-0 C");
    assert!(shown.contains(r#"name: "web-0."#), "the refused event has a name");
}

struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a `Display` that panics")
    }
}

/// The panic propagates to the caller, and the recorder's state does not change.
#[test]
fn a_message_that_panics_records_nothing() {
    let events = EventBroadcaster::new().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.recorder("tester");
    let panicked =
        catch_unwind(AssertUnwindSafe(|| recorder.event(pod("a"), Normal, "R", format_args!("{Broken}"))));
    assert!(panicked.is_err());
    assert!(recorder.event(pod("a"), Normal, "R", "fine").is_accepted());
    events.shutdown();
    assert_eq!(watcher.events().map(|event| event.message).collect::<Vec<_>>(), ["fine"]);
    let stats = events.stats();
    assert_eq!((stats.bus.accepted, stats.recorder.refused()), (1, 0));
}
