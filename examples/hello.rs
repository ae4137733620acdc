//! Records a few events, logs them, stores them with their counts, and shows what is stored.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use eventcast::EventType::{Normal, Warning};
use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = MemorySink::new();
    let events = EventBroadcaster::new()?;
    events.start_logging(|line| eprintln!("{line}"))?;
    events.start_recording_to_sink(store.clone())?;
    let recorder = events.new_recorder("hello");
    let disk = ObjectReference::new("Disk", "sda");
    recorder.event(&disk, Normal, "Mounted", "mounted on /");
    for percent in [97, 97, 98] {
        recorder.eventf(&disk, Warning, "AlmostFull", format_args!("{percent} % are used"));
    }
    println!("{}", events.shutdown_timeout(Duration::from_secs(5)));
    print!("{}", store.table());
    Ok(())
}
