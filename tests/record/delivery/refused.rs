//! Repeats that the sink refused and whose counts a later write carries.

use eventcast::sink::{SinkOp, WriteOrder};
use eventcast::{CorrelatorOptions, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, clocked, record};

use super::{only, with_correlator};

/// The sink refuses every second write, and the next repeat carries that write's count.
#[test]
fn a_refused_repeat_that_a_later_write_carries_is_not_lost() {
    for order in [WriteOrder::PerKey, WriteOrder::Bus] {
        let clock = clock();
        let builder = clocked(&clock).correlator(CorrelatorOptions::off()).retry(at_once().attempts(1));
        let events = builder.build().unwrap();
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
            // The store does not have this count until the next write.
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

/// When an event starts over, its count does not include the occurrences refused before.
#[test]
fn a_refused_repeat_stays_lost_if_its_event_begins_anew() {
    let clock = clock();
    let events = with_correlator(CorrelatorOptions::off().cache_size(1), &clock);
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
