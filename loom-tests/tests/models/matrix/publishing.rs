//! Rows whose operation publishes events.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::error::PublishError;
use eventcast::stats::ShutdownReport;
use eventcast::testing::{Payload, block_on};
use eventcast_loom_tests::numbers;

use super::row::{End, Row};

/// Checks that the report counts the accepted events and the event that filled the queue.
fn check_accepted(accepted: usize, report: Option<&ShutdownReport>) {
    if let Some(report) = report.filter(|report| report.complete) {
        assert_eq!(report.bus.accepted, accepted as u64 + 1);
    }
}

/// Checks that the report counts the accepted events, on a bus whose queue was empty at the start.
fn check_accepted_alone(accepted: usize, report: Option<&ShutdownReport>) {
    if let Some(report) = report.filter(|report| report.complete) {
        assert_eq!(report.bus.accepted, accepted as u64);
    }
}

/// Returns 1 if the event was accepted. Otherwise checks that the event was returned, and returns
/// 0.
fn accepted(number: u32, result: Result<(), PublishError<Payload>>) -> usize {
    match result {
        Ok(()) => 1,
        Err(PublishError::Closed(event) | PublishError::Full(event)) => {
            assert_eq!(event.number(), number);
            0
        }
        Err(error) => panic!("{error}"),
    }
}

/// If the event is accepted, the dispatcher offers it to a watcher. The watcher then ends.
pub(super) fn try_publish(end: End) {
    Row {
        incoming: 2,
        is_full: false,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| (bus.publisher(), bus.watch().unwrap()),
        act: |(publisher, watcher)| (accepted(1, publisher.try_publish(Payload::new(1))), watcher),
        check: |(accepted, mut watcher), report| {
            let wanted = if accepted == 1 { vec![1] } else { vec![] };
            assert_eq!(numbers(&mut watcher), (wanted, 0));
            check_accepted_alone(accepted, report);
        },
    }
    .against(end);
}

pub(super) fn publish_that_waits(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.publisher(),
        act: |publisher| accepted(1, publisher.publish(Payload::new(1))),
        check: check_accepted,
    }
    .against(end);
}

/// The timeout has already expired when the publisher begins to wait.
pub(super) fn publish_timeout(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.publisher(),
        act: |publisher| accepted(1, publisher.publish_timeout(Payload::new(1), Duration::ZERO)),
        check: check_accepted,
    }
    .against(end);
}

/// A batch is published in two pieces. The first piece fits and wakes the dispatcher, and the
/// second piece may have to wait. The first piece that is refused and all later pieces are
/// returned.
pub(super) fn publish_batch(end: End) {
    Row {
        incoming: 1,
        is_full: false,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.publisher(),
        act: |publisher| {
            let rest = match publisher.publish_batch(vec![Payload::new(1), Payload::new(2)]) {
                Ok(()) => Vec::new(),
                Err(PublishError::Closed(rest)) => rest.iter().map(Payload::number).collect(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(rest, [1, 2][2 - rest.len()..]);
            2 - rest.len()
        },
        check: check_accepted_alone,
    }
    .against(end);
}

pub(super) fn publish_async(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.publisher(),
        act: |publisher| accepted(1, block_on(publisher.publish_async(Payload::new(1)))),
        check: check_accepted,
    }
    .against(end);
}

pub(super) fn the_last_publishers_drop(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.publisher(),
        act: |publisher| {
            let result = publisher.try_publish(Payload::new(1));
            drop(publisher);
            accepted(1, result)
        },
        check: check_accepted,
    }
    .against(end);
}

/// A thread publishes through another handle to the broadcaster, which may wake the dispatcher, and
/// then drops the handle, which may be the last one.
pub(super) fn a_clone_of_the_broadcaster(end: End) {
    Row {
        incoming: 1,
        is_full: false,
        policy: OverflowPolicy::DropIncoming,
        set_up: Clone::clone,
        act: |bus| {
            let result = bus.publisher().try_publish(Payload::new(1));
            drop(bus);
            accepted(1, result)
        },
        check: check_accepted_alone,
    }
    .against(end);
}
