//! Twelve events are published while a watcher with a queue capacity of four does not read. The
//! watcher's policy determines how many events the bus accepts, and which of these events the
//! watcher receives when it reads again.
//!
//! ```sh
//! cargo run -p bus-examples --bin policies
//! ```
//!
//! The bus has a dispatcher so that the program can show which events wait in the incoming queue.
//! An inline bus (`Broadcaster::new_inline`) does not have an incoming queue, and accepts four
//! events with `wait`.
//!
//! No policy loses events silently. The number of offered events equals the number of delivered and
//! dropped events, the statistics count the dropped events by reason, and the watcher receives the
//! number of missing events at their position in the stream.

use std::error::Error;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::time::Duration;

use eventcast::bus::EndReason;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

const EVENTS: u64 = 12;
/// The maximum time that a publisher waits for capacity.
const PATIENCE: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    let head = ["ACCEPTED", "OFFERED", "DELIVERED", "DROPPED"];
    writeln!(text, "{}", row("POLICY", head, "THE WATCHER RECEIVES"))?;
    for policy in [
        // Old events are kept, and new events are lost. A remote client sees where events are
        // missing from its stream.
        OverflowPolicy::DropIncoming,
        // The bus ends the watcher at the first event that does not fit. A remote client then
        // reconnects and resumes.
        OverflowPolicy::Evict,
        // New events are kept. This policy suits a screen that shows the current state. With a
        // queue capacity of one, the watcher acts as a gauge.
        OverflowPolicy::DropOldest,
        // The bus waits briefly. This policy suits a journal that may lose an event but must not
        // block other watchers.
        OverflowPolicy::WaitFor(Duration::from_millis(1)),
        // The bus waits. This policy suits a journal that must receive every event, and whose
        // reader therefore must never stop.
        OverflowPolicy::Wait,
    ] {
        writeln!(text, "{}", publish_to_an_absent_reader(policy)?)?;
    }
    // It is not an error if the program that reads the output stops early, as in `| head -1`.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn publish_to_an_absent_reader(policy: OverflowPolicy) -> Result<String, Box<dyn Error>> {
    // The incoming queue holds two events, and the dispatcher takes one event at a time. A real bus
    // has longer queues. The queues are short here so that they fill up quickly.
    let bus = Broadcaster::with_options(BusOptions::default().incoming_capacity(2).max_batch(1))?;
    let mut reader = bus.watch_builder().name("reader").queue_capacity(4).overflow(policy).watch()?;

    // With `Wait`, the dispatcher waits for the reader, and the publishers wait for the dispatcher.
    // Seven events fit: four in the reader's queue, one in the dispatcher, and two in the incoming
    // queue. The eighth publish call times out and returns its event. No accepted event is ever
    // lost.
    let publisher = bus.publisher();
    let is_accepted = |number: &u64| publisher.publish_timeout(*number, PATIENCE).is_ok();
    let accepted = (1..=EVENTS).take_while(is_accepted).count() as u64;

    // The reader resumes after the flush, when all events have been offered. With `Wait`, offering
    // all events requires the reader to read, so the flush times out.
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

    // Each event has exactly one outcome. No further events are offered to an evicted reader.
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
