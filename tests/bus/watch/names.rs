//! The names of watchers without a name.

use std::path::Path;

use eventcast::channel;

use crate::support::{bus, bus_with, on_both};

/// Each of these watchers is named by the line that registers it.
#[test]
fn a_watcher_without_a_name_has_the_name_of_its_place() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let weak = bus.downgrade();
        let named = |name: String, line: u32| assert_eq!(name, format!("tests/bus/watch/names.rs:{line}"));
        named(bus.watch().unwrap().stats().name, line!());
        named(bus.watch_builder().watch().unwrap().stats().name, line!());
        named(bus.watch_builder().spawn(|_| ()).unwrap().stats().name, line!());
        named(weak.watch().unwrap().stats().name, line!());
        named(weak.watch_builder().runner(|_| ()).unwrap().handle().stats().name, line!());
        named(channel::<u64>(1).1.stats().name, line!());
    });
}

/// The path of a dependency begins with a directory of the machine that compiled it.
#[test]
fn the_name_of_a_place_has_the_last_four_parts_of_its_path() {
    let bus = bus::<u64>(1, 1);
    let included = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bus/support/place.in"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(root.is_absolute());
    assert_eq!(included.stats().name, "tests/bus/support/place.in:1");
}
