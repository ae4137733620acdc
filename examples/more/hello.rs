//! Records four events about a disk, logs them, stores them with their counts, and prints the
//! stored events.
//!
//! ```sh
//! cargo run -p more-examples --bin hello
//! ```
//!
//! `EventBroadcaster::new_inline()` needs one thread fewer than `new()?`. An inline broadcaster is
//! suitable for a program that records a few events an hour.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::sink::EventTable;
use eventcast::{EventBroadcaster, MemorySink, ObjectReference};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = MemorySink::new();
    let events = EventBroadcaster::new()?;
    events.log_to(|line| eprintln!("{line}"))?;
    events.record_to(store.clone())?;

    // A recorder never blocks, so any thread or task can use it.
    let recorder = events.recorder("hello");
    let disk = ObjectReference::new("Disk", "sda");
    recorder.event(&disk, Normal, "Mounted", "mounted on /");
    for percent in [97, 97, 98] {
        recorder.event(&disk, Warning, "AlmostFull", format_args!("{percent} % are used"));
    }

    // The log and the store have their own threads. The shutdown waits until both threads are done.
    let report = events.shutdown_timeout(Duration::from_secs(5));
    assert_eq!(store.len(), 3, "the repeat is a count");
    let table = EventTable::new(SystemTime::now()).rows(&store.events());
    let text = format!("{report:#}\n{table}");
    // If the program that reads the output stops early, as in `| head -1`, `println!` would panic.
    // Stopping early is not an error here.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
