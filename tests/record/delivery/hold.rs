//! Counts that a recording defers. The recording writes deferred counts to the store during a flush
//! or a refresh, and when it ends.

use std::time::Duration;

use eventcast::correlator::SpamFilter;
use eventcast::record::RecordingBuilder;
use eventcast::sink::WriteOrder;
use eventcast::{CorrelatorOptions, Event, EventBroadcaster, EventSink, EventType, SinkError, Timestamp};

use crate::support::{
    LONG, Scripted, assert_balanced, at_once, away, clock, clocked, pod, record, until, with_losses,
};

use super::{broadcaster, only, with_correlator};

const SECOND: Duration = Duration::from_secs(1);

const HALF_HOUR: Duration = Duration::from_secs(30 * 60);

/// Returns options with a budget of one event, and without aggregation.
pub(super) fn strict() -> CorrelatorOptions {
    CorrelatorOptions::off().spam_filter(SpamFilter::default().burst(1).qps(1e-9))
}

/// Records events with one key, and waits until the recording has decided what to do with each
/// event.
fn record_times(events: &EventBroadcaster, name: &str, times: u64) {
    let delivered = || events.stats().recordings[0].watcher.delivered;
    let before = delivered();
    for _ in 0..times {
        record(events, name, "BackOff");
    }
    until(|| delivered() == before + times);
}

/// Records repeats of an event whose write is waiting for the sink.
fn record_times_one_by_one(events: &EventBroadcaster, times: u64) {
    for number in 1..=times {
        record(events, "web-0", "BackOff");
        until(|| events.stats().recordings[0].watcher.delivered == number);
    }
}

/// One event per second is recorded for a minute. The budget of 25 covers the first 25 events.
#[test]
fn the_last_count_and_time_are_stored_at_the_end_although_the_budget_is_used_up() {
    for is_stopped in [false, true] {
        let clock = clock();
        let events = broadcaster(&clock);
        let sink = Scripted::obedient(&clock);
        let recording = events.record_to(sink.clone()).unwrap();
        for _ in 0..60 {
            clock.advance(SECOND);
            record_times(&events, "web-0", 1);
        }
        until(|| recording.stats().updated == 24);
        assert_eq!(only(&sink.store).count, 25);
        let before = recording.stats();
        assert_eq!((before.handled(), before.watcher.delivered), (25, 60), "35 are held");
        let last = Timestamp::from(clock.clock().now());
        if is_stopped {
            recording.stop();
            assert!(recording.join(LONG));
        }
        assert!(events.shutdown().complete);
        let stored = only(&sink.store);
        assert_eq!((stored.count, stored.last_timestamp), (60, Some(last)));
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!((stats.created, stats.updated, stats.skipped, stats.lost()), (1, 59, 0, 0));
        assert_eq!(sink.shorts().last().unwrap(), "patch BackOff x60", "one write carries all other 35");
        assert_eq!(stats.written() as usize, sink.calls().len());
    }
}

#[test]
fn a_flush_writes_each_count_once_and_only_if_it_is_new() {
    for order in [WriteOrder::PerKey, WriteOrder::Bus] {
        let clock = clock();
        let events = with_correlator(strict(), &clock);
        let sink = Scripted::obedient(&clock);
        let recording = events.recording().order(order).start(sink.clone()).unwrap();
        for name in ["web-0", "web-1"] {
            record_times(&events, name, 1);
            until(|| recording.stats().created == sink.store.len() as u64);
        }
        events.flush(LONG).unwrap();
        record_times(&events, "web-0", 4);
        for _ in 0..2 {
            events.flush(LONG).unwrap();
            assert_eq!(sink.shorts(), ["create BackOff x1", "create BackOff x1", "patch BackOff x5"]);
            let stats = recording.stats();
            assert_balanced(&stats);
            assert_eq!((stats.created, stats.updated, stats.coalesced, stats.skipped), (2, 4, 3, 0));
        }
    }
}

/// The sink specifies that counts are refreshed after half an hour or never, and the recording's
/// option overrides the sink's setting.
#[test]
fn the_sink_or_the_option_sets_when_a_count_is_refreshed() {
    struct Server(Scripted);

    impl EventSink for Server {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            self.0.create(event)
        }

        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            self.0.patch(event)
        }

        fn refresh_every(&self) -> Option<Duration> {
            None
        }
    }

    let minute = Duration::from_secs(60);
    for (is_server, option, expected) in [
        (false, None, Some(HALF_HOUR)),
        (true, None, None),
        (false, Some(Some(minute)), Some(minute)),
        (true, Some(Some(minute)), Some(minute)),
        (false, Some(None), None),
    ] {
        let clock = clock();
        let events = with_correlator(strict(), &clock);
        let sink = Scripted::obedient(&clock);
        let builder = option.into_iter().fold(events.recording(), RecordingBuilder::refresh_every);
        let own = sink.clone();
        let recording = if is_server { builder.start(Server(own)) } else { builder.start(own) }.unwrap();
        record_times(&events, "web-0", 1);
        events.flush(LONG).unwrap();
        record_times(&events, "web-0", 3);
        // A later repeat does not delay the refresh. The store deletes the event after an hour.
        let refresh = expected.unwrap_or(HALF_HOUR + 10 * minute);
        clock.advance(refresh.saturating_sub(Duration::from_millis(1)));
        record_times(&events, "web-0", 1);
        assert_eq!(only(&sink.store).count, 1);
        clock.advance(Duration::from_millis(1));
        if expected.is_some() {
            until(|| only(&sink.store).count == 5);
            until(|| recording.stats().updated == 4);
        } else {
            record_times(&events, "web-0", 1);
            assert_eq!(only(&sink.store).count, 1, "only the end of the recording writes it");
        }
        events.shutdown();
        assert_balanced(&recording.stats());
        assert_eq!(recording.stats().skipped, 0);
    }
}

/// The store has no events with the other messages, so it cannot have wrong counts for them.
#[test]
fn an_event_that_the_store_does_not_have_stays_skipped() {
    let clock = clock();
    let events = with_correlator(strict(), &clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("jobs");
    for message in ["a", "b", "c", "b", "a"] {
        assert!(recorder.event(pod("web-0"), EventType::Warning, "Unreadable", message).is_accepted());
    }
    events.shutdown();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.skipped), (1, 1, 3));
    let stored = only(&sink.store);
    assert_eq!((&*stored.message, stored.count), ("a", 2));
}

/// The write of a repeat that passes the filter also carries the held counts.
#[test]
fn the_next_repeat_that_passes_carries_what_is_held() {
    for order in [WriteOrder::PerKey, WriteOrder::Bus] {
        let clock = clock();
        let options = CorrelatorOptions::off().spam_filter(SpamFilter::default().burst(1).qps(1.0));
        let events = with_correlator(options, &clock);
        let sink = Scripted::obedient(&clock);
        let recording = events.recording().order(order).start(sink.clone()).unwrap();
        record_times(&events, "web-0", 1);
        events.flush(LONG).unwrap();
        record_times(&events, "web-0", 3);
        clock.advance(10 * SECOND);
        record_times(&events, "web-0", 1);
        until(|| recording.stats().updated == 4);
        assert_eq!(sink.shorts(), ["create BackOff x1", "patch BackOff x5"]);
        let stats = recording.stats();
        assert_eq!((stats.handled(), stats.coalesced, stats.skipped), (5, 3, 0));
        events.shutdown();
        assert_eq!(sink.shorts().len(), 2, "nothing is left to write");
        assert_balanced(&recording.stats());
    }
}

/// The number of held counts is limited to the number of entries in the correlator's caches. An
/// evicted count is written first, even if the correlator has already evicted its event.
#[test]
fn an_evicted_count_is_written_first() {
    let clock = clock();
    let events = with_correlator(strict().cache_size(2), &clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.recording().refresh_every(None).start(sink.clone()).unwrap();
    for name in ["web-0", "web-1", "web-2"] {
        record_times(&events, name, 1);
        record_times(&events, name, 3);
    }
    until(|| recording.stats().updated >= 3);
    assert!(recording.stats().evicted > 0);
    events.shutdown();
    let counts: Vec<i32> = sink.store.events().iter().map(|event| event.count).collect();
    assert_eq!(counts, [4, 4, 4]);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.skipped), (3, 9, 0));
}

/// The correlator starts a new event with another name. The first event's held counts are written
/// as well.
#[test]
fn a_count_of_an_event_that_begins_anew_is_written() {
    let clock = clock();
    let exempt = SpamFilter::default().burst(1).qps(1e-9).exempt_warnings(true);
    let events = with_correlator(CorrelatorOptions::off().spam_filter(exempt).cache_size(1), &clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.recording().refresh_every(None).start(sink.clone()).unwrap();
    record_times(&events, "web-0", 1);
    record_times(&events, "web-0", 2);
    // The cache evicts the event and its budget.
    let recorder = events.recorder("tester");
    assert!(recorder.event(pod("web-1"), EventType::Warning, "Other", "message").is_accepted());
    until(|| recording.stats().watcher.delivered == 4);
    record_times(&events, "web-0", 1);
    until(|| recording.stats().updated == 2);
    record_times(&events, "web-0", 1);
    events.shutdown();
    let mut counts: Vec<i32> = sink.store.events().iter().map(|event| event.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3]);
    assert_balanced(&recording.stats());
}

/// Held counts have left the queue, and are written in the same batch as a write that is already
/// under way.
#[test]
fn a_write_that_is_on_its_way_carries_what_the_filter_stops() {
    let clock = clock();
    let events = with_correlator(strict(), &clock);
    let (gate, sink) = Scripted::gated(&clock, 0..=0);
    let recording = events.recording().queue_capacity(3).start(sink.clone()).unwrap();
    record(&events, "blocked", "BackOff");
    gate.wait();
    // The first of these repeats waits for the sink, and the others do not use any capacity.
    record(&events, "web-0", "BackOff");
    record_times_one_by_one(&events, 40);
    drop(gate);
    events.shutdown();
    assert_eq!(sink.shorts(), ["create BackOff x1", "create BackOff x41"]);
    assert_balanced(&recording.stats());
    assert_eq!(recording.stats().lost(), 0);
}

/// A shutdown that reaches its deadline abandons held counts and reports them.
#[test]
fn held_counts_are_abandoned_at_a_deadline() {
    let clock = clock();
    let (events, losses) = with_losses(clocked(&clock).correlator(strict()), |loss| loss.count);
    let (gate, sink) = Scripted::gated(&clock, 1..=1);
    let recording = events.record_to(sink.clone()).unwrap();
    record_times(&events, "web-0", 1);
    events.flush(LONG).unwrap();
    record(&events, "blocked", "BackOff");
    gate.wait();
    record_times(&events, "web-0", 3);
    let _ = events.shutdown_timeout(Duration::ZERO);
    drop(gate);
    assert!(recording.join(LONG));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!(stats.created + stats.updated + stats.abandoned, 5, "{stats}");
    assert!(stats.abandoned >= 3);
    assert_eq!(losses.try_iter().sum::<u64>(), stats.abandoned);
}

#[test]
fn updates_of_a_key_are_written_once_in_the_time_and_exact_at_its_end() {
    for order in [WriteOrder::PerKey, WriteOrder::Bus] {
        let clock = clock();
        let events = with_correlator(CorrelatorOptions::off(), &clock);
        let sink = Scripted::obedient(&clock);
        let builder = events.recording().order(order).update_every(10 * SECOND);
        let recording = builder.start(sink.clone()).unwrap();
        // Records one event per second for a minute, beginning with the first second.
        for second in 1..=60 {
            record_times(&events, "web-0", 1);
            clock.advance(SECOND);
            // The count is written when the interval has passed, even if no event follows.
            until(|| recording.stats().written() == 1 + second / 10);
        }
        assert_eq!(only(&sink.store).count, 60);
        let counts: Vec<i32> = sink.calls().iter().map(|op| op.event().count).collect();
        assert_eq!(counts, [1, 10, 20, 30, 40, 50, 60]);
        // After a longer silence a repeat is written immediately.
        clock.advance(10 * SECOND);
        record_times(&events, "web-0", 1);
        until(|| only(&sink.store).count == 61);
        events.shutdown();
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!((stats.created, stats.updated, stats.written()), (1, 60, 8));
    }
}

#[test]
fn throttled_counts_are_exact_at_a_flush_and_at_the_end() {
    let clock = clock();
    let events = with_correlator(CorrelatorOptions::off(), &clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.recording().update_every(HALF_HOUR).start(sink.clone()).unwrap();
    record_times(&events, "web-0", 1);
    until(|| sink.store.len() == 1);
    for flushed in 1..=3 {
        record_times(&events, "web-0", 5);
        assert_eq!(only(&sink.store).count, 1 + 5 * (flushed - 1));
        events.flush(LONG).unwrap();
        assert_eq!(only(&sink.store).count, 1 + 5 * flushed);
        assert_balanced(&recording.stats());
    }
    record_times(&events, "web-0", 5);
    events.shutdown();
    assert_eq!(only(&sink.store).count, 21);
    assert_balanced(&recording.stats());
    assert_eq!(recording.stats().written(), 5);
}

/// Events whose counts are held do not occupy the queue, and the number of held counts is bounded.
#[test]
fn throttled_events_leave_the_queue_and_evict_each_other() {
    let clock = clock();
    let events = with_correlator(CorrelatorOptions::off().cache_size(3), &clock);
    let sink = Scripted::obedient(&clock);
    let builder = events.recording().update_every(HALF_HOUR).queue_capacity(2);
    let recording = builder.start(sink.clone()).unwrap();
    for number in 0..10 {
        for _ in 0..3 {
            record_times(&events, &format!("web-{number}"), 1);
        }
    }
    until(|| recording.stats().handled() >= 7 * 3 + 3);
    events.shutdown();
    let stored = sink.store.events();
    assert_eq!((stored.len(), stored.iter().map(|event| event.count).sum::<i32>()), (10, 30));
    assert_balanced(&recording.stats());
    assert_eq!(recording.stats().lost(), 0);
}

/// While the store is unavailable, a held count does not wake the recording.
#[test]
fn a_held_count_waits_out_an_outage() {
    let clock = clock();
    let events = with_correlator(strict(), &clock);
    let (sink, _calls) = Scripted::new(&clock, |number, _| match number {
        1 | 2 => Err(away()),
        _ => Ok(()),
    });
    let builder = events.recording().retry(at_once().delay(SECOND)).refresh_every(10 * SECOND);
    let recording = builder.start(sink.clone()).unwrap();
    record_times(&events, "web-0", 1);
    until(|| recording.stats().created == 1);
    record_times(&events, "web-0", 3);
    clock.advance(10 * SECOND);
    until(|| recording.stats().unavailable_since.is_some());
    record_times(&events, "web-0", 1);
    until(|| {
        clock.advance(SECOND);
        only(&sink.store).count == 5
    });
    until(|| recording.stats().updated == 4);
    events.shutdown();
    assert_balanced(&recording.stats());
}
