//! Groups that the store does not serve.

use eventcast::SinkError;
use eventcast::sink::SinkErrorKind;

use super::{PAUSE, Setup, setup};
use crate::support::{LONG, assert_balanced, until};

fn no_answer() -> SinkError {
    SinkError::new(SinkErrorKind::GroupUnavailable, "no answer within 30s")
}

/// A recording whose group `bad` is closed, because its first operation had no answer.
fn closed() -> Setup {
    let setup = setup(16, |builder| builder);
    for name in ["good/0", "bad/0"] {
        setup.store(name);
    }
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.fail("bad/1 Run", no_answer());
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "bad: group unavailable: no answer within 30s");
    setup
}

#[test]
fn a_closed_group_waits_and_others_do_not() {
    let setup = closed();
    for number in 2..=5 {
        setup.record(&format!("bad/{number}"));
    }
    for number in 1..=50 {
        setup.store(&format!("good/{number}"));
    }
    assert!(setup.sink.under_way().is_empty());
    assert_eq!(setup.recording.stats().unavailable_since, None);
    // One probe after each pause, each time with another event, which costs it no attempt.
    for probe in ["bad/2 Run", "bad/3 Run", "bad/4 Run", "bad/5 Run", "bad/1 Run", "bad/2 Run"] {
        setup.clock.wait_for_waiters(1);
        setup.clock.advance(PAUSE);
        setup.sink.wait_for(&[probe]);
        setup.store("good/again");
        setup.fail(probe, no_answer());
        until(|| !setup.sink.under_way().iter().any(|name| name == probe));
    }
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["bad/3 Run"]);
    setup.sink.finish("bad/3 Run");
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "bad: works again");
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.store_all_but(&[]);
        setup.recording.stats().created == 2 + 51 + 5
    });
    let stats = setup.recording.stats();
    assert_eq!(stats.lost(), 0);
    assert_balanced(&stats);
}

/// The group is served, so the failure concerns the event alone.
#[test]
fn an_operation_without_an_answer_beside_one_with_an_answer_closes_nothing() {
    let setup = setup(16, |builder| builder);
    for name in ["good/0", "bad/0"] {
        setup.store(name);
    }
    setup.record("bad/slow");
    setup.sink.wait_for(&["bad/slow Run"]);
    setup.store("bad/1");
    setup.fail("bad/slow Run", no_answer());
    until(|| setup.recording.stats().last_failure.is_some());
    setup.store("bad/2");
    assert!(setup.outages.try_recv().is_err());
    assert!(setup.recording.stats().degraded_groups.is_empty());
}

#[test]
fn the_store_is_away_if_two_groups_are_closed_and_nothing_is_answered() {
    let setup = closed();
    setup.record("good/1");
    setup.sink.wait_for(&["good/1 Run"]);
    assert_eq!(setup.recording.stats().unavailable_since, None);
    setup.sink.fail("good/1 Run", no_answer());
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "group unavailable: no answer within 30s");
    until(|| setup.recording.stats().unavailable_since.is_some());
    // Any answer ends the outage, and the other group is tried at once.
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["bad/1 Run", "good/1 Run"]);
    setup.sink.finish("good/1 Run");
    until(|| setup.recording.stats().unavailable_since.is_none());
    setup.sink.finish("bad/1 Run");
    setup.events.flush(LONG).unwrap();
    until(|| setup.recording.stats().degraded_groups.is_empty());
    // The second group was part of the store's outage, and was not told on its own.
    assert_eq!(setup.outages.try_iter().collect::<Vec<_>>(), ["works again", "bad: works again"]);
}

#[test]
fn the_only_group_is_the_store() {
    let setup = setup(16, |builder| builder);
    setup.record("only/1");
    setup.sink.wait_for(&["only/1 Run"]);
    setup.fail("only/1 Run", no_answer());
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "group unavailable: no answer within 30s");
    until(|| setup.recording.stats().unavailable_since.is_some());
    assert!(setup.recording.stats().degraded_groups.is_empty());
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["only/1 Run"]);
    setup.sink.finish("only/1 Run");
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "works again");
}

/// At the end each event has one attempt. A group that leaves three in a row without an answer gets
/// no more, because each would take as long.
#[test]
fn the_end_does_not_wait_for_each_event_of_a_group_that_is_not_served() {
    let setup = closed();
    for number in 2..=20 {
        setup.record(&format!("bad/{number}"));
    }
    setup.wait_until_offered(22);
    setup.events.close();
    // One operation had no answer before the end.
    for _ in 0..2 {
        until(|| setup.sink.of("bad") == 1);
        let name = setup.sink.under_way()[0].clone();
        setup.fail(&name, no_answer());
    }
    assert!(setup.recording.join(LONG));
    let stats = setup.recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.abandoned), (2, 20));
    assert_eq!(setup.sink.calls.lock().unwrap().1, 2 + 1 + 2);
    assert!(setup.losses.try_iter().all(|(group, reason, _)| (&*group, &*reason) == ("bad", "abandoned")));
}
