//! How large must a queue be? This example shows the calculation and the three statistics that
//! verify the result, which are `high_water`, `dropped` and `lag`.
//!
//! ```sh
//! cargo run -p bus-examples --bin sizing
//! ```
//!
//! The load is a burst of 300 events every 100 ms, and the handler takes 200 µs per event.
//!
//! 1. Can the handler keep up at all? The handler is busy for 300 * 200 µs = 60 ms of every 100 ms,
//!    which is 60 %. Above 100 %, no queue is large enough.
//! 2. The events in a burst are published together, so the queue must hold a whole burst of 300
//!    events.
//! 3. Does the handler pause? During a pause of 100 ms, another burst is published, and its events
//!    are queued after the first burst. The two bursts make 600 events, which is the capacity you
//!    need unless the loss is acceptable.
//!
//! A larger queue uses memory only while it is filled. Once the capacity is large enough to avoid
//! losses, more capacity does not change the latency. The `eventcast size` command makes the same
//! measurement in real time and with your figures.
//!
//! This program simulates the load in steps without a clock, so each run prints the same figures.
//! One thread publishes and reads, so the bus is inline. A burst is in the queue when the publish
//! call returns, and there is no dispatcher to wait for.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use eventcast::Broadcaster;
use eventcast::stats::WatcherStats;

const BURST: u64 = 300;
/// The number of events that the handler can process between two bursts: 100 ms / 200 µs.
const HANDLED: u64 = 500;
const BURSTS: u64 = 10;
/// The burst after which the handler pauses for a whole period, because of a disk or a lock.
const PAUSE: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    writeln!(text, "QUEUE  OFFERED  DELIVERED  DROPPED  HIGH WATER")?;
    let mut marks = Vec::new();
    for queue_capacity in [100, 300, 600, 1000] {
        let stats = play(queue_capacity)?;
        let WatcherStats { offered, delivered, dropped, high_water, .. } = &stats;
        writeln!(
            text,
            "{queue_capacity:<7}{offered:<9}{delivered:<11}{:<9}{high_water}",
            // `incoming` is the only reason that depends on the capacity. `stopped` and `abandoned`
            // depend on how the watcher ends.
            dropped.incoming
        )?;
        marks.push((dropped.incoming, *high_water));
    }
    // A queue that has lost events was full, so its high-water mark equals its capacity and
    // provides no further information. Each burst lost 200 events, and the pause lost another 100
    // events.
    let missed = BURST - 100;
    assert_eq!(marks[0], (BURSTS * missed + 100, 100));
    // This queue is large enough for a burst, but too small for the pause.
    assert_eq!(marks[1], (BURST, 300));
    // These queues are large enough. The high-water mark shows the required capacity only if the
    // queue has not lost any events.
    assert_eq!(marks[2..], [(0, 600), (0, 600)]);
    writeln!(text, "the queue must hold {} events", marks[3].1)?;
    // It is not an error if the program that reads the output stops early, as in `| head -1`.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Simulates the load with a queue of the given capacity.
fn play(queue_capacity: usize) -> Result<WatcherStats, Box<dyn Error>> {
    let bus = Broadcaster::new_inline();
    let mut watcher = bus.watch_builder().name("handler").queue_capacity(queue_capacity).watch()?;
    for burst in 1..=BURSTS {
        bus.publisher().publish_batch(vec![burst; BURST as usize])?;
        if burst == PAUSE {
            // The lag reveals a slow watcher before the watcher loses events.
            assert!(watcher.stats().lag > 0);
            continue;
        }
        for _ in 0..HANDLED {
            if watcher.try_recv().is_err() {
                break;
            }
        }
    }
    bus.shutdown();
    // Read the events that are still in the queue at the end.
    while watcher.try_recv().is_ok() {}
    let stats = watcher.stats();
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total());
    Ok(stats)
}
