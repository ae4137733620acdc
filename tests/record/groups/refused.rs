//! Groups that the sink is not allowed to write.

use std::time::Duration;

use eventcast::SinkError;
use eventcast::sink::SinkErrorKind;
use eventcast::stats::RemoteState;

use super::{PAUSE, Setup, setup};
use crate::support::{LONG, assert_balanced, until};

const TEXT: &str = "User \"recorder\" cannot create resource \"events\" in the namespace \"bad\"";

fn forbidden() -> SinkError {
    SinkError::new(SinkErrorKind::Forbidden, TEXT)
}

/// A recording whose group `bad` was refused once.
fn refused() -> Setup {
    let setup = setup(16, |builder| builder);
    for name in ["good/0", "bad/0"] {
        setup.store(name);
    }
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.fail("bad/1 Run", forbidden());
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), format!("bad: forbidden: {}", shown()));
    setup
}

fn shown() -> String {
    TEXT.to_owned()
}

/// Moves the clock to the next probe of the closed group, which is refused.
fn refuse_a_probe(setup: &Setup) {
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    until(|| setup.sink.of("bad") == 1);
    let probe = setup.sink.under_way().into_iter().find(|name| name.starts_with("bad/")).unwrap();
    setup.fail(&probe, forbidden());
    until(|| setup.sink.of("bad") == 0);
}

#[test]
fn a_refusal_that_ends_within_half_a_minute_loses_nothing() {
    let setup = refused();
    for number in 2..=10 {
        setup.record(&format!("bad/{number}"));
    }
    for number in 1..=20 {
        setup.store(&format!("good/{number}"));
    }
    refuse_a_probe(&setup);
    refuse_a_probe(&setup);
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE.saturating_sub(Duration::from_millis(1)));
    assert!(setup.sink.under_way().is_empty());
    setup.clock.advance(Duration::from_millis(1));
    until(|| setup.sink.of("bad") == 1);
    let probe = setup.sink.under_way()[0].clone();
    setup.sink.finish(&probe);
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "bad: works again");
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.store_all_but(&[]);
        setup.recording.stats().created == 2 + 20 + 10
    });
    assert_eq!(setup.recording.stats().lost(), 0);
}

#[test]
fn after_half_a_minute_what_waits_is_rejected_and_one_event_at_a_time_probes() {
    let setup = refused();
    for number in 2..=10 {
        setup.record(&format!("bad/{number}"));
    }
    setup.wait_until_offered(12);
    refuse_a_probe(&setup);
    refuse_a_probe(&setup);
    assert_eq!(setup.recording.stats().rejected, 0);
    refuse_a_probe(&setup);
    until(|| setup.recording.stats().rejected == 10);
    let told: Vec<_> = (0..10).map(|_| setup.losses.recv_timeout(LONG).unwrap()).collect();
    assert!(told.iter().all(|loss| *loss == ("bad".to_owned(), "rejected".to_owned(), 1)), "{told:?}");
    assert!(setup.recording.stats().last_refusal.unwrap().contains("cannot create"));
    // Later events wait for the next probe, and share its fate.
    for number in 11..=13 {
        setup.record(&format!("bad/{number}"));
    }
    setup.store("good/1");
    refuse_a_probe(&setup);
    until(|| setup.recording.stats().rejected == 13);
    // It was said once.
    assert!(setup.outages.try_recv().is_err());
    setup.record("bad/14");
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["bad/14 Run"]);
    setup.sink.finish("bad/14 Run");
    assert_eq!(setup.outages.recv_timeout(LONG).unwrap(), "bad: works again");
    setup.store("bad/15");
    assert_balanced(&setup.recording.stats());
}

/// A server that comes back refuses everybody at first. Its refusal of a probe is no reason to send
/// it everything that waits.
#[test]
fn a_refusal_does_not_end_an_outage() {
    let setup = setup(16, |builder| builder);
    for name in ["a/0", "b/0"] {
        setup.store(name);
    }
    setup.record("a/1");
    setup.sink.wait_for(&["a/1 Run"]);
    setup.fail("a/1 Run", SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
    until(|| setup.recording.stats().unavailable_since.is_some());
    for number in 2..=10 {
        setup.record(&format!("a/{number}"));
        setup.record(&format!("b/{number}"));
    }
    setup.wait_until_offered(21);
    for _ in 0..2 {
        setup.clock.wait_for_waiters(1);
        setup.clock.advance(PAUSE);
        until(|| setup.sink.under_way().len() == 1);
        let probe = setup.sink.under_way()[0].clone();
        setup.fail(&probe, forbidden());
        until(|| setup.sink.under_way().is_empty());
    }
    assert!(setup.recording.stats().unavailable_since.is_some());
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.store_all_but(&[]);
        setup.recording.stats().created == 21
    });
    assert_eq!(setup.recording.stats().lost(), 0);
    let told: Vec<_> = setup.outages.try_iter().filter(|text| !text.contains("takes more than")).collect();
    assert_eq!(told[..2], ["unavailable: connection refused", "works again"]);
    assert!(!told.iter().any(|text| text.contains("forbidden")), "{told:?}");
}

/// The half minute begins again when the store has been away meanwhile, as when a server is started
/// twice.
#[test]
fn an_outage_between_two_refusals_costs_nothing() {
    let setup = refused();
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.fail("bad/1 Run", SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
    until(|| setup.recording.stats().unavailable_since.is_some());
    for _ in 0..5 {
        setup.clock.wait_for_waiters(1);
        setup.clock.advance(PAUSE);
        setup.sink.wait_for(&["bad/1 Run"]);
        setup.fail("bad/1 Run", SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
        until(|| setup.sink.under_way().is_empty());
    }
    for _ in 0..2 {
        setup.clock.wait_for_waiters(1);
        setup.clock.advance(PAUSE);
        setup.sink.wait_for(&["bad/1 Run"]);
        setup.fail("bad/1 Run", forbidden());
        until(|| setup.sink.under_way().is_empty());
    }
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.sink.finish("bad/1 Run");
    until(|| setup.recording.stats().created == 3);
    assert_eq!(setup.recording.stats().lost(), 0);
}

/// A role that allows to create and not to patch: the patch is rejected after half a minute,
/// although other events of the group are written meanwhile.
#[test]
fn an_event_that_is_refused_among_others_that_are_not_is_rejected_after_half_a_minute() {
    let setup = refused();
    let (mut stored, mut number) = (2, 10);
    until(|| {
        number += 1;
        setup.record(&format!("bad/{number}"));
        setup.clock.advance(PAUSE);
        until(|| setup.sink.of("bad") > 0 || setup.recording.stats().rejected == 1);
        for name in setup.sink.under_way() {
            let is_refused = name == "bad/1 Run";
            if is_refused {
                setup.sink.fail(&name, forbidden());
            } else {
                setup.sink.finish(&name);
            }
            stored += u64::from(!is_refused);
        }
        setup.recording.stats().rejected == 1
    });
    until(|| {
        stored += setup.sink.store_all_but(&[]) as u64;
        setup.recording.stats().created == stored
    });
    assert_balanced_soon(&setup);
}

fn assert_balanced_soon(setup: &Setup) {
    until(|| {
        setup.clock.advance(PAUSE);
        setup.sink.store_all_but(&[]);
        setup.recording.stats().watcher.queued == 0
    });
    assert_balanced(&setup.recording.stats());
}

/// The only group is the store, so the recording's state is that the store refuses.
#[test]
fn the_state_of_a_recording_shows_why_it_waits() {
    let setup = setup(4, |builder| builder);
    let stats = || setup.recording.stats();
    assert_eq!((stats().state, stats().last_failure), (RemoteState::Connecting, None));
    setup.store("only/0");
    until(|| stats().state == RemoteState::Ready);
    setup.record("only/1");
    setup.sink.wait_for(&["only/1 Run"]);
    setup.fail("only/1 Run", forbidden());
    until(|| stats().state == RemoteState::Refused);
    let failure = stats().last_failure.unwrap();
    assert_eq!((failure.text, failure.attempts), (format!("forbidden: {TEXT}"), 1));
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["only/1 Run"]);
    setup.fail("only/1 Run", SinkError::new(SinkErrorKind::Unavailable, "connection refused"));
    until(|| stats().state == RemoteState::Unavailable);
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
    setup.sink.wait_for(&["only/1 Run"]);
    setup.sink.finish("only/1 Run");
    until(|| stats().state == RemoteState::Ready);
    setup.recording.stop();
    assert!(setup.recording.join(LONG));
    assert_eq!(stats().state, RemoteState::Ended);
}
