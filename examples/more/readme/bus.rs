//! The first program of README.md.

use eventcast::{Broadcaster, Delivery, OverflowPolicy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus = Broadcaster::new()?;
    let mut journal = bus.watch_builder().overflow(OverflowPolicy::Wait).watch()?;
    let screen = bus.watch_builder().queue_capacity(1).overflow(OverflowPolicy::DropOldest).watch()?;
    bus.publisher().publish_batch(["starting", "loading", "ready"])?;
    assert!(bus.shutdown().complete); // every accepted event has been offered to every watcher
    assert!(journal.events().eq(["starting", "loading", "ready"]));
    assert!(screen.into_iter().eq([Delivery::Lagged(2), Delivery::Event("ready")])); // the gap, in place
    Ok(())
}
