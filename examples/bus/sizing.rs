//! How long must a queue be? The arithmetic, and the three statistics that check it: `high_water`,
//! `dropped` and `lag`.
//!
//! ```sh
//! cargo run -p bus-examples --bin sizing
//! ```
//!
//! The load is a burst of 300 events every 100 ms, for a handler that takes 200 µs for an event.
//!
//! 1. Can the handler keep up at all? It is busy for 300 * 200 µs = 60 ms of every 100 ms, which is
//!    60 %. Above 100 %, no queue is long enough.
//! 2. The events of a burst are published together, so the queue must hold a whole burst: 300
//!    events.
//! 3. Does the handler pause? During a pause of 100 ms another burst is published, and its events
//!    wait behind the first burst: 600 events. This is the capacity you need, unless the loss is
//!    acceptable.
//!
//! A longer queue takes memory only while it is filled. Capacity beyond the length that loses
//! nothing does not change the latency. The command `eventcast size` measures the same with real
//! time and your figures.
//!
//! This program simulates the load in steps without a clock, so each run prints the same figures.
//! One thread publishes and reads, so the bus is inline: a burst is in the queue when its publish
//! returns, and there is no dispatcher to wait for.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use eventcast::Broadcaster;
use eventcast::stats::WatcherStats;

const BURST: u64 = 300;
/// The number of events that the handler can do between two bursts: 100 ms / 200 µs.
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
            // Of the reasons, only this one depends on the capacity. `stopped` and `abandoned` are
            // about how the watcher ends.
            dropped.incoming
        )?;
        marks.push((dropped.incoming, *high_water));
    }
    // A queue that has lost events was full, so its high-water mark equals its capacity and reveals
    // nothing more. Each burst lost 200 events, and the pause another 100.
    let missed = BURST - 100;
    assert_eq!(marks[0], (BURSTS * missed + 100, 100));
    // Long enough for a burst, and too short for the pause.
    assert_eq!(marks[1], (BURST, 300));
    // Long enough. Only the mark of a queue that has lost nothing shows the capacity it needs.
    assert_eq!(marks[2..], [(0, 600), (0, 600)]);
    writeln!(text, "the queue must hold {} events", marks[3].1)?;
    // A reader that stops early, as in `| head -1`, is not an error.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Simulates the load against a queue of this capacity.
fn play(queue_capacity: usize) -> Result<WatcherStats, Box<dyn Error>> {
    let bus = Broadcaster::new_inline();
    let mut watcher = bus.watch_builder().name("handler").queue_capacity(queue_capacity).watch()?;
    for burst in 1..=BURSTS {
        bus.publisher().publish_batch(vec![burst; BURST as usize])?;
        if burst == PAUSE {
            // The lag reveals a slow watcher before it loses anything.
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
    // The events still in the queue at the end are read now.
    while watcher.try_recv().is_ok() {}
    let stats = watcher.stats();
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total());
    Ok(stats)
}
