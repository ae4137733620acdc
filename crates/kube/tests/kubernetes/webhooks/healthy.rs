//! Events in healthy namespaces are stored as fast with sick namespaces as without them, and none
//! of these events is lost.
//!
//! Each test measures a load twice, once without the webhook and once with it. The webhooks here
//! are faster than real webhooks, which may take 30 s, so that a test ends after a few seconds. A
//! healthy event may take as long as the slowest event without the webhook, plus [`TOLERANCE`],
//! plus the longest delay with which the machine woke a thread of the test itself. On an idle
//! machine, that delay is a few milliseconds. If a sick namespace delayed healthy namespaces, the
//! delay would be at least the response time of the sick namespace's webhook, which is longer.

use std::time::Duration;

use super::load::{Load, record};
use crate::api_server::Webhook;

/// How much longer a healthy event may take with the webhook than without it.
const TOLERANCE: Duration = Duration::from_millis(100);

/// The response time of a webhook that is slow but allows requests.
const SLOW: Duration = Duration::from_millis(600);
/// The timeout of a webhook that does not respond, as configured in the server.
const HANG: Duration = Duration::from_secs(2);

#[track_caller]
fn check(load: Load) {
    let without = record(Load { webhook: None, time: Duration::from_secs(3), ..load }).outcome;
    let with = record(load).outcome;
    let Load { webhook, sick, namespaces, .. } = load;
    println!("{sick} of {namespaces} sick, {webhook:?}\n  without: {without}\n  with: {with}");
    for outcome in [&without, &with] {
        assert_eq!(outcome.stored(), outcome.healthy, "stored: {outcome}\n{}", outcome.stats);
        assert!(outcome.healthy_lost().is_empty(), "{:?}", outcome.healthy_lost());
    }
    assert_eq!(without.stats.lost(), 0, "{}", without.stats);
    // Shows that the webhook was called, because only a slow webhook allows events.
    let is_slow = matches!(webhook, Some(Webhook::Slow(_)));
    assert_eq!(with.sick_stored > 0, is_slow, "{with}");
    let limit = without.max() + TOLERANCE + with.delay;
    assert!(with.max() <= limit, "the longest latency is over {limit:.1?}: {with}");
}

#[test]
fn beside_a_webhook_that_cannot_be_called() {
    check(Load { webhook: Some(Webhook::Refuse500), ..Load::default() });
}

#[test]
fn beside_a_webhook_that_denies_with_429_and_asks_for_a_delay() {
    check(Load { webhook: Some(Webhook::TooMany(5)), ..Load::default() });
}

#[test]
fn beside_a_webhook_that_denies_with_503() {
    check(Load { webhook: Some(Webhook::Unavailable503), ..Load::default() });
}

#[test]
fn beside_a_slow_webhook_that_allows() {
    check(Load { webhook: Some(Webhook::Slow(SLOW)), ..Load::default() });
}

#[test]
fn beside_a_webhook_that_hangs_until_its_own_timeout() {
    check(Load { webhook: Some(Webhook::Hang(HANG)), ..Load::default() });
}

#[test]
fn beside_a_webhook_that_hangs_until_the_sinks_timeout() {
    let timeout = Some(HANG / 2);
    check(Load { webhook: Some(Webhook::Hang(HANG)), timeout, ..Load::default() });
}

#[test]
fn beside_two_of_ten_webhooks_that_hang() {
    check(Load { webhook: Some(Webhook::Hang(HANG)), sick: 2, ..Load::default() });
}

#[test]
fn beside_ten_of_twenty_webhooks_that_hang() {
    check(Load { webhook: Some(Webhook::Hang(HANG)), namespaces: 20, sick: 10, ..Load::default() });
}
