//! Models of a monitor that reports slow watchers. The monitor's thread waits for the end of the
//! bus, and the time between two checks does not pass, so loom reports a lost wake-up as a
//! deadlock.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::testing::{Exploration, begin, rest};
use eventcast_loom_tests::{bus, explore, inline_bus};

const AFTER: Duration = Duration::from_secs(3600);

/// A monitor starts on a bus that is being shut down. The shutdown waits for the monitor's thread.
fn a_monitor_against_a_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        bus.on_slow(AFTER, |_| ()).unwrap();
        let report = bus.shutdown();
        assert!(report.complete && report.threads_ended);
    });
}

/// The last handle of an inline bus is dropped, which ends the monitor.
fn a_monitor_against_the_last_drop() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        begin();
        bus.on_slow(AFTER, |_| ()).unwrap();
        drop(bus);
    });
}

models! {
    a_monitor_against_a_shutdown,
    a_monitor_against_the_last_drop,
}
