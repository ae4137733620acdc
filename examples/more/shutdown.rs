//! Shows how a program shuts down without losing events, and what the report contains if the
//! deadline passes.
//!
//! ```sh
//! cargo run -p more-examples --bin shutdown
//! ```
//!
//! The shutdown proceeds from front to back: the publishers stop, the bus offers the events it has
//! accepted, and the readers read to the end. If a deadline ends the wait, the report shows what
//! was left.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::error::PublishError;
use eventcast::{
    Broadcaster, Event, EventBroadcaster, EventSink, ObjectReference, OverflowPolicy, SinkError,
};

/// A timeout that is longer than any step in this program takes.
const ENOUGH: Duration = Duration::from_secs(30);
/// A timeout that is too short for a reader that never reads. The last tenth, at most 50 ms, is
/// reserved for abandoning what remains. A busy machine may need all of the reserved time.
const SHORT: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    in_order(&mut text)?;
    by_deadline(&mut text)?;
    with_a_store_that_is_away(&mut text)?;
    // It is not an error if the program that reads the output stops early, as in `| head -1`.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// All accepted events are handled before the program exits. The buses here have a dispatcher, for
/// which the shutdown also waits.
fn in_order(out: &mut String) -> Result<(), Box<dyn Error>> {
    let bus = Broadcaster::new()?;
    // A handler runs on a thread of the bus, so the shutdown waits for the handler.
    let handler = bus.watch_builder().name("handler").spawn(|_| thread::sleep(Duration::from_millis(1)))?;
    // Your thread reads a watcher. The shutdown waits until all events are offered to the watcher.
    let mut reader = bus.watch_builder().name("reader").watch()?;

    let publisher = bus.publisher();
    publisher.publish_batch(1..=100)?;
    let report = bus.shutdown_timeout(ENOUGH);
    writeln!(out, "{report:#}")?;
    assert!(report.complete);
    assert_eq!(handler.stats().delivered, 100);
    // The reader's queue outlives the bus. The iterator ends after the last event.
    assert_eq!(reader.events().sum::<u32>(), 5050);
    assert_eq!((reader.stats().delivered, reader.stats().queued), (100, 0));

    // From now on, a publish call returns its event. A thread that receives `Closed` can end.
    assert_eq!(publisher.publish(101), Err(PublishError::Closed(101)));
    // Every later shutdown returns the same report, so any thread can obtain it.
    assert_eq!(bus.shutdown(), report);
    Ok(())
}

/// One reader never reads, and the bus must wait for that reader. Without a deadline, the program
/// would hang.
fn by_deadline(out: &mut String) -> Result<(), Box<dyn Error>> {
    let bus = Broadcaster::new()?;
    let mut stuck =
        bus.watch_builder().name("stuck").queue_capacity(2).overflow(OverflowPolicy::Wait).watch()?;
    bus.publisher().publish_batch(1..=10)?;
    let report = bus.shutdown_timeout(SHORT);
    // The watcher's line shows which watcher was stuck, and how many events were abandoned for it.
    writeln!(out, "{report:#}")?;
    assert!(!report.complete);
    let stats = &report.bus.watchers[0];
    assert_eq!((stats.offered, stats.dropped.abandoned, stats.queued), (10, 8, 2));
    // The two events in the queue are not lost, and can still be read.
    assert_eq!(stuck.events().collect::<Vec<_>>(), [1, 2]);
    Ok(())
}

/// A store that is always busy.
struct Away;

impl EventSink for Away {
    fn create(&self, _: &Event) -> Result<Event, SinkError> {
        Err(SinkError::retry("the store is being restarted"))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }
}

/// A recording retries a failed event up to 12 times. Once the shutdown has begun, each event is
/// attempted only once, so that an unavailable store does not delay the program's exit. The hook
/// receives the lost events and can write them elsewhere.
fn with_a_store_that_is_away(out: &mut String) -> Result<(), Box<dyn Error>> {
    let (tell, told) = std::sync::mpsc::channel();
    let events = EventBroadcaster::builder().on_loss(move |loss| _ = tell.send(loss.to_string())).build()?;
    let recording = events.record_to(Away)?;
    let recorder = events.recorder("shutdown");
    recorder.event(ObjectReference::new("Job", "backup"), Normal, "Done", "backed up");
    let report = events.shutdown_timeout(ENOUGH);
    writeln!(out, "{report:#}")?;
    assert!(!report.complete);
    assert_eq!((recording.stats().abandoned, recording.stats().lost()), (1, 1));
    for loss in told.try_iter() {
        writeln!(out, "lost: {loss}")?;
    }
    Ok(())
}
