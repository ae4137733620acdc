//! Threads and tasks publish to and read from one bus. After a second, or when Ctrl-C is pressed,
//! the program shuts down cleanly without losing events.
//!
//! ```sh
//! cargo run --release -p more-examples --bin async_tasks
//! ```
//!
//! The library is not tied to a runtime, because its futures wake the task that polls them, and its
//! threads block. All readers use the `Wait` policy, so the slowest reader sets the publishers'
//! pace. The bus has a dispatcher, because such a bus is faster for streams than an inline bus.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher};
use futures::StreamExt;
use tokio::sync::watch;
use tokio::task::{consume_budget, spawn_blocking};

/// How long the bus may take during the shutdown to offer the events that it has accepted.
const DRAIN: Duration = Duration::from_secs(30);

/// Publishes from a thread, which may block. Returns the number of accepted events.
fn publish_on_a_thread(publisher: &Publisher<u64>, stop: &watch::Receiver<bool>) -> u64 {
    // The thread does not check `stop` while it waits, but the readers soon free some capacity.
    let mut number = 0;
    while !*stop.borrow() && publisher.publish(number).is_ok() {
        number += 1;
    }
    number
}

/// Publishes from a task, which must not block its thread.
async fn publish_as_a_task(publisher: Publisher<u64>, mut stop: watch::Receiver<bool>) -> u64 {
    for number in 0.. {
        tokio::select! {
            biased;
            // A publish future that is waiting for capacity is dropped here, along with its event.
            _ = stop.wait_for(|stop| *stop) => return number,
            done = publisher.publish_async(number) => if done.is_err() { return number },
        }
        // A task that always finds capacity would starve the other tasks on its thread.
        consume_budget().await;
    }
    unreachable!("the numbers end after the program");
}

/// Prints the text. It is not an error if the output's reader stops early, as in `| head -1`.
fn show(text: &str) -> io::Result<()> {
    let shown = io::stdout().write_all(text.as_bytes());
    shown.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

async fn publish_for_a_second() -> io::Result<()> {
    show("publishing for a second, or until Ctrl-C\n")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = BusOptions::default().queue_capacity(256).overflow(OverflowPolicy::Wait);
    let bus = Broadcaster::<u64>::with_options(options)?;

    // This task reads the watcher as a stream.
    let mut stream = bus.watch_builder().name("stream").watch()?;
    let stream = tokio::spawn(async move {
        let mut events = 0_u64;
        while let Some(delivery) = stream.next().await {
            events += u64::from(matches!(delivery, Delivery::Event(_)));
            consume_budget().await;
        }
        events
    });
    // This thread takes everything in the queue as one batch.
    let mut batches = bus.watch_builder().name("batches").watch()?;
    let batches = spawn_blocking(move || {
        let mut events = 0;
        while let Ok(batch) = batches.recv_batch() {
            events += batch.len() as u64;
        }
        events
    });
    // This handler is awaited by a task. The bus waits for the handler during the shutdown.
    let handled = Arc::new(AtomicU64::new(0));
    let count = handled.clone();
    let runner = bus.watch_builder().name("handler").runner(move |delivery| {
        // Relaxed: the sum is read only after this task has ended.
        count.fetch_add(u64::from(matches!(delivery, Delivery::Event(_))), Ordering::Relaxed);
    })?;
    let runner = tokio::spawn(runner);

    let (stop, stopped) = watch::channel(false);
    let (publisher, end) = (bus.publisher(), stopped.clone());
    let thread = spawn_blocking(move || publish_on_a_thread(&publisher, &end));
    let task = tokio::spawn(publish_as_a_task(bus.publisher(), stopped));

    let why = tokio::select! {
        biased;
        done = tokio::signal::ctrl_c() => done.map(|()| "Ctrl-C")?,
        done = publish_for_a_second() => done.map(|()| "the clock")?,
    };
    // The shutdown proceeds from front to back. The publishers stop, the bus offers the events that
    // it has accepted, and the readers read to the end.
    stop.send_replace(true);
    let published = thread.await? + task.await?;
    let report = bus.shutdown_async(DRAIN).await;
    let read = (stream.await?, batches.await?);
    runner.await?;
    let handled = handled.load(Ordering::Relaxed);

    assert!(report.complete && report.bus.accepted == published);
    assert_eq!((read, handled), ((published, published), published));
    show(&format!("stopped by {why}\npublished by a thread and a task: {published}\n"))?;
    show(&format!("read from a stream: {}, in batches: {}, by a handler: {handled}\n", read.0, read.1))?;
    Ok(show("nothing was lost\n")?)
}
