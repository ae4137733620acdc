//! Groups that the store is not serving.

use crate::delivery::PAUSE;
use crate::support::{LONG, assert_balanced, until};

use super::{Setup, no_answer, setup};

/// Returns a recording whose group `bad` is closed because the group's first operation got no
/// response.
fn closed() -> Setup {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["good/0", "bad/0"]);
    setup.record_failing("bad/1", no_answer());
    assert_eq!(setup.outage(), "bad: group unavailable: no response within 30s");
    setup
}

#[test]
fn a_closed_group_waits_and_others_do_not() {
    let setup = closed();
    setup.record_all("bad", 2..=5);
    for number in 1..=50 {
        setup.store(&format!("good/{number}"));
    }
    assert!(setup.sink.under_way().is_empty());
    assert_eq!(setup.stats().unavailable_since, None);
    // One probe is sent after each pause, each time with a different event. A probe does not count
    // as an attempt.
    for probe in ["bad/2 Run", "bad/3 Run", "bad/4 Run", "bad/5 Run", "bad/1 Run", "bad/2 Run"] {
        setup.pass(PAUSE);
        setup.sink.wait_for(&[probe]);
        setup.store("good/again");
        setup.fail(probe, no_answer());
        until(|| !setup.sink.under_way().iter().any(|name| name == probe));
    }
    setup.pass(PAUSE);
    setup.sink.wait_for(&["bad/3 Run"]);
    setup.sink.finish("bad/3 Run");
    assert_eq!(setup.outage(), "bad: works again");
    setup.store_until(|stats| stats.created == 2 + 51 + 5);
    let stats = setup.stats();
    assert_eq!(stats.lost(), 0);
    assert_balanced(&stats);
}

/// The store is serving the group, so the failure affects only that event.
#[test]
fn an_operation_without_an_answer_beside_one_with_an_answer_closes_nothing() {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["good/0", "bad/0"]);
    setup.record("bad/slow");
    setup.sink.wait_for(&["bad/slow Run"]);
    setup.store("bad/1");
    setup.fail("bad/slow Run", no_answer());
    until(|| setup.stats().last_failure.is_some());
    setup.store("bad/2");
    assert!(setup.outages.try_recv().is_err());
    assert!(setup.stats().degraded_groups.is_empty());
}

#[test]
fn the_store_is_unavailable_if_two_groups_are_closed_and_nothing_is_answered() {
    let setup = closed();
    setup.record("good/1");
    setup.sink.wait_for(&["good/1 Run"]);
    assert_eq!(setup.stats().unavailable_since, None);
    setup.sink.fail("good/1 Run", no_answer());
    assert_eq!(setup.outage(), "group unavailable: no response within 30s");
    until(|| setup.stats().unavailable_since.is_some());
    // Any response ends the outage, and the other group is then tried immediately.
    setup.pass(PAUSE);
    setup.sink.wait_for(&["bad/1 Run", "good/1 Run"]);
    setup.sink.finish("good/1 Run");
    until(|| setup.stats().unavailable_since.is_none());
    setup.sink.finish("bad/1 Run");
    setup.events.flush(LONG).unwrap();
    until(|| setup.stats().degraded_groups.is_empty());
    // The second group was part of the store's outage, and was not reported separately.
    assert_eq!(setup.outages.try_iter().collect::<Vec<_>>(), ["works again", "bad: works again"]);
}

#[test]
fn the_only_group_is_the_store() {
    let setup = setup(16, |builder| builder);
    setup.record_failing("only/1", no_answer());
    assert_eq!(setup.outage(), "group unavailable: no response within 30s");
    until(|| setup.stats().unavailable_since.is_some());
    assert!(setup.stats().degraded_groups.is_empty());
    setup.pass(PAUSE);
    setup.sink.wait_for(&["only/1 Run"]);
    setup.sink.finish("only/1 Run");
    assert_eq!(setup.outage(), "works again");
}

/// During shutdown each event gets one attempt. If three attempts in a row in a group get no
/// response, the group gets no more attempts, because each further attempt would take just as long.
#[test]
fn the_end_does_not_wait_for_each_event_of_a_group_that_is_not_served() {
    let setup = closed();
    setup.record_all("bad", 2..=20);
    setup.wait_until_offered(22);
    setup.events.close();
    // One operation had already gone unanswered before the shutdown.
    for _ in 0..2 {
        until(|| setup.sink.of("bad") == 1);
        let name = setup.sink.under_way()[0].clone();
        setup.fail(&name, no_answer());
    }
    assert!(setup.recording.join(LONG));
    let stats = setup.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.abandoned), (2, 20));
    assert_eq!(setup.sink.calls.lock().unwrap().1, 2 + 1 + 2);
    assert!(setup.losses.try_iter().all(|(group, reason, _)| (&*group, &*reason) == ("bad", "abandoned")));
}
