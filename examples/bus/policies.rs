//! Twelve events are published while a watcher with a queue of four does not read. The watcher's
//! policy decides how many events the bus accepts, and which of them the watcher receives when it
//! reads again.
//!
//! ```sh
//! cargo run -p bus-examples --bin policies
//! ```
//!
//! The bus has a dispatcher, because this shows what waits in its incoming queue. An inline bus
//! (`Broadcaster::new_inline`) has no such queue, and accepts four events with `wait`.
//!
//! No policy loses events silently: offered = delivered + dropped, the statistics count the dropped
//! events by reason, and the watcher receives the number of missing events in place of them.

use std::error::Error;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::time::Duration;

use eventcast::bus::EndReason;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

const EVENTS: u64 = 12;
/// How long a publisher waits for room, at most.
const PATIENCE: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    let head = ["ACCEPTED", "OFFERED", "DELIVERED", "DROPPED"];
    writeln!(text, "{}", row("POLICY", head, "THE WATCHER RECEIVES"))?;
    for policy in [
        // Old events stay, and new ones are lost. A remote client sees where its stream has a hole.
        OverflowPolicy::DropIncoming,
        // The reader ends at the first event without room. A remote client comes back and goes on.
        OverflowPolicy::Evict,
        // New events stay. A screen shows the present, and a queue of one is a gauge.
        OverflowPolicy::DropOldest,
        // The bus waits for a moment. A journal that may lose an event, but not stop the others.
        OverflowPolicy::WaitFor(Duration::from_millis(1)),
        // The bus waits. A journal that must have every event, and must therefore be read.
        OverflowPolicy::Wait,
    ] {
        writeln!(text, "{}", publish_to_an_absent_reader(policy)?)?;
    }
    // A reader that has read enough, as in `| head -1`, is no error.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn publish_to_an_absent_reader(policy: OverflowPolicy) -> Result<String, Box<dyn Error>> {
    // The incoming queue has two places, and the dispatcher takes one event at a time. A real bus
    // has long queues. Here they are short, so that they are soon full.
    let bus = Broadcaster::with_options(BusOptions::default().incoming_capacity(2).max_batch(1))?;
    let mut reader = bus.watch_builder().name("reader").queue_capacity(4).overflow(policy).watch()?;

    // With `Wait` the dispatcher waits for the reader, and the publishers behind it. Seven events
    // find a place: four with the reader, one with the dispatcher, and two in the incoming queue.
    // The eighth publish gives up and returns its event. No event that was accepted is ever lost.
    let publisher = bus.publisher();
    let is_accepted = |number: &u64| publisher.publish_timeout(*number, PATIENCE).is_ok();
    let accepted = (1..=EVENTS).take_while(is_accepted).count() as u64;

    // The reader comes back when all is offered. With `Wait` that takes until the reader reads, so
    // the flush gives up.
    let flushed = bus.flush(PATIENCE);
    assert_eq!(flushed.is_ok(), policy != OverflowPolicy::Wait);
    bus.close();
    let mut found = Vec::new();
    for delivery in &mut reader {
        found.push(match delivery {
            Delivery::Event(number) => number.to_string(),
            Delivery::Lagged(missing) => format!("[{missing} missing]"),
        });
    }

    // Each event has exactly one fate. An evicted reader is offered no more.
    let stats = reader.stats();
    let dropped = stats.dropped.total();
    if reader.end_reason() == Some(EndReason::Evicted) {
        found.push("[evicted]".to_owned());
    } else {
        assert_eq!(stats.offered, accepted);
    }
    assert_eq!(stats.offered, stats.delivered + dropped);
    let counts = [accepted, stats.offered, stats.delivered, dropped].map(|count| count.to_string());
    Ok(row(&policy.to_string(), counts, &found.join(" ")))
}

fn row(policy: &str, counts: [impl Display; 4], received: &str) -> String {
    let [accepted, offered, delivered, dropped] = counts;
    format!("{policy:<15}{accepted:<10}{offered:<9}{delivered:<11}{dropped:<9}{received}")
}
