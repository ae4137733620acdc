//! The options of a bus without a thread.

use std::sync::mpsc;
use std::thread;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest};
use eventcast::bus::Start;
use eventcast::{Broadcaster, BusOptions, Clock};

use crate::support::{LONG, available};

use super::support::{inline, options};

/// Returns the option that an error names, and the text.
fn refusal(options: BusOptions) -> (String, String) {
    let error = Broadcaster::<u8>::with_options(options).unwrap_err();
    (error.option().to_owned(), error.to_string())
}

#[test]
fn a_bus_has_a_thread_by_default() {
    assert_eq!(BusOptions::default(), BusOptions::default().inline(true).inline(false));
    assert_ne!(BusOptions::default(), BusOptions::default().inline(true));
}

/// An option that means nothing without a thread is an error that names it.
#[test]
fn options_of_the_thread_are_refused() {
    for (refused, name) in [
        (options(1).thread_name("orders"), "thread_name"),
        (options(1).direct_delivery(false), "direct_delivery"),
    ] {
        let (option, text) = refusal(refused.clone());
        assert_eq!(option, name);
        assert!(text.contains(name) && text.contains("inline"), "{text}");
        assert!(Broadcaster::<u8>::with_options(refused.inline(false)).is_ok());
    }
    // The default values are accepted, even if they are set.
    let defaults = options(1).thread_name("eventcast").direct_delivery(true);
    assert!(Broadcaster::<u8>::with_options(defaults).is_ok());
}

/// The other options have the same limits as with a thread.
#[test]
fn values_out_of_range_are_refused() {
    for (refused, name) in [
        (options(0), "queue_len"),
        (options(1).incoming_len(0), "incoming_len"),
        (options(1).max_batch(0), "max_batch"),
        (options(1).history(1 << 25), "history"),
    ] {
        assert_eq!(refusal(refused).0, name);
    }
    let bus = inline::<u8>(1);
    assert!(bus.watch_builder().queue_len(0).watch().is_err());
}

/// `inline()` is a bus with the default options, and cannot fail.
#[test]
fn inline_has_the_default_options() {
    let bus = Broadcaster::new_inline();
    let mut watcher = bus.watch().unwrap();
    assert_eq!(watcher.stats().policy, Some(DropIncoming));
    bus.publisher().publish_batch(0..1001_u64).unwrap();
    let received = available(&mut watcher);
    assert_eq!((received.len(), received.last()), (1001, Some(&Lagged(1))));
}

/// Each option that means something is used.
#[test]
fn the_other_options_are_used() {
    let options = options(2).overflow(DropOldest).max_batch(2).history(3);
    let bus = Broadcaster::with_clock(options, Clock::system()).unwrap();
    let mut watcher = bus.watch().unwrap();
    assert_eq!(watcher.stats().policy, Some(DropOldest));
    bus.publisher().publish_batch([1, 2, 3, 4]).unwrap();
    assert_eq!(available(&mut watcher), [Lagged(2), Event(3), Event(4)]);
    let builder = bus.watch_builder().queue_len(10).overflow(DropIncoming);
    let mut past = builder.start(Start::Oldest).watch().unwrap();
    assert_eq!(available(&mut past), [2, 3, 4].map(Event));
    bus.publisher().publish_batch(5..10).unwrap();
    assert_eq!(past.try_recv_batch().map(|batch| batch.len()), Ok(2));
}

/// A watcher's own options work as with a thread.
#[test]
fn a_watcher_has_its_own_options() {
    let bus = inline(10);
    let mut gauge = bus.watch_builder().name("gauge").queue_len(1).overflow(DropOldest).watch().unwrap();
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    assert_eq!(gauge.stats().name, "gauge");
    assert_eq!(available(&mut gauge), [Lagged(2), Event(3)]);
}

/// With a thread, filters run there. Without one, they run on the publishing thread.
#[test]
fn the_option_decides_where_filters_run() {
    for is_inline in [false, true] {
        let bus = Broadcaster::with_options(BusOptions::default().inline(is_inline)).unwrap();
        let (ran_tx, ran) = mpsc::channel();
        let filter = move |_: &u64| ran_tx.send(thread::current().id()).is_ok();
        let _watcher = bus.watch_builder().filter(filter).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        let here = thread::current().id();
        assert_eq!(ran.recv_timeout(LONG).map(|id| id == here), Ok(is_inline));
    }
}

#[test]
fn the_option_is_shown() {
    assert!(format!("{:?}", options(1)).contains("inline: true"));
    let bus = inline::<u8>(1);
    assert!(format!("{bus:?}").contains("inline: true"), "{bus:?}");
    assert!(format!("{:?}", bus.publisher()).contains("closed: false"));
    assert_ne!(options(1), options(1).inline(false));
}

/// The option comes from a configuration file like the others.
#[cfg(feature = "serde")]
#[test]
fn the_option_is_read_and_written() {
    let read: BusOptions = serde_json::from_str(r#"{"inline": true, "queue_len": 7}"#).unwrap();
    assert_eq!(read, options(7));
    assert_eq!(toml::from_str::<BusOptions>("inline = true\nqueue_len = 7").unwrap(), options(7));
    for options in [options(3), options(3).inline(false)] {
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<BusOptions>(&text).unwrap(), options);
        assert_eq!(toml::from_str::<BusOptions>(&toml::to_string(&options).unwrap()).unwrap(), options);
    }
    let left_out: BusOptions = serde_json::from_str("{}").unwrap();
    assert_eq!(left_out, BusOptions::default().inline(false));
    assert!(serde_json::from_str::<BusOptions>(r#"{"inline": 1}"#).is_err());
    let refused: BusOptions = toml::from_str("inline = true\nthread_name = 'orders'").unwrap();
    assert_eq!(refusal(refused).0, "thread_name");
}
