//! Outages of the store, and groups that are refused or not served beside them.

use std::time::{Duration, Instant};

use eventcast::SinkError;
use eventcast::sink::SinkErrorKind;

use super::{PAUSE, Setup, setup};
use crate::support::{LONG, until};

fn no_answer() -> SinkError {
    SinkError::new(SinkErrorKind::GroupUnavailable, "no answer within 30s")
}

fn forbidden() -> SinkError {
    SinkError::new(SinkErrorKind::Forbidden, "403: cannot create")
}

fn pause(setup: &Setup) {
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
}

/// A server is away for a minute, comes back, and refuses everybody for a second.
#[test]
fn a_refusal_after_a_long_outage_has_half_a_minute_too() {
    let setup = setup(16, |builder| builder);
    setup.store("a/0");
    setup.store("b/0");
    setup.record("a/1");
    setup.sink.wait_for(&["a/1 Run"]);
    setup.fail("a/1 Run", SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
    until(|| setup.recording.stats().unavailable_since.is_some());
    for number in 2..=10 {
        setup.record(&format!("a/{number}"));
    }
    setup.wait_until_offered(12);
    for _ in 0..12 {
        pause(&setup);
        until(|| setup.sink.under_way().len() == 1);
        let probe = setup.sink.under_way()[0].clone();
        setup.fail(&probe, SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
        until(|| setup.sink.under_way().is_empty());
    }
    // It is there again, and does not know its roles yet.
    pause(&setup);
    until(|| setup.sink.under_way().len() == 1);
    let probe = setup.sink.under_way()[0].clone();
    setup.fail(&probe, forbidden());
    until(|| setup.recording.stats().last_failure.unwrap().text.contains("403"));
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.store_all_but(&[]);
        setup.recording.stats().watcher.queued == 0
    });
    let stats = setup.recording.stats();
    assert_eq!((stats.created, stats.rejected), (12, 0), "{stats}");
}

/// A store that was away and comes back with 503 is asked once after each pause.
#[test]
fn a_store_that_is_away_is_probed_once_after_each_pause_whatever_it_says() {
    let setup = setup(16, |builder| builder);
    setup.store("a/0");
    setup.store("b/0");
    setup.record("a/1");
    setup.sink.wait_for(&["a/1 Run"]);
    setup.fail("a/1 Run", SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
    until(|| setup.recording.stats().unavailable_since.is_some());
    for number in 2..=10 {
        setup.record(&format!("a/{number}"));
    }
    setup.wait_until_offered(12);
    pause(&setup);
    until(|| setup.sink.under_way().len() == 1);
    let probe = setup.sink.under_way()[0].clone();
    let before = setup.sink.calls.lock().unwrap().1;
    setup.fail(&probe, no_answer());
    setup.clock.wait_for_waiters(1);
    assert!(setup.sink.under_way().is_empty(), "the clock stands still");
    assert_eq!(setup.sink.calls.lock().unwrap().1, before);
}

/// Entries that are left in a lane after its writes were given up do no harm.
#[test]
fn a_group_that_was_refused_goes_on_after_its_writes_were_given_up() {
    let setup = setup(16, |builder| builder.queue_len(8192).group_queue_len(8000));
    setup.store("good/0");
    setup.store("bad/0");
    // A key that is kept, so that the table of keys is.
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
                setup.recording.stats().created == offered - 1
            });
        }
    }
    setup.sink.finish("keep/0 Run");
    until(|| {
        for name in setup.sink.under_way() {
            setup.fail(&name, forbidden());
        }
        setup.clock.advance(PAUSE);
        setup.recording.stats().watcher.queued == 0
    });
    let stats = setup.recording.stats();
    assert_eq!(stats.rejected, 2000, "{stats}");
    // The group is asked again with the next event.
    setup.record("bad/last");
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.store_all_but(&[]);
        setup.recording.stats().created == 2004
    });
}

/// An outage is over when something has been answered.
#[test]
fn an_outage_does_not_end_because_another_group_appears() {
    let setup = setup(16, |builder| builder);
    setup.record("only/1");
    setup.sink.wait_for(&["only/1 Run"]);
    setup.fail("only/1 Run", no_answer());
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "group unavailable: no answer within 30s");
    setup.record("other/1");
    setup.sink.wait_for(&["other/1 Run"]);
    let told = setup.outages.recv_timeout(Duration::from_millis(300));
    assert!(told.is_err(), "nothing has been answered: {told:?}");
    assert!(setup.recording.stats().unavailable_since.is_some());
    setup.sink.finish("other/1 Run");
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "works again");
}

/// Two operations that hang have the places of the groups in trouble. A group that was closed
/// during an outage of the store gets no probe when the outage ends. It is reported, because its
/// events wait.
#[test]
fn a_group_without_a_probe_after_an_outage_is_reported() {
    let setup = setup(4, |builder| builder);
    for group in ["slow", "b", "c", "well"] {
        setup.store(&format!("{group}/0"));
    }
    setup.record("slow/1");
    setup.record("slow/2");
    setup.sink.wait_for(&["slow/1 Run", "slow/2 Run"]);
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(Duration::from_secs(1));
    let degraded = || {
        let groups = setup.recording.stats().degraded_groups;
        let mut names: Vec<_> = groups.into_iter().map(|group| group.group).collect();
        names.sort();
        names
    };
    until(|| degraded() == ["slow"]);
    for group in ["b", "c"] {
        setup.record(&format!("{group}/1"));
        let name = format!("{group}/1 Run");
        until(|| setup.sink.under_way().contains(&name));
    }
    let no_answer =
        |group| SinkError::new(SinkErrorKind::GroupUnavailable, format!("no answer about {group}"));
    setup.fail("b/1 Run", no_answer("b"));
    setup.fail("c/1 Run", no_answer("c"));
    until(|| setup.recording.stats().unavailable_since.is_some());
    setup.store("well/1");
    until(|| degraded() == ["b", "c", "slow"]);
    assert_eq!(setup.sink.under_way(), ["slow/1 Run", "slow/2 Run"]);
    let told: Vec<_> = setup.outages.try_iter().collect();
    for group in ["b", "c"] {
        let text = format!("{group}: group unavailable: no answer about {group}");
        assert_eq!(told.iter().filter(|told| **told == text).count(), 1, "{told:?}");
    }
    setup.sink.finish("slow/1 Run");
    setup.sink.finish("slow/2 Run");
    pause(&setup);
    setup.sink.wait_for(&["b/1 Run", "c/1 Run"]);
    setup.sink.finish("b/1 Run");
    setup.sink.finish("c/1 Run");
    until(|| degraded() == ["slow"] && setup.recording.stats().watcher.queued == 0);
}

/// A group that was a part of the store's outage is not listed for ever.
#[test]
fn a_group_that_was_part_of_an_outage_is_listed_no_longer_than_it_lasts() {
    let setup = setup(16, |builder| builder);
    for name in ["a/0", "b/0", "c/0"] {
        setup.store(name);
    }
    for name in ["a", "b"] {
        setup.record(&format!("{name}/1"));
        until(|| setup.sink.of(name) == 1);
        setup.sink.fail(&format!("{name}/1 Run"), no_answer());
        until(|| setup.recording.stats().degraded_groups.iter().any(|group| group.group == name));
    }
    until(|| setup.recording.stats().unavailable_since.is_some());
    setup.store("c/1");
    until(|| setup.recording.stats().unavailable_since.is_none());
    // `b` is served again, and `a` is not.
    pause(&setup);
    setup.sink.wait_for(&["a/1 Run", "b/1 Run"]);
    setup.sink.finish("b/1 Run");
    until(|| setup.recording.stats().created == 5);
    setup.store("b/2");
    setup.store("c/2");
    let listed: Vec<_> =
        setup.recording.stats().degraded_groups.into_iter().map(|group| group.group).collect();
    assert_eq!(listed, ["a"]);
}

/// The table of groups forgets a group that is sick.
#[test]
fn a_sick_group_that_is_forgotten_is_not_listed_any_more() {
    let setup = setup(16, |builder| builder);
    setup.store("good/0");
    setup.store("bad/0");
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.fail("bad/1 Run", forbidden());
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "bad: forbidden: 403: cannot create");
    // It is given up after half a minute, and nothing of the group comes again.
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.under_way().into_iter().for_each(|name| setup.fail(&name, forbidden()));
        setup.recording.stats().rejected == 1
    });
    for number in 0..1100 {
        setup.store(&format!("other-{number}/0"));
    }
    assert_eq!(setup.recording.stats().degraded_groups.len(), 0, "forgotten long ago");
    assert_eq!(setup.outages.recv_timeout(Duration::from_secs(1)).as_deref(), Ok("bad: works again"));
}

/// Two groups hang, and the store answers everybody else, whose events are rare.
#[test]
fn two_groups_that_hang_are_not_the_store() {
    use eventcast::EventBroadcaster;
    use eventcast::record::Outage;
    use std::sync::mpsc;
    let events = EventBroadcaster::builder().build().unwrap();
    let ((tx, outages), (_, losses)) = (mpsc::channel(), mpsc::channel());
    let on_outage = move |outage: &Outage<'_>| {
        tx.send(format!("{:?}: {:?}", outage.group, outage.cause)).unwrap();
    };
    let sink = super::Held::new(16);
    let recording = events.recording().on_outage(on_outage).start(sink.clone()).unwrap();
    let setup = Setup { clock: crate::support::clock(), events, recording, sink, outages, losses };
    for name in ["good/0", "a/0", "b/0"] {
        setup.store(name);
    }
    setup.record("a/1");
    setup.record("b/1");
    setup.sink.wait_for(&["a/1 Run", "b/1 Run"]);
    setup.store("good/1");
    for number in 2..5 {
        // Longer than a silence: what is measured here is real time.
        let began = Instant::now();
        until(|| began.elapsed() > Duration::from_millis(1200));
        setup.store(&format!("good/{number}"));
    }
    let told: Vec<_> = setup.outages.try_iter().filter(|text| text.starts_with("None")).collect();
    assert!(told.is_empty(), "{told:?}");
}

/// Nothing has been answered when the first of the operations is out of time.
#[test]
fn a_silent_store_is_not_there_again_because_an_operation_is_out_of_time() {
    use eventcast::EventBroadcaster;
    use eventcast::record::Outage;
    use std::sync::mpsc;
    let events = EventBroadcaster::builder().build().unwrap();
    let ((tx, outages), (_, losses)) = (mpsc::channel(), mpsc::channel());
    let on_outage = move |outage: &Outage<'_>| {
        tx.send(format!("{:?}: {:?}", outage.group, outage.cause)).unwrap();
    };
    let sink = super::Held::new(16);
    let recording = events.recording().on_outage(on_outage).start(sink.clone()).unwrap();
    let setup = Setup { clock: crate::support::clock(), events, recording, sink, outages, losses };
    for name in ["a/0", "b/0"] {
        setup.store(name);
    }
    setup.record("a/1");
    setup.record("b/1");
    setup.sink.wait_for(&["a/1 Run", "b/1 Run"]);
    until(|| setup.recording.stats().unavailable_since.is_some());
    setup.fail("a/1 Run", no_answer());
    until(|| setup.recording.stats().last_failure.unwrap().text.contains("30s"));
    setup.fail("b/1 Run", no_answer());
    let told: Vec<_> = setup.outages.try_iter().filter(|text| text.starts_with("None")).collect();
    assert_eq!(told, ["None: Some(\"no answer from the sink for 1 s\")"]);
}
