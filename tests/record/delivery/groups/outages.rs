//! Outages of the store, combined with groups that are refused or not served.

use std::time::{Duration, Instant};

use eventcast::sink::SinkErrorKind;
use eventcast::{EventBroadcaster, SinkError};

use crate::delivery::PAUSE;
use crate::support::{away, clock, until};

use super::{Setup, forbidden, no_answer, setup, setup_on};

/// Returns a recording with two groups during an outage of the store. Nine events in the group `a`
/// are waiting, and the first of them has failed.
fn unavailable() -> Setup {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["a/0", "b/0"]);
    setup.record_failing("a/1", away());
    until(|| setup.stats().unavailable_since.is_some());
    setup.record_all("a", 2..=10);
    setup.wait_until_offered(12);
    setup
}

/// A server is unavailable for a minute, returns, and refuses all clients for a second.
#[test]
fn a_refusal_after_a_long_outage_has_half_a_minute_too() {
    let setup = unavailable();
    for _ in 0..12 {
        setup.fail_a_probe(away());
    }
    // The server is running, but has not loaded its roles yet.
    setup.pass(PAUSE);
    setup.fail(&setup.probe(), forbidden());
    until(|| setup.stats().last_failure.unwrap().text.contains("403"));
    setup.store_until(|stats| stats.watcher.queued == 0);
    let stats = setup.stats();
    assert_eq!((stats.created, stats.rejected), (12, 0), "{stats}");
}

/// If a store was unavailable and now responds with 503, the store is tried only once after each
/// pause.
#[test]
fn an_unavailable_store_is_probed_once_after_each_pause_whatever_it_answers() {
    let setup = unavailable();
    setup.pass(PAUSE);
    let probe = setup.probe();
    let before = setup.sink.calls.lock().unwrap().1;
    setup.fail(&probe, no_answer());
    setup.clock.wait_for_waiters(1);
    assert!(setup.sink.under_way().is_empty(), "the clock was not advanced");
    assert_eq!(setup.sink.calls.lock().unwrap().1, before);
}

/// Entries left in a lane after its writes were rejected are harmless.
#[test]
fn a_group_that_was_refused_continues_after_its_writes_were_rejected() {
    let setup = setup(16, |builder| builder.queue_capacity(8192).group_queue_capacity(8000));
    setup.store_all(&["good/0", "bad/0"]);
    // This key is kept so that the table of keys is not dropped.
    setup.record("keep/0");
    let mut offered = 3;
    for round in 0..2 {
        for number in 0..2000 {
            setup.record(&format!("bad/{round}-{number}"));
            offered += 1;
            setup.wait_until_offered(offered);
        }
        if round == 0 {
            until(|| {
                setup.sink.store_all_but(&["keep"]);
                setup.stats().created == offered - 1
            });
        }
    }
    setup.sink.finish("keep/0 Run");
    until(|| {
        for name in setup.sink.under_way() {
            setup.fail(&name, forbidden());
        }
        setup.clock.advance(PAUSE);
        setup.stats().watcher.queued == 0
    });
    let stats = setup.stats();
    assert_eq!(stats.rejected, 2000, "{stats}");
    // The next event causes the group to be tried again.
    setup.record("bad/last");
    setup.store_until(|stats| stats.created == 2004);
}

/// An outage ends only once an operation has received a response.
#[test]
fn an_outage_does_not_end_because_another_group_appears() {
    let setup = setup(16, |builder| builder);
    setup.record_failing("only/1", no_answer());
    assert_eq!(setup.outage(), "group unavailable: no response within 30s");
    setup.record("other/1");
    setup.sink.wait_for(&["other/1 Run"]);
    let reported = setup.outages.recv_timeout(Duration::from_millis(300));
    assert!(reported.is_err(), "no operation has been answered: {reported:?}");
    assert!(setup.stats().unavailable_since.is_some());
    setup.sink.finish("other/1 Run");
    assert_eq!(setup.outage(), "works again");
}

/// Two hanging operations occupy the places available to degraded groups. A group that was closed
/// during an outage of the store therefore gets no probe when the outage ends. The group is
/// reported, because its events are waiting.
#[test]
fn a_group_without_a_probe_after_an_outage_is_reported() {
    let setup = setup(4, |builder| builder);
    setup.store_all(&["slow/0", "b/0", "c/0", "well/0"]);
    setup.record_all("slow", 1..=2);
    setup.sink.wait_for(&["slow/1 Run", "slow/2 Run"]);
    setup.pass(Duration::from_secs(1));
    until(|| setup.degraded() == ["slow"]);
    for group in ["b", "c"] {
        setup.record(&format!("{group}/1"));
        until(|| setup.sink.of(group) == 1);
    }
    for group in ["b", "c"] {
        let error = SinkError::new(SinkErrorKind::GroupUnavailable, format!("no answer about {group}"));
        setup.fail(&format!("{group}/1 Run"), error);
    }
    until(|| setup.stats().unavailable_since.is_some());
    setup.store("well/1");
    until(|| setup.degraded() == ["b", "c", "slow"]);
    assert_eq!(setup.sink.under_way(), ["slow/1 Run", "slow/2 Run"]);
    let reported: Vec<_> = setup.outages.try_iter().collect();
    for group in ["b", "c"] {
        let text = format!("{group}: group unavailable: no answer about {group}");
        assert_eq!(reported.iter().filter(|one| **one == text).count(), 1, "{reported:?}");
    }
    setup.sink.finish("slow/1 Run");
    setup.sink.finish("slow/2 Run");
    setup.pass(PAUSE);
    setup.sink.wait_for(&["b/1 Run", "c/1 Run"]);
    setup.sink.finish("b/1 Run");
    setup.sink.finish("c/1 Run");
    until(|| setup.degraded() == ["slow"] && setup.stats().watcher.queued == 0);
}

#[test]
fn a_group_that_was_part_of_an_outage_is_listed_no_longer_than_it_lasts() {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["a/0", "b/0", "c/0"]);
    for name in ["a", "b"] {
        setup.record(&format!("{name}/1"));
        until(|| setup.sink.of(name) == 1);
        setup.sink.fail(&format!("{name}/1 Run"), no_answer());
        until(|| setup.degraded().iter().any(|group| group == name));
    }
    until(|| setup.stats().unavailable_since.is_some());
    setup.store("c/1");
    until(|| setup.stats().unavailable_since.is_none());
    // The store is serving `b` again, but not `a`.
    setup.pass(PAUSE);
    setup.sink.wait_for(&["a/1 Run", "b/1 Run"]);
    setup.sink.finish("b/1 Run");
    until(|| setup.stats().created == 5);
    setup.store_all(&["b/2", "c/2"]);
    assert_eq!(setup.degraded(), ["a"]);
}

/// The table of groups evicts a degraded group.
#[test]
fn a_degraded_group_that_is_evicted_is_no_longer_listed() {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["good/0", "bad/0"]);
    setup.record_failing("bad/1", forbidden());
    assert_eq!(setup.outage(), "bad: forbidden: 403: cannot create resource \"events\"");
    // The event is rejected after half a minute, and the group has no later events.
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.under_way().into_iter().for_each(|name| setup.fail(&name, forbidden()));
        setup.stats().rejected == 1
    });
    for number in 0..1100 {
        setup.store(&format!("other-{number}/0"));
    }
    assert_eq!(setup.degraded(), [""; 0], "evicted long ago");
    assert_eq!(setup.outages.recv_timeout(Duration::from_secs(1)).as_deref(), Ok("bad: works again"));
}

/// Sets up a recording that uses the system clock, because a period of silence takes real time.
/// Operations hang in two groups, and both groups have received responses before.
fn two_that_hang() -> Setup {
    let setup = setup_on(EventBroadcaster::builder(), clock(), 16, |builder| builder);
    setup.store_all(&["good/0", "a/0", "b/0"]);
    setup.record("a/1");
    setup.record("b/1");
    setup.sink.wait_for(&["a/1 Run", "b/1 Run"]);
    setup
}

/// Returns the reports that concern the store itself.
fn about_the_store(setup: &Setup) -> Vec<String> {
    let is_group = |text: &String| text.starts_with("a: ") || text.starts_with("b: ");
    setup.outages.try_iter().filter(|text| !is_group(text)).collect()
}

/// The store still responds to all other groups, whose events are rare.
#[test]
fn two_groups_that_hang_are_not_the_store() {
    let setup = two_that_hang();
    for number in 1..5 {
        setup.store(&format!("good/{number}"));
        // This wait takes longer than the silence limit.
        let began = Instant::now();
        until(|| number == 4 || began.elapsed() > Duration::from_millis(1200));
    }
    assert_eq!(about_the_store(&setup), [""; 0]);
}

/// No operation has been answered by the time the first operation times out.
#[test]
fn a_silent_store_is_not_available_again_because_an_operation_is_out_of_time() {
    let setup = two_that_hang();
    until(|| setup.stats().unavailable_since.is_some());
    setup.fail("a/1 Run", no_answer());
    until(|| setup.stats().last_failure.unwrap().text.contains("30s"));
    setup.fail("b/1 Run", no_answer());
    assert_eq!(about_the_store(&setup), ["no response from the sink for 1 s"]);
}
