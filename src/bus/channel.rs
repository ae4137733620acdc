//! The simplest kind of bus, which has one publisher and one watcher.

use super::broadcaster::Broadcaster;
use super::incoming::Publisher;
use super::options::BusOptions;
use super::policy::OverflowPolicy;
use super::watch::Watcher;

/// Builds a bus with one publisher and one watcher, like a bounded channel.
///
/// The bus is [inline](Broadcaster::new_inline), so it has no thread, and each event is in the
/// watcher's queue when its publish call returns. The watcher's policy is
/// [`Wait`](OverflowPolicy::Wait), so no event is dropped. While `capacity` events are in the queue
/// or borrowed by the watcher's reader, [`try_publish`](Publisher::try_publish) returns the event
/// in [`Full`](crate::error::PublishError::Full), and [`publish`](Publisher::publish) and
/// [`publish_async`](Publisher::publish_async) wait.
///
/// The bus closes when the last clone of the publisher is dropped. The watcher still receives every
/// accepted event before it ends. Unlike a channel's sender, the publisher does not get an error
/// after the watcher is dropped. Without a watcher, the bus discards its events.
///
/// For several watchers, another policy, or a dispatcher thread, build a [`Broadcaster`] instead.
///
/// # Panics
///
/// Panics if `capacity` is not between 1 and 16,777,216.
///
/// # Blocking
///
/// This function never waits.
///
/// # Examples
///
/// ```
/// use eventcast::Delivery;
///
/// let (publisher, mut watcher) = eventcast::channel(1024);
/// std::thread::spawn(move || publisher.publish("hello"));
/// assert_eq!(watcher.recv(), Ok(Delivery::Event("hello")));
/// assert!(watcher.recv().is_err()); // The thread has dropped the publisher.
/// ```
#[track_caller]
pub fn channel<T: Clone + Send + Sync + 'static>(capacity: usize) -> (Publisher<T>, Watcher<T>) {
    let options = BusOptions::default().inline(true).queue_capacity(capacity).overflow(OverflowPolicy::Wait);
    let bus = match Broadcaster::with_options(options) {
        Ok(bus) => bus,
        Err(error) => panic!("invalid capacity of a channel: {error}"),
    };
    let watcher = match bus.watch() {
        Ok(watcher) => watcher,
        // The bus is open, and no other call can be holding the bus's lock.
        Err(error) => unreachable!("no other thread has this bus: {error}"),
    };
    (Publisher::keeping_open(bus.incoming.clone()), watcher)
}
