//! The options of a bus, and the errors that name out-of-range options.

use eventcast::Delivery::Lagged;
use eventcast::OverflowPolicy::DropIncoming;
use eventcast::{Broadcaster, BusOptions};

use crate::support::{available, bus_with, inline_options, on_both};

/// Returns the option that an error names, and the error's text.
fn refusal(options: BusOptions) -> (String, String) {
    let error = Broadcaster::<u8>::with_options(options).unwrap_err();
    (error.option().to_owned(), error.to_string())
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    on_both(|options| {
        for (refused, name, range) in [
            (options.clone().incoming_capacity(0), "incoming_capacity", "1 to 16777216 entries, got 0"),
            (options.clone().queue_capacity(0), "queue_capacity", "1 to 16777216 events, got 0"),
            (options.clone().history(1 << 25), "history", "0 to 16777216 events, got 33554432"),
            (options.clone().max_batch(0), "max_batch", "1 to 65536 events, got 0"),
            (options.clone().max_batch(70_000), "max_batch", "1 to 65536 events, got 70000"),
        ] {
            assert_eq!(refusal(refused), (name.to_owned(), format!("{name} must be {range}")));
        }
        let bus = bus_with::<u8>(options);
        let error = bus.watch_builder().queue_capacity(0).watch().unwrap_err().to_string();
        assert_eq!(error, "queue_capacity must be 1 to 16777216 events, got 0");
        assert!(bus.watch_builder().name("a\0").watch().is_err());
    });
    let (_, text) = refusal(BusOptions::default().thread_name("a\0b"));
    assert_eq!(text, "thread_name must be a name without NUL, got a\\u{0}b");
}

/// If an option has no meaning without a thread, changing it from its default value causes an error
/// that names the option.
#[test]
fn options_of_the_thread_are_refused() {
    for (refused, name) in [
        (inline_options(1).thread_name("orders"), "thread_name"),
        (inline_options(1).direct_delivery(false), "direct_delivery"),
    ] {
        let (option, text) = refusal(refused.clone());
        assert_eq!(option, name);
        assert!(text.contains(name) && text.contains("inline"), "{text}");
        assert!(Broadcaster::<u8>::with_options(refused.inline(false)).is_ok());
    }
    // The default values are accepted, even if they are set explicitly.
    let defaults = inline_options(1).thread_name("eventcast").direct_delivery(true);
    assert!(Broadcaster::<u8>::with_options(defaults).is_ok());
}

/// `new_inline` creates a bus with the default options, and cannot fail.
#[test]
fn inline_has_the_default_options() {
    let bus = Broadcaster::new_inline();
    let mut watcher = bus.watch().unwrap();
    assert_eq!(watcher.stats().policy, Some(DropIncoming));
    bus.publisher().publish_batch(0..1001_u64).unwrap();
    let received = available(&mut watcher);
    assert_eq!((received.len(), received.last()), (1001, Some(&Lagged(1))));
}

/// The incoming queue is allocated together with the bus, and the size of the queue in bytes is
/// bounded. A larger size causes an error rather than an abort.
#[test]
fn an_incoming_queue_of_more_bytes_than_are_allowed_is_refused() {
    type Largest = [u8; 16 * 1024];
    let error =
        Broadcaster::<Largest>::with_options(BusOptions::default().incoming_capacity(1 << 24)).unwrap_err();
    assert_eq!(error.option(), "incoming_capacity");
    let text = error.to_string();
    let limits = text.strip_prefix("incoming_capacity must be up to ").and_then(|text| {
        let text = text.strip_suffix(" bytes, which the queue allocates up front, got 16777216")?;
        let (entries, bytes) = text.split_once(" entries of ")?;
        Some((entries.parse::<u64>().ok()?, bytes.parse::<u64>().ok()?))
    });
    let (entries, bytes) = limits.expect(&text);
    assert!(bytes >= size_of::<Largest>() as u64, "{text}");
    assert!(entries * bytes <= 1 << 32 && (entries + 1) * bytes > 1 << 32, "{text}");
    assert!(Broadcaster::<Largest>::with_options(BusOptions::default().incoming_capacity(1 << 4)).is_ok());
}
