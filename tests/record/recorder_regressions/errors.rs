//! Errors, and the text in them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::correlator::SpamFilter;
use eventcast::error::FlushError;
use eventcast::sink::{SinkErrorKind, SinkOp};
use eventcast::{CorrelatorOptions, EventBroadcaster, MemorySink, SinkError};

use crate::support::{self, Bomb, LONG, Scripted, assert_balanced, clock, event_of, gate, record};

use super::broadcaster;

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
    let recording = events.record_to(sink.clone()).unwrap();
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
        SinkOp::Patch(..) => Err(SinkError::new(SinkErrorKind::NotFound, Bomb)),
        _ => Ok(()),
    });
    let recording = events.record_to(sink.clone()).unwrap();
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
        SinkError::retry(hostile()).with_retry_after(LONG),
        SinkError::rejected(Raw(hostile())),
        SinkError::new(SinkErrorKind::NotFound, Raw(hostile())),
        SinkError::new(SinkErrorKind::AlreadyExists, Raw(hostile())),
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
    events.record_to(sink.clone()).unwrap();
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
    let filtered = Arc::new(Mutex::new(0));
    let count = filtered.clone();
    let options = CorrelatorOptions::default()
        .clock(support::clock().clock())
        .lru_cache_size(1)
        .on_skip(move |_| *count.lock().unwrap() += 1)
        .spam_filter(SpamFilter::default().burst(1).qps(1.0));
    let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
    for seconds in [0, 1, 0] {
        record(&events, "a", "Started");
        events.flush(LONG).unwrap();
        clock.advance(Duration::from_secs(seconds));
    }
    let stats = recording.stats();
    assert_eq!((stats.created, stats.skipped, stats.updated, stats.evicted), (1, 0, 2, 0));
    assert_eq!(*filtered.lock().unwrap(), 1);
    record(&events, "b", "Started");
    events.flush(LONG).unwrap();
    // These are a group, an event and a budget.
    assert_eq!(recording.stats().evicted, 3);
}
