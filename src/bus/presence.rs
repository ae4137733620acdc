//! Waiting for watchers to register or to be dropped.

use std::ops::RangeBounds;
use std::time::Duration;

use super::broadcaster::Broadcaster;

impl<T: Clone + Send + Sync + 'static> Broadcaster<T> {
    /// Waits until the [number of watchers](Self::watcher_count) is within a range, and returns
    /// whether it is. The range `1..` waits until the first watcher has registered, and `..=0`
    /// waits until the last one has been dropped.
    ///
    /// - The method checks the number whenever a watcher has registered or has been dropped. If the
    ///   number is within the range only briefly, the method may miss it. By the time the caller
    ///   uses the result, the number may have changed again.
    /// - If the range is `1..` and the result is `true`, the events that the caller publishes next
    ///   are offered to the watcher that has registered, unless it has been or is then stopped,
    ///   evicted or dropped.
    /// - Once the bus has ended, no watcher can register. If the number is then below the range,
    ///   the method returns `false` without waiting any longer. The readers may still be draining
    ///   their queues, so `..=0` continues to wait for them. After [`close`](Self::close), this
    ///   waits until every reader has finished.
    ///
    /// # Blocking
    ///
    /// Blocks for at most `timeout`, measured by the bus's clock. `Duration::MAX` means no limit.
    /// On a thread of this bus (in a handler, filter or hook), the method does not wait, because
    /// the bus may be waiting for that thread, and returns whether the number is within the range.
    /// In an async task, use `wait_watchers_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let for_client = bus.clone();
    /// let client = thread::spawn(move || {
    ///     let mut watcher = for_client.watch().unwrap();
    ///     watcher.recv().unwrap().event()
    /// });
    /// // The producer starts when the first client has arrived, and ends after the last one.
    /// assert!(bus.wait_watchers(1.., Duration::from_secs(10)));
    /// bus.publisher().publish("hello")?;
    /// assert!(bus.wait_watchers(..=0, Duration::from_secs(10)));
    /// assert_eq!(client.join().unwrap(), Some("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("wait_for_subscribers", "presence", "closed"))]
    #[must_use = "`false` means that the number of watchers is not within the range"]
    pub fn wait_watchers(&self, range: impl RangeBounds<usize>, timeout: Duration) -> bool {
        let bus = &self.incoming.bus;
        let deadline = bus.clock.deadline(if bus.is_current() { Duration::ZERO } else { timeout });
        bus.presence.get().wait(&bus.clock, deadline, || bus.has_watchers_in(&range)).unwrap_or(false)
    }

    /// Waits until the number of watchers is within a range, like
    /// [`wait_watchers`](Self::wait_watchers), but asynchronously and without a time limit.
    ///
    /// The result `false` means that the bus has ended, and that too few watchers are left. On a
    /// thread of this bus, the future does not wait. The future needs no timer thread. To limit the
    /// wait, wrap the future in your runtime's timeout. This method is cancel-safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let watcher = bus.watch()?;
    /// futures::executor::block_on(async {
    ///     assert!(bus.wait_watchers_async(1..).await);
    ///     drop(watcher);
    ///     assert!(bus.wait_watchers_async(..=0).await);
    ///     // The bus has ended, so no watcher will register.
    ///     bus.shutdown();
    ///     assert!(!bus.wait_watchers_async(1..).await);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("closed"))]
    pub fn wait_watchers_async(
        &self,
        range: impl RangeBounds<usize> + Send,
    ) -> impl Future<Output = bool> + Send {
        async move {
            let bus = &self.incoming.bus;
            let deadline = if bus.is_current() { bus.end_clock.deadline(Duration::ZERO) } else { None };
            let waiting = bus.waiting(bus.presence.get(), deadline, move || bus.has_watchers_in(&range));
            waiting.await.unwrap_or(false)
        }
    }
}
