//! The asynchronous parts of watchers and handlers, which are `recv_async`, the stream, and awaited
//! handlers.

use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::{FusedStream, Stream};

use crate::bus::mailbox::{MailboxReceiver, Next};
use crate::error::RecvError;
use crate::sync::TURN;

use super::delivery::Delivery;
use super::handler::Runner;
use super::watcher::Watcher;

/// An asynchronous wait for a delivery. When the wait is dropped, whether it has completed or not,
/// it removes the task's waker from the wake cell. If the wait completed at its first poll, there
/// is no waker to remove.
struct Receiving<'i, T> {
    receiver: &'i mut MailboxReceiver<T>,
    has_waited: bool,
}

impl<T> Receiving<'_, T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let next = self.receiver.poll(cx.waker());
        self.has_waited |= next.is_pending();
        next
    }
}

impl<T> Drop for Receiving<'_, T> {
    fn drop(&mut self) {
        if self.has_waited {
            self.receiver.state.wake_cell.disarm_task();
        }
    }
}

impl<T> Watcher<T> {
    /// Waits for the next delivery asynchronously. See [`recv`](Self::recv).
    ///
    /// This method is cancel-safe. If the future is dropped before it completes, nothing has been
    /// received. The future has no timeout, so wrap it in your runtime's timeout if you need one.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] at the end of the stream, like [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics only if the event's `Clone` panics. The event then counts as delivered.
    ///
    /// # Examples
    ///
    /// `examples/more/async_tasks.rs` in the repository uses threads and tasks on one bus.
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().try_publish(7)?;
    /// let received = futures::executor::block_on(watcher.recv_async());
    /// assert_eq!(received, Ok(Delivery::Event(7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_async(&mut self) -> impl Future<Output = Result<Delivery<T>, RecvError>> + Send
    where
        T: Clone + Send + Sync,
    {
        async move {
            let next = self.next_async().await;
            self.delivery(next).ok_or(RecvError)
        }
    }

    /// Waits for an event, a gap or the end of the stream.
    pub(super) async fn next_async(&mut self) -> Next {
        let mut receiving = Receiving { receiver: self.receiver(), has_waited: false };
        poll_fn(|cx| receiving.poll(cx)).await
    }
}

/// A stream of the deliveries that [`recv_async`](Watcher::recv_async) returns. After the end,
/// every further call to `next()` returns the end again. If a `next()` future is dropped before it
/// completes, as in a `select!`, nothing has been received.
///
/// If a stream always has a delivery ready, it never makes its task yield. If the stream starves
/// other tasks, make its task yield occasionally.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use futures::StreamExt;
///
/// let bus = Broadcaster::<u32>::new()?;
/// let even = bus.watch()?.filter_map(|delivery| async move { delivery.event().filter(|n| n % 2 == 0) });
/// bus.publisher().publish_batch(vec![1, 2, 3, 4])?;
/// bus.close();
/// let even = futures::executor::block_on(even.collect::<Vec<_>>());
/// assert_eq!(even, [2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A watcher does not also implement `Iterator`, because a call to `next` would then be ambiguous:
///
/// ```compile_fail,E0034
/// use futures::{Stream, StreamExt};
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
///
/// struct Both;
///
/// impl Iterator for Both {
///     type Item = ();
///     fn next(&mut self) -> Option<()> {
///         None
///     }
/// }
///
/// impl Stream for Both {
///     type Item = ();
///     fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<()>> {
///         Poll::Ready(None)
///     }
/// }
///
/// async fn next() {
///     Both.next().await;
/// }
/// ```
impl<T: Clone> Stream for Watcher<T> {
    type Item = Delivery<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery<T>>> {
        let this = self.get_mut();
        this.receiver().poll(cx.waker()).map(|next| this.delivery(next))
    }
}

/// A `futures::select!` loop skips a watcher that has ended, and runs its `complete` branch once
/// all streams have ended. tokio's `select!` ignores this trait.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use futures::StreamExt;
///
/// let (letters, numbers) = (Broadcaster::new()?, Broadcaster::new()?);
/// let (mut a, mut b) = (letters.watch()?.into_events(), numbers.watch()?.into_events());
/// letters.publisher().publish_batch(["a", "b"])?;
/// numbers.publisher().publish(1)?;
/// letters.close();
/// numbers.close();
/// futures::executor::block_on(async {
///     let (mut text, mut sum) = (String::new(), 0);
///     loop {
///         futures::select! {
///             letter = a.next() => text.extend(letter),
///             number = b.next() => sum += number.unwrap_or(0),
///             complete => break,
///         }
///     }
///     assert_eq!((text.as_str(), sum), ("ab", 1));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: Clone> FusedStream for Watcher<T> {
    /// Returns whether a receive has returned the end, that is, whether
    /// [`end_reason`](Watcher::end_reason) returns a reason.
    fn is_terminated(&self) -> bool {
        self.end_reason().is_some()
    }
}

/// None of a runner's fields needs to be pinned.
impl<T, H> Unpin for Runner<T, H> {}

/// Handles deliveries like [`run`](Runner::run), on the executor that polls the runner. The handler
/// is still a plain function, so it should not block. After a hundred deliveries, the runner yields
/// to other tasks.
///
/// While a thread is polling the runner, that thread counts as one of the bus's own.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
/// use futures::future::join;
/// use std::time::Duration;
///
/// let bus = Broadcaster::new()?;
/// let mut sum = 0;
/// let runner = bus.watch_builder().runner(move |delivery: Delivery<&u32>| {
///     if let Delivery::Event(n) = delivery {
///         sum += n;
///         assert!(sum <= 6);
///     }
/// })?;
/// let handle = runner.handle();
/// bus.publisher().publish_batch(vec![1, 2, 3])?;
/// // On a runtime it would be spawned instead.
/// let ((), report) = futures::executor::block_on(join(runner, bus.shutdown_async(Duration::from_secs(10))));
/// assert!(report.complete);
/// assert_eq!((handle.stats().delivered, handle.stats().panics), (3, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T, H: FnMut(Delivery<&T>) -> R, R: Any> Future for Runner<T, H> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let _mark = this.enter();
        for _ in 0..TURN {
            let Some(receiver) = this.receiver() else { return Poll::Ready(()) };
            match receiver.poll(cx.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Next::Empty | Next::End) => {
                    this.finish();
                    return Poll::Ready(());
                }
                Poll::Ready(next) => this.handle_next(next),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
