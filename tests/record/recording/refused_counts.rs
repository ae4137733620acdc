//! Repeats that the sink refused, and whose count a later write carries.

use eventcast::sink::{SinkOp, WriteOrder};
use eventcast::{CorrelatorOptions, EventBroadcaster, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, record};

use super::skipped_counts::{only, with};

/// The sink refuses each second write, and the next repeat carries its count.
#[test]
fn a_refused_repeat_that_a_later_write_carries_is_not_lost() {
    for order in [WriteOrder::PerKey, WriteOrder::Bus] {
        let clock = clock();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .correlator(CorrelatorOptions::off())
            .retry(at_once().attempts(1))
            .build()
            .unwrap();
        let (sink, _calls) = Scripted::new(&clock, |number, _| match number % 4 {
            1 => Err(SinkError::rejected("not now")),
            3 => Err(SinkError::retry("busy")),
            _ => Ok(()),
        });
        let recording = events.recording().order(order).start(sink.clone()).unwrap();
        for number in 1..=9 {
            record(&events, "web-0", "BackOff");
            events.flush(LONG).unwrap();
            let stats = recording.stats();
            assert_balanced(&stats);
            // The store does not know this count until the next.
            assert_eq!(stats.lost(), u64::from(number % 2 == 0), "after {number}");
        }
        events.shutdown();
        let stats = recording.stats();
        assert_eq!(only(&sink.store).count, 9);
        assert_eq!((stats.created, stats.updated, stats.coalesced), (1, 8, 4));
        assert_eq!((stats.rejected, stats.exhausted, stats.written()), (0, 0, 5));
        assert!(stats.last_refusal.is_some());
    }
}

/// The first event is refused as well, and the first repeat creates it with both.
#[test]
fn a_refused_first_event_that_a_repeat_creates_is_not_lost() {
    let clock = clock();
    let events = with(CorrelatorOptions::off(), &clock);
    let (sink, _calls) = Scripted::new(&clock, |number, _| match number {
        0 => Err(SinkError::rejected("not now")),
        _ => Ok(()),
    });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "BackOff");
    events.flush(LONG).unwrap();
    assert_eq!(recording.stats().rejected, 1);
    record(&events, "web-0", "BackOff");
    events.shutdown();
    assert_eq!(only(&sink.store).count, 2);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.recreated, stats.lost()), (1, 1, 1, 0));
}

/// The count of an event that begins anew does not include what was refused before.
#[test]
fn a_refused_repeat_stays_lost_if_its_event_begins_anew() {
    let clock = clock();
    let events = with(CorrelatorOptions::off().lru_cache_size(1), &clock);
    let (sink, _calls) = Scripted::new(&clock, |_, op| match op {
        SinkOp::Patch(_) => Err(SinkError::rejected("no changes")),
        _ => Ok(()),
    });
    let recording = events.record_to(sink.clone()).unwrap();
    for name in ["web-0", "web-0", "web-1", "web-0"] {
        record(&events, name, "BackOff");
        events.flush(LONG).unwrap();
    }
    events.shutdown();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.rejected), (3, 0, 1));
}

/// Repeats of a series carry the count as well.
#[test]
fn a_refused_repeat_of_a_series_that_a_later_write_carries_is_not_lost() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).event_time(true).build().unwrap();
    let (sink, _calls) = Scripted::new(&clock, |number, _| match number {
        1 => Err(SinkError::rejected("not now")),
        _ => Ok(()),
    });
    let recording = events.record_to(sink.clone()).unwrap();
    for lost in [0, 1, 0] {
        record(&events, "web-0", "BackOff");
        events.flush(LONG).unwrap();
        assert_eq!(recording.stats().lost(), lost);
    }
    events.shutdown();
    assert_eq!(only(&sink.store).series().unwrap().count, 3);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated), (1, 2));
}
