//! Groups that the sink is not allowed to write to.

use std::time::Duration;

use eventcast::stats::RemoteState;

use crate::delivery::PAUSE;
use crate::support::{LONG, assert_balanced, away, until};

use super::{Setup, forbidden, setup};

/// Returns a recording whose group `bad` was refused once.
fn refused() -> Setup {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["good/0", "bad/0"]);
    setup.record_failing("bad/1", forbidden());
    assert_eq!(setup.outage(), "bad: forbidden: 403: cannot create resource \"events\"");
    setup
}

#[test]
fn a_refusal_that_ends_within_half_a_minute_loses_nothing() {
    let setup = refused();
    setup.record_all("bad", 2..=10);
    for number in 1..=20 {
        setup.store(&format!("good/{number}"));
    }
    setup.fail_a_probe(forbidden());
    setup.fail_a_probe(forbidden());
    setup.pass(PAUSE.saturating_sub(Duration::from_millis(1)));
    assert!(setup.sink.under_way().is_empty());
    setup.clock.advance(Duration::from_millis(1));
    setup.sink.finish(&setup.probe());
    assert_eq!(setup.outage(), "bad: works again");
    setup.store_until(|stats| stats.created == 2 + 20 + 10);
    assert_eq!(setup.stats().lost(), 0);
}

#[test]
fn after_half_a_minute_what_waits_is_rejected_and_one_event_at_a_time_probes() {
    let setup = refused();
    setup.record_all("bad", 2..=10);
    setup.wait_until_offered(12);
    setup.fail_a_probe(forbidden());
    setup.fail_a_probe(forbidden());
    assert_eq!(setup.stats().rejected, 0);
    setup.fail_a_probe(forbidden());
    until(|| setup.stats().rejected == 10);
    let lost: Vec<_> = (0..10).map(|_| setup.losses.recv_timeout(LONG).unwrap()).collect();
    assert!(lost.iter().all(|loss| *loss == ("bad".to_owned(), "rejected".to_owned(), 1)), "{lost:?}");
    assert!(setup.stats().last_refusal.unwrap().contains("cannot create"));
    // Later events wait for the next probe and share its outcome.
    setup.record_all("bad", 11..=13);
    setup.store("good/1");
    setup.fail_a_probe(forbidden());
    until(|| setup.stats().rejected == 13);
    assert!(setup.outages.try_recv().is_err(), "it was already reported");
    setup.record("bad/14");
    setup.pass(PAUSE);
    setup.sink.wait_for(&["bad/14 Run"]);
    setup.sink.finish("bad/14 Run");
    assert_eq!(setup.outage(), "bad: works again");
    setup.store("bad/15");
    assert_balanced(&setup.stats());
}

/// A server that is starting up refuses all clients at first. If it refuses a probe, the waiting
/// events must not all be sent.
#[test]
fn a_refusal_does_not_end_an_outage() {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["a/0", "b/0"]);
    setup.record_failing("a/1", away());
    until(|| setup.stats().unavailable_since.is_some());
    for number in 2..=10 {
        setup.record(&format!("a/{number}"));
        setup.record(&format!("b/{number}"));
    }
    setup.wait_until_offered(21);
    setup.fail_a_probe(forbidden());
    setup.fail_a_probe(forbidden());
    assert!(setup.stats().unavailable_since.is_some());
    setup.store_until(|stats| stats.created == 21);
    assert_eq!(setup.stats().lost(), 0);
    let reported: Vec<_> =
        setup.outages.try_iter().filter(|text| !text.contains("takes more than")).collect();
    assert_eq!(reported[..2], ["unavailable: connection refused", "works again"]);
    assert!(!reported.iter().any(|text| text.contains("forbidden")), "{reported:?}");
}

/// The half-minute period starts over if the store was unavailable in the meantime, for example
/// because a server was started twice.
#[test]
fn an_outage_between_two_refusals_costs_nothing() {
    let setup = refused();
    for _ in 0..6 {
        setup.fail_a_probe(away());
        until(|| setup.stats().unavailable_since.is_some());
    }
    for _ in 0..2 {
        setup.fail_a_probe(forbidden());
    }
    setup.pass(PAUSE);
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.sink.finish("bad/1 Run");
    until(|| setup.stats().created == 3);
    assert_eq!(setup.stats().lost(), 0);
}

/// The role allows creating events but not patching them. The patch is rejected after half a
/// minute, although other events in the group are written during that time.
#[test]
fn an_event_that_is_refused_among_others_that_are_not_is_rejected_after_half_a_minute() {
    let setup = refused();
    let (mut stored, mut number) = (2, 10);
    until(|| {
        number += 1;
        setup.record(&format!("bad/{number}"));
        setup.clock.advance(PAUSE);
        until(|| setup.sink.of("bad") > 0 || setup.stats().rejected == 1);
        for name in setup.sink.under_way() {
            if name == "bad/1 Run" {
                setup.sink.fail(&name, forbidden());
            } else {
                setup.sink.finish(&name);
                stored += 1;
            }
        }
        setup.stats().rejected == 1
    });
    until(|| {
        stored += setup.sink.store_all_but(&[]) as u64;
        setup.stats().created == stored
    });
    setup.store_until(|stats| stats.watcher.queued == 0);
    assert_balanced(&setup.stats());
}

/// The only group represents the whole store, so the recording reports that the store refuses
/// writes.
#[test]
fn the_state_of_a_recording_shows_why_it_waits() {
    let setup = setup(4, |builder| builder);
    let becomes = |state| until(|| setup.stats().state == state);
    assert_eq!((setup.stats().state, setup.stats().last_failure), (RemoteState::Connecting, None));
    setup.store("only/0");
    becomes(RemoteState::Ready);
    setup.record_failing("only/1", forbidden());
    becomes(RemoteState::Refused);
    let failure = setup.stats().last_failure.unwrap();
    assert_eq!((failure.text, failure.attempts), (forbidden().to_string(), 1));
    setup.fail_a_probe(away());
    becomes(RemoteState::Unavailable);
    setup.pass(PAUSE);
    setup.sink.finish(&setup.probe());
    becomes(RemoteState::Ready);
    setup.recording.stop();
    assert!(setup.recording.join(LONG));
    assert_eq!(setup.stats().state, RemoteState::Ended);
}
