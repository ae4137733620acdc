//! Groups whose operations take a long time.

use std::time::Duration;

use crate::support::{assert_balanced, until};

use super::setup;

/// If an operation remains unanswered for this long, its group counts as slow.
const SLOW: Duration = Duration::from_millis(250);

/// Returns a recording with two groups that have received responses before. The group `bad` has
/// four operations under way that have gone unanswered for a long time.
fn slow() -> super::Setup {
    let setup = setup(16, |builder| builder);
    setup.store_all(&["good/0", "bad/0"]);
    setup.record_all("bad", 1..=4);
    until(|| setup.sink.of("bad") == 4);
    setup.pass(SLOW);
    setup
}

#[test]
fn a_slow_group_is_named_and_has_one_place() {
    let setup = slow();
    assert_eq!(setup.outage(), "bad: an operation has taken more than 250 ms");
    until(|| !setup.stats().degraded_groups.is_empty());
    let group = setup.stats().degraded_groups.remove(0);
    assert_eq!((&*group.group, &*group.text), ("bad", "an operation has taken more than 250 ms"));
    assert_eq!(setup.stats().unavailable_since, None, "the store answers other groups");
    setup.record_all("bad", 5..=8);
    // Answers the operations under way. Until these operations are answered, the group gets no
    // further places.
    for number in 1..=3 {
        setup.sink.finish(&format!("bad/{number} Run"));
    }
    until(|| setup.stats().created == 5);
    setup.sink.wait_for(&["bad/4 Run"]);
    setup.sink.finish("bad/4 Run");
    setup.sink.wait_for(&["bad/5 Run"]);
}

#[test]
fn other_groups_are_as_fast_as_without_a_slow_one() {
    let setup = slow();
    setup.outage();
    // The clock is not advanced, and none of the slow group's operations are answered.
    for number in 1..=100 {
        setup.store(&format!("good/{number}"));
        setup.record(&format!("bad/1{number}"));
    }
    until(|| setup.stats().created == 102);
    assert_eq!(setup.sink.of("bad"), 4);
}

#[test]
fn a_group_is_well_again_after_eight_quick_answers_in_a_row() {
    let setup = slow();
    setup.outage();
    for number in 1..=4 {
        setup.sink.finish(&format!("bad/{number} Run"));
    }
    until(|| setup.stats().created == 6);
    for number in 0..7 {
        setup.store(&format!("bad/2{number}"));
    }
    // A slow answer restarts the count of eight fast answers in a row.
    setup.record("bad/slow");
    setup.sink.wait_for(&["bad/slow Run"]);
    setup.clock.advance(SLOW);
    setup.sink.finish("bad/slow Run");
    for number in 0..7 {
        setup.store(&format!("bad/3{number}"));
    }
    assert!(setup.outages.try_recv().is_err());
    setup.store("bad/last");
    assert_eq!(setup.outage(), "bad: works again");
    until(|| setup.stats().degraded_groups.is_empty());
    assert_balanced(&setup.stats());
}

/// Ten of twenty groups hang. Together, the hanging groups use at most half of the places.
#[test]
fn slow_groups_have_half_of_the_places_together() {
    let setup = setup(16, |builder| builder);
    let all: Vec<String> = (0..20).map(|number| format!("ns-{number:02}")).collect();
    for group in &all {
        setup.store(&format!("{group}/0"));
    }
    let hanging: Vec<&str> = all[..10].iter().map(String::as_str).collect();
    for group in &hanging {
        setup.record(&format!("{group}/1"));
        until(|| setup.sink.of(group) == 1);
    }
    setup.pass(SLOW);
    for _ in 0..10 {
        assert!(setup.outage().ends_with("an operation has taken more than 250 ms"));
    }
    // The other groups use the remaining places.
    for number in 1..=50 {
        for group in &all[10..] {
            setup.record(&format!("{group}/{number}"));
        }
    }
    until(|| {
        setup.sink.store_all_but(&hanging);
        setup.stats().created == 20 + 500
    });
    // From now on, the hanging groups use at most half of the places, one place each, and take
    // turns.
    for group in &hanging {
        setup.record(&format!("{group}/2"));
        setup.record(&format!("{group}/3"));
    }
    let slow = || hanging.iter().map(|group| setup.sink.of(group)).sum::<usize>();
    let mut stored = 0;
    until(|| {
        let first = setup.sink.under_way()[0].clone();
        setup.sink.finish(&first);
        stored += 1;
        until(|| setup.stats().created == 520 + stored);
        assert!(hanging.iter().all(|group| setup.sink.of(group) <= 1));
        stored == 3
    });
    until(|| slow() == 8);
    let first = setup.sink.under_way()[0].clone();
    setup.sink.finish(&first);
    until(|| setup.stats().created == 524 && slow() == 8);
}

/// If the store takes equally long for all groups, no group counts as slow.
#[test]
fn a_group_is_slow_by_comparison_with_others() {
    let setup = setup(16, |builder| builder);
    for round in 0..5 {
        for group in ["a", "b"] {
            setup.record(&format!("{group}/{round}"));
        }
        until(|| setup.sink.under_way().len() == 2);
        setup.pass(Duration::from_millis(240));
        setup.sink.store_all_but(&[]);
        until(|| setup.stats().created == 2 * (round + 1));
    }
    // The limit is ten times as long as the other groups take, which is 2.4 s.
    setup.record("a/long");
    setup.sink.wait_for(&["a/long Run"]);
    setup.pass(Duration::from_millis(2_399));
    setup.clock.wait_for_waiters(1);
    assert!(setup.outages.try_recv().is_err());
    setup.clock.advance(Duration::from_millis(1));
    assert_eq!(setup.outage(), "a: an operation has taken more than 2400 ms");
}

/// The first group has taken the only place, so no other group has received a response with which
/// the first group could be compared.
#[test]
fn a_first_group_that_hangs_with_all_places_is_reported() {
    let setup = setup(1, |builder| builder);
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.record("good/1");
    setup.wait_until_offered(2);
    setup.pass(Duration::from_secs(1));
    assert_eq!(setup.outage(), "bad: an operation has taken more than 1000 ms");
}

/// In a group that rarely has anything to write, one slow response does not count forever.
#[test]
fn a_slow_group_without_anything_to_write_is_well_after_a_minute() {
    let setup = slow();
    setup.outage();
    for number in 1..=4 {
        setup.sink.finish(&format!("bad/{number} Run"));
    }
    until(|| setup.stats().created == 6);
    setup.clock.advance(Duration::from_secs(59));
    setup.store("good/1");
    assert!(setup.outages.try_recv().is_err());
    setup.clock.advance(Duration::from_secs(1));
    setup.store("good/2");
    assert_eq!(setup.outage(), "bad: works again");
    until(|| setup.stats().degraded_groups.is_empty());
}
