//! crossbeam-channel 0.5.17: the tests of a bounded channel, run against a bus with one watcher
//! whose policy is `Wait`.
//!
//! The sources are `array.rs`, `iter.rs`, `mpsc.rs` (std's tests of its channels), `ready.rs`,
//! `golang.rs` (Go's tests) and `thread_locals.rs` in `crossbeam-channel/tests`. A name without a
//! file is in `array.rs`, or in the file that a module names at its top. The sender consists of the
//! bus and one of its publishers. The receiver is an `EventWatcher`, because a watcher with `Wait`
//! has no losses for `Delivery` to report.
//!
//! These cases have no counterpart:
//!
//! - A capacity of zero: `zero.rs`, and the programs and select cases of `golang.rs` that rely on a
//!   rendezvous. Cases that only count on an end (`mpsc.rs`) run here with a capacity of one.
//! - Unlimited capacity: `list.rs`. The cases that `list.rs` shares with `array.rs` are here.
//! - Channels that a clock fills, and channels that are never filled: `after.rs`, `tick.rs`,
//!   `never.rs`.
//! - A receiver that is cloned, so that two share the values (`test_multi_consumer`), and a
//!   comparison of handles (`same_channel.rs`).
//! - The selection of an operation: `select.rs`, `select_macro.rs`, `recv_in_send`, and the select
//!   cases of `mpsc.rs`. A watcher can be waited for (`Select::ready`), but a publish cannot.

mod ends;
mod iterating;
#[cfg(feature = "select")]
mod select;
mod threads;
mod values;
mod waiting;

use std::time::Duration;

use eventcast::error::PublishError;
use eventcast::{Broadcaster, EventWatcher, OverflowPolicy, Publisher};

use crate::kinds::Kind;
use crate::support::LONG;

/// The sending half. Values are accepted until the last clone is dropped.
#[derive(Clone)]
struct Sender<T: Clone + Send + Sync + 'static> {
    kind: Kind,
    bus: Broadcaster<T>,
    publisher: Publisher<T>,
}

/// Returns a channel whose receiver queues `capacity` values.
///
/// Difference: a dispatcher takes values from an incoming queue, whose capacity is one value here.
/// The dispatcher holds another value while the receiver's queue is full.
fn bounded<T: Clone + Send + Sync + 'static>(kind: Kind, capacity: usize) -> (Sender<T>, EventWatcher<T>) {
    let options = kind.options().incoming_capacity(1).max_batch(1);
    let bus =
        Broadcaster::with_options(options.queue_capacity(capacity).overflow(OverflowPolicy::Wait)).unwrap();
    let receiver = bus.watch().unwrap().into_events();
    let sender = Sender { kind, publisher: bus.publisher(), bus };
    sender.settle();
    (sender, receiver)
}

impl<T: Clone + Send + Sync + 'static> Sender<T> {
    /// Returns the number of values that are accepted while the receiver's queue is full.
    fn beyond(&self) -> usize {
        match self.kind {
            Kind::Dispatcher => 2,
            Kind::Inline => 0,
        }
    }

    fn send(&self, value: T) -> Result<(), PublishError<T>> {
        self.publisher.publish(value)
    }

    fn try_send(&self, value: T) -> Result<(), PublishError<T>> {
        self.publisher.try_publish(value)
    }

    fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), PublishError<T>> {
        self.publisher.publish_timeout(value, timeout)
    }

    /// Sends a value that the queue has capacity for, and waits until the value is queued.
    fn put(&self, value: T) {
        assert!(self.send(value).is_ok());
        self.settle();
    }

    /// Waits until all sent values are in the queue.
    fn settle(&self) {
        self.bus.flush(LONG).unwrap();
    }

    /// Ends the channel, and waits until the receiver can observe the end after the values.
    ///
    /// Difference: after the last sender is dropped, a dispatcher still has to process the end.
    fn disconnect(self) {
        assert!(self.bus.shutdown().complete);
    }
}

impl Sender<usize> {
    /// Sends numbers from zero until the next send would have to wait, and returns how many numbers
    /// were sent.
    fn fill(&self, capacity: usize) -> usize {
        let accepted = capacity + self.beyond();
        for value in 0..accepted {
            self.send(value).unwrap();
        }
        accepted
    }
}
