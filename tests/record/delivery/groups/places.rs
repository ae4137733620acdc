//! The places for operations under way, and how groups share them.

use eventcast::sink::WriteOrder;

use crate::support::{LONG, assert_balanced, until};

use super::setup;

#[test]
fn operations_are_answered_in_any_order() {
    let setup = setup(8, |builder| builder);
    for name in ["a/1", "a/2", "a/3"] {
        setup.record(name);
    }
    setup.sink.wait_for(&["a/1 Run", "a/2 Run", "a/3 Run"]);
    for (stored, name) in [(1, "a/3 Run"), (2, "a/1 Run"), (3, "a/2 Run")] {
        setup.sink.finish(name);
        until(|| setup.stats().created == stored);
    }
    assert!(setup.events.shutdown().complete);
    assert_balanced(&setup.stats());
}

/// A later event with the same key waits for the operation under way, and events with other keys
/// overtake both events.
#[test]
fn a_stored_event_has_one_operation_under_way() {
    let setup = setup(8, |builder| builder);
    setup.record("a/1");
    setup.sink.wait_for(&["a/1 Run"]);
    setup.record("a/1");
    setup.record("a/2");
    setup.sink.wait_for(&["a/1 Run", "a/2 Run"]);
    setup.record("a/1");
    setup.wait_until_offered(4);
    assert_eq!(setup.sink.calls.lock().unwrap().1, 2);
    setup.sink.finish("a/1 Run");
    // The two later events are combined into one write.
    until(|| setup.sink.calls.lock().unwrap().1 == 3);
    setup.sink.finish("a/1 Run");
    setup.sink.finish("a/2 Run");
    setup.events.flush(LONG).unwrap();
    let stats = setup.stats();
    assert_eq!((stats.created, stats.updated, stats.coalesced), (2, 2, 1));
}

#[test]
fn one_group_may_have_all_places_and_no_more() {
    let setup = setup(3, |builder| builder);
    setup.record_all("a", 0..10);
    setup.wait_until_offered(10);
    for left in (0..10).rev() {
        until(|| setup.sink.under_way().len() == 3.min(left + 1));
        let first = setup.sink.under_way()[0].clone();
        setup.sink.finish(&first);
    }
    setup.events.flush(LONG).unwrap();
    assert_eq!(setup.stats().created, 10);
}

#[test]
fn a_new_group_has_one_place_until_its_first_answer() {
    let setup = setup(16, |builder| builder);
    setup.store("a/0");
    for number in 0..5 {
        setup.record(&format!("new/{number}"));
        setup.record(&format!("a/{number}"));
    }
    setup.wait_until_offered(11);
    until(|| setup.sink.of("a") == 4);
    assert_eq!(setup.sink.of("new"), 1);
    setup.sink.finish("new/0 Run");
    until(|| setup.sink.of("new") == 4);
}

/// A group may use a quarter of the places while another group has events to send. Otherwise the
/// group may use all but a quarter of the places.
#[test]
fn a_group_has_a_share_of_the_places() {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["a/x", "b/x"]);
    setup.record_all("a", 0..20);
    // No other group has events to send. The last quarter of the places stays free for groups that
    // will have events to send.
    until(|| setup.sink.of("a") == 12);
    setup.record_all("b", 0..20);
    setup.wait_until_offered(42);
    // A group's first operation may take any place. Its further operations may not take any of the
    // last four places.
    until(|| setup.sink.of("b") == 1);
    assert_eq!(setup.sink.of("a"), 12);
    for _ in 0..12 {
        let first = setup.sink.under_way()[0].clone();
        assert!(first.starts_with("a/"), "{first}");
        setup.sink.finish(&first);
        until(|| !setup.sink.under_way().contains(&first));
    }
    until(|| (setup.sink.of("a"), setup.sink.of("b")) == (4, 4));
}

/// With `WriteOrder::Bus` there are no groups, and only one operation is under way at a time.
#[test]
fn in_the_order_of_the_bus_one_operation_is_under_way() {
    let setup = setup(16, |builder| builder.order(WriteOrder::Bus));
    for name in ["a/1", "b/1", "a/2", "b/2"] {
        setup.record(name);
    }
    setup.wait_until_offered(4);
    for name in ["a/1 Run", "b/1 Run", "a/2 Run", "b/2 Run"] {
        setup.sink.wait_for(&[name]);
        setup.sink.finish(name);
    }
    setup.events.flush(LONG).unwrap();
    assert_eq!(setup.stats().created, 4);
}

/// If an operation's task is dropped, for example because the task's runtime shuts down, the
/// operation is tried again.
#[test]
fn an_operation_that_the_sink_drops_is_tried_again() {
    let setup = setup(4, |builder| builder);
    setup.store("a/0");
    setup.record("a/1");
    setup.sink.wait_for(&["a/1 Run"]);
    drop(setup.sink.take("a/1 Run"));
    until(|| setup.stats().last_failure.is_some());
    setup.pass(super::PAUSE);
    setup.sink.wait_for(&["a/1 Run"]);
    setup.sink.finish("a/1 Run");
    setup.events.flush(LONG).unwrap();
    let stats = setup.stats();
    assert_eq!((stats.created, stats.retried), (2, 1));
    let text = stats.last_failure.unwrap().text;
    assert_eq!(text, "group unavailable: the sink dropped the operation without an answer");
}
