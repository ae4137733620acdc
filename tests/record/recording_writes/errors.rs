//! Errors that are not worth another attempt.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

use std::sync::mpsc;
use std::time::Duration;

use eventcast::{EventBroadcaster, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, record};

use super::{broadcaster, reason_of};

#[test]
fn errors_that_are_not_worth_another_attempt_get_none() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |number, op| match &*event_of(op).reason {
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

#[test]
fn a_refusal_is_told_with_the_stores_words_escaped_and_cut() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send(loss.to_string()).unwrap())
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, _| {
        Err(SinkError::rejected(format!("\u{1b}[2J\r\n{}", "no ".repeat(1000))))
    });
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let told = losses.try_recv().unwrap();
    let refusal = recording.stats().last_refusal.unwrap();
    assert!(told.ends_with(&refusal) && refusal.starts_with(r"rejected: \u{1b}[2J\r\nno no"), "{told}");
    assert_eq!(refusal.chars().count(), "rejected: ".len() + 1000);
    let stats = recording.stats();
    assert!(stats.to_string().ends_with(&format!(", last refusal: {refusal}")));
    assert!(format!("{stats:#}").ends_with(&format!("\n    last refusal: {refusal}")), "{stats:#}");
}
