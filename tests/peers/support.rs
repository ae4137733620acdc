//! Helpers for tests from several sources: a channel with a capacity, and a function that joins
//! threads.

use std::thread::JoinHandle;

use eventcast::{Broadcaster, OverflowPolicy, Publisher, Watcher};

use crate::kinds::Kind;

pub(crate) use test_support::{LONG, until};

/// A bus that behaves like a broadcast channel. A full queue loses its oldest value, and a sent
/// value is in all queues when the send returns.
pub(crate) struct Channel<T: Clone + Send + Sync + 'static> {
    pub(crate) bus: Broadcaster<T>,
    pub(crate) publisher: Publisher<T>,
}

impl<T: Clone + Send + Sync + 'static> Channel<T> {
    pub(crate) fn new(kind: Kind, capacity: usize) -> Self {
        let options = kind.options().queue_capacity(capacity).overflow(OverflowPolicy::DropOldest);
        let bus = Broadcaster::with_options(options).unwrap();
        Self { publisher: bus.publisher(), bus }
    }

    /// Returns a watcher that receives all values sent from now on.
    pub(crate) fn subscribe(&self) -> Watcher<T> {
        let watcher = self.bus.watch().unwrap();
        self.settle();
        watcher
    }

    pub(crate) fn send(&self, value: T) {
        assert!(self.publisher.publish(value).is_ok());
        self.settle();
    }

    /// Waits until the dispatcher has processed everything requested before.
    pub(crate) fn settle(&self) {
        self.bus.flush(LONG).unwrap();
    }
}

/// Returns a channel with one receiver.
pub(crate) fn channel<T: Clone + Send + Sync + 'static>(
    kind: Kind,
    capacity: usize,
) -> (Channel<T>, Watcher<T>) {
    let channel = Channel::new(kind, capacity);
    let watcher = channel.subscribe();
    (channel, watcher)
}

/// Joins the threads, and fails if one of them panicked.
pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}
