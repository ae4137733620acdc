//! Who publishes: threads, which may wait as threads do, and tasks, which must not.

use eventcast::Publisher;
use tokio::sync::watch::Receiver;
use tokio::task::consume_budget;

use super::tally::Reading;

/// Publishes until it is told to stop or has published so many; says how many were accepted.
pub(crate) fn thread(
    source: usize,
    events: u64,
    publisher: &Publisher<Reading>,
    stop: &Receiver<bool>,
) -> u64 {
    let mut number = 0;
    // While it waits for room it does not look: the readers go on, so there will be room.
    while number < events && !*stop.borrow() && publisher.publish(Reading { source, number }).is_ok() {
        number += 1;
    }
    number
}

/// The same as a task. What it was about to publish when it is told to stop has not been published: then the future
/// is dropped, and takes the event with it.
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
        // As long as there is room nothing above waits, and a task that never waits leaves its thread to nobody.
        consume_budget().await;
    }
    number
}
