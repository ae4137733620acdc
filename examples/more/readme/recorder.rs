//! The second program of README.md.

use eventcast::{EventBroadcaster, MemorySink, ObjectReference};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (store, events) = (MemorySink::new(), EventBroadcaster::new()?);
    events.record_to(store.clone())?;
    let recorder = events.recorder("backup"); // `Send`, `Sync`, cheap to clone, never waits for a store
    for _ in 0..3 {
        recorder.warning(ObjectReference::new("Disk", "sda"), "AlmostFull", "97 % are used");
    }
    println!("{}", events.shutdown()); // what was accepted, stored and lost
    assert_eq!(store.events()[0].count, 3); // one stored event that happened three times
    Ok(())
}
