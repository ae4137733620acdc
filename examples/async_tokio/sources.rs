//! The sources of events: threads, which may wait as threads do, and tasks, which must not.

use eventcast::Publisher;
use tokio::sync::watch::Receiver;
use tokio::task::consume_budget;

use super::tally::Reading;

/// Publishes until `stop` is set or `events` are published. Returns how many were accepted.
pub(crate) fn thread(
    source: usize,
    events: u64,
    publisher: &Publisher<Reading>,
    stop: &Receiver<bool>,
) -> u64 {
    let mut number = 0;
    // While the thread waits for room, it does not look at `stop`. The readers go on, so there will
    // be room.
    while number < events && !*stop.borrow() && publisher.publish(Reading { source, number }).is_ok() {
        number += 1;
    }
    number
}

/// Publishes as `thread` does, in a task. If the task is waiting in a publish when `stop` is set,
/// that event is not published: the task drops the future, and the event with it.
pub(crate) async fn task(
    source: usize,
    events: u64,
    publisher: Publisher<Reading>,
    mut stop: Receiver<bool>,
) -> u64 {
    let mut number = 0;
    while number < events {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            done = publisher.publish_async(Reading { source, number }) => match done {
                Ok(()) => number += 1,
                Err(_) => break,
            },
        }
        // As long as there is room, nothing above waits, and a task that never waits does not let
        // other tasks use its thread.
        consume_budget().await;
    }
    number
}
