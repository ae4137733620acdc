//! Room that a reader gives back in the middle of a slice.
#![cfg(eventcast_loom)]

use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use eventcast_loom_tests::{Payload, explore_with};
use loom::thread;

/// A reader takes one event out of the middle of a slice and stays away, while the dispatcher goes to sleep for want of
/// just that room: it is woken. No preemption is needed for that to go wrong, only a late look at `wake_at`.
#[test]
fn room_in_the_middle_of_a_slice() {
    explore_with("room in the middle of a slice", 0, || {
        let options =
            BusOptions::default().incoming_len(2).queue_len(8).max_batch(9).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_options(options).expect("the options are in range");
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish_batch((0..9).map(Payload::new).collect()).unwrap();
        let reading = thread::spawn(move || {
            assert!(watcher.recv().unwrap().event().is_some());
            watcher
        });
        // The ninth fits as soon as the first has been read.
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        drop(reading.join().unwrap());
    });
}
