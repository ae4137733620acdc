//! The memory of a history: the events, and the overhead that `docs/guarantees.md` specifies.
#![allow(clippy::cast_precision_loss, reason = "sizes of what is in memory")]

use eventcast::bus::Start;
use eventcast::{Broadcaster, BusOptions};
use test_support::{LONG, in_own_process, until};

use crate::counting::live;

const KEPT: usize = 10_000;

/// Publishes eight-byte events in batches of the given size, three times as many events as the
/// history keeps. For each event, returns the number of bytes that the history takes, and the
/// number of bytes taken by a reader that starts at the oldest event and reads nothing.
fn bytes_for_each(start: i64, batch: usize) -> (f64, f64) {
    let options = BusOptions::default().history(KEPT).max_batch(batch);
    let bus = Broadcaster::with_options(options).unwrap();
    bus.flush(LONG).unwrap();
    // The bus of the previous measurement has been freed by then.
    until(|| live() - start < 64 * 1024);
    let before = live();
    for _ in 0..3 * KEPT / batch {
        bus.publisher().publish_batch(vec![7_u64; batch]).unwrap();
    }
    bus.flush(LONG).unwrap();
    let kept = live() - before;
    let reader = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    bus.flush(LONG).unwrap();
    let replayed = live() - before - kept;
    assert_eq!(reader.len(), KEPT);
    (kept as f64 / KEPT as f64, replayed as f64 / KEPT as f64)
}

/// Larger batches are fewer in number, so their list becomes shorter.
#[test]
fn a_history_gives_back_what_its_list_no_longer_needs() {
    in_own_process!();
    let bus = Broadcaster::with_options(BusOptions::default().history(KEPT)).unwrap();
    bus.flush(LONG).unwrap();
    let before = live();
    for _ in 0..KEPT {
        bus.publisher().publish(7_u64).unwrap();
        bus.flush(LONG).unwrap();
    }
    for _ in 0..3 * KEPT / 250 {
        bus.publisher().publish_batch(vec![7; 250]).unwrap();
    }
    bus.flush(LONG).unwrap();
    let each = (live() - before) as f64 / KEPT as f64;
    assert!(each <= 8.5, "{each} bytes for an event");
}

#[test]
fn the_memory_of_a_history_matches_the_documents() {
    in_own_process!();
    let start = live();
    let (alone, reader) = bytes_for_each(start, 1);
    // The batch with the event takes 64 bytes, and its place in the list takes up to 16 bytes.
    assert!((64.0..=81.0).contains(&alone), "{alone} bytes for an event that was alone in its batch");
    assert!(reader <= 36.0, "{reader} bytes for each event that a reader is still to read");
    let (together, reader) = bytes_for_each(start, 250);
    assert!((8.0..=8.5).contains(&together), "{together} bytes for an event in a batch of 250");
    assert!(reader <= 0.5, "{reader} bytes for each event that a reader is still to read");
}
