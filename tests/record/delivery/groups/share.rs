//! A group's share of the queue.

use eventcast::sink::SinkErrorKind;
use eventcast::{OverflowPolicy, SinkError};

use crate::support::{LONG, assert_balanced, until};

use super::setup;

/// A hanging group loses the events that exceed its share, and other groups lose no events.
#[test]
fn a_group_that_hangs_has_a_quarter_of_the_queue() {
    let setup = setup(4, |builder| builder.queue_capacity(100).group_queue_capacity(25));
    setup.store_all(&["good/0", "bad/0"]);
    for number in 1..=60 {
        setup.record(&format!("bad/{number}"));
        setup.wait_until_offered(2 + number);
    }
    until(|| setup.stats().group_full == 35);
    assert_eq!(setup.stats().watcher.queued, 25);
    for number in 1..=100 {
        setup.store(&format!("good/{number}"));
    }
    for _ in 0..35 {
        let loss = setup.losses.recv_timeout(LONG).unwrap();
        assert_eq!(loss, ("bad".to_owned(), "group share full".to_owned(), 1));
    }
    // A repeat of a waiting event does not use any capacity.
    setup.record("bad/25");
    setup.wait_until_offered(163);
    until(|| {
        setup.sink.store_all_but(&[]);
        setup.stats().created == 2 + 100 + 25
    });
    setup.events.flush(LONG).unwrap();
    let stats = setup.stats();
    assert_eq!((stats.group_full, stats.lost(), stats.updated), (35, 35, 1), "{stats}");
    assert!(setup.losses.try_recv().is_err());
    assert_balanced(&stats);
}

/// A later write carries the count of the events that exceeded the share.
#[test]
fn a_repeat_carries_the_count_of_events_beyond_the_share() {
    let setup = setup(4, |builder| builder.group_queue_capacity(1));
    setup.store_all(&["good/0", "bad/0"]);
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    for _ in 0..3 {
        setup.record("bad/2");
    }
    until(|| setup.stats().group_full == 3);
    setup.sink.finish("bad/1 Run");
    until(|| setup.stats().created == 3);
    setup.record("bad/2");
    setup.sink.wait_for(&["bad/2 Run"]);
    // The store does not have this event, because its first occurrence exceeded the share.
    setup.sink.fail("bad/2 Run", SinkError::new(SinkErrorKind::NotFound, "no such event"));
    until(|| setup.sink.calls.lock().unwrap().1 == 5);
    setup.sink.wait_for(&["bad/2 Run"]);
    let count = setup.sink.calls.lock().unwrap().0["bad/2 Run"].event().count;
    assert_eq!(count, 4);
    setup.sink.finish("bad/2 Run");
    setup.events.flush(LONG).unwrap();
    let stats = setup.stats();
    assert_eq!((stats.created + stats.updated, stats.group_full, stats.lost()), (7, 0, 0), "{stats}");
    assert_balanced(&stats);
}

#[test]
fn degraded_groups_have_half_of_the_queue_together() {
    let setup = setup(4, |builder| builder.queue_capacity(100));
    let closed = ["x", "y", "z"];
    setup.store("good/0");
    for group in closed {
        setup.store(&format!("{group}/0"));
        setup.record(&format!("{group}/1"));
        until(|| setup.sink.of(group) == 1);
        setup
            .sink
            .fail(&format!("{group}/1 Run"), SinkError::new(SinkErrorKind::GroupUnavailable, "no answer"));
        until(|| setup.stats().degraded_groups.iter().any(|degraded| degraded.group == group));
        // A response to another group keeps the store from being considered unavailable.
        setup.store("good/again");
    }
    let before = setup.stats().watcher.offered;
    for number in 2..=21 {
        for group in closed {
            setup.record(&format!("{group}/{number}"));
        }
    }
    setup.wait_until_offered(before + 60);
    until(|| setup.stats().group_full == 13);
    assert_eq!(setup.stats().watcher.queued, 50);
    setup.store("good/1");
}

/// The store has only the first occurrence, so its response does not cover later occurrences.
#[test]
fn a_repeat_of_an_event_that_is_under_way_is_not_refused() {
    let setup = setup(4, |builder| builder.group_queue_capacity(1));
    setup.store_all(&["good/0", "bad/0"]);
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    for _ in 0..3 {
        setup.record("bad/1");
    }
    setup.wait_until_offered(6);
    setup.sink.finish("bad/1 Run");
    until(|| setup.sink.calls.lock().unwrap().1 == 4);
    setup.sink.wait_for(&["bad/1 Run"]);
    assert_eq!(setup.sink.calls.lock().unwrap().0["bad/1 Run"].event().count, 4);
    setup.sink.finish("bad/1 Run");
    setup.events.flush(LONG).unwrap();
    let stats = setup.stats();
    assert_eq!((stats.created, stats.updated, stats.lost()), (3, 3, 0), "{stats}");
    assert!(setup.losses.try_recv().is_err());
}

/// A burst in a healthy group may use half of the queue if no other group needs it. A failing group
/// may use a quarter.
#[test]
fn a_healthy_group_may_have_half_of_the_queue() {
    let setup = setup(4, |builder| builder.queue_capacity(100));
    setup.store_all(&["good/0", "bad/0"]);
    setup.record_all("good", 1..=60);
    setup.wait_until_offered(62);
    until(|| setup.stats().group_full == 10);
    until(|| {
        setup.sink.store_all_but(&[]);
        setup.stats().created == 52
    });
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.sink.fail("bad/1 Run", SinkError::new(SinkErrorKind::GroupUnavailable, "no answer"));
    until(|| !setup.stats().degraded_groups.is_empty());
    setup.record_all("bad", 2..=60);
    setup.wait_until_offered(122);
    until(|| setup.stats().group_full == 10 + 35);
}

#[test]
fn one_group_may_fill_the_queue() {
    let setup = setup(4, |builder| builder.queue_capacity(100));
    setup.record_all("only", 0..100);
    until(|| setup.stats().watcher.queued == 100);
    assert_eq!(setup.stats().group_full, 0);
}

#[test]
fn with_wait_nothing_is_lost_for_a_share() {
    let setup = setup(4, |builder| builder.queue_capacity(20).overflow(OverflowPolicy::Wait));
    setup.store_all(&["good/0", "bad/0"]);
    setup.record_all("bad", 1..=19);
    until(|| setup.stats().watcher.queued == 19);
    until(|| {
        setup.sink.store_all_but(&[]);
        setup.stats().created == 21
    });
    assert_eq!(setup.stats().lost(), 0);
}
