//! A sick namespace loses only its own events, and the reports of the losses contain these events.

use std::time::Duration;

use eventcast::RetryPolicy;
use test_support::{LONG, until};

use super::load::{Load, record};
use crate::api_server::Webhook;

#[test]
fn a_namespace_that_refuses_everything_loses_each_of_its_events_and_no_other() {
    let webhook = Some(Webhook::Refuse500);
    let retry = RetryPolicy::default().attempts(2).delay(Duration::ZERO);
    let time = Duration::from_secs(1);
    let mut run = record(Load { webhook, retry, time, namespaces: 4, sick_rate: 20, ..Load::default() });
    let sick = run.outcome.sick as u64;
    until(|| run.lost().iter().map(|lost| lost.count).sum::<u64>() >= sick);
    let lost = run.lost();
    assert_eq!(lost.iter().map(|lost| lost.count).sum::<u64>(), sick, "{lost:?}");
    for lost in lost {
        assert_eq!(lost.namespaces.len() as u64, lost.count, "{lost:?}");
        assert!(lost.text.contains("too many attempts") && lost.text.contains("calling webhook"), "{lost:?}");
    }
    let outcome = &run.outcome;
    assert_eq!((outcome.stored(), outcome.sick_stored), (outcome.healthy, 0), "{outcome}");
    assert!(outcome.healthy_lost().is_empty(), "{:?}", outcome.healthy_lost());
    until(|| run.recording.stats().handled() == outcome.healthy as u64 + sick);
    assert_eq!(run.recording.stats().exhausted, sick);
}

/// The queue holds fewer events than the sick namespace records.
#[test]
fn a_namespace_that_hangs_loses_its_own_events_when_its_share_of_the_queue_is_full() {
    const QUEUE: usize = 64;
    let (webhook, queue_capacity) = (Some(Webhook::Hang(LONG)), Some(QUEUE));
    let time = Duration::from_secs(3);
    let run = record(Load { webhook, queue_capacity, time, sick_rate: 40, ..Load::default() });
    let outcome = &run.outcome;
    println!("{outcome}");
    assert_eq!(outcome.stored(), outcome.healthy, "{outcome}\n{}", outcome.stats);
    assert!(outcome.healthy_lost().is_empty(), "{:?}", outcome.healthy_lost());
    let lost: u64 = outcome.lost.iter().map(|lost| lost.count).sum();
    let named: usize = outcome.lost.iter().map(|lost| lost.namespaces.len()).sum();
    assert_eq!(named as u64, lost, "{:?}", outcome.lost);
    // Slow groups together hold at most half of the queue.
    let waiting = outcome.sick - lost as usize;
    assert!(outcome.sick_stored == 0 && waiting <= QUEUE / 2, "{waiting} wait: {outcome}");
}
