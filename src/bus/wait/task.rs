//! Waiting as a task: the future of the async methods. It needs no runtime. It needs no thread
//! either, except the thread of the bus's timer while a task waits with a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::{Clock, Deadline};
use crate::sync::Arc;

use super::parking::{Place, TimedOut, WaitQueue, Wake};
use super::timer::{Timer, TimerEntry};

/// A future that waits in a queue, like [`WaitQueue::wait`] for a thread, for as long as it is
/// polled. When the future is dropped, it leaves the queue.
pub(crate) struct Waiting<'h, F> {
    clock: &'h Clock,
    place: Place<'h>,
    timer_entry: TimerEntry<'h>,
    deadline: Deadline,
    condition: F,
}

/// The future pins nothing that it holds.
impl<F> Unpin for Waiting<'_, F> {}

impl<'h, F> Waiting<'h, F> {
    pub(crate) fn new(
        clock: &'h Clock,
        timer: &'h Arc<Timer>,
        queue: &'h WaitQueue,
        deadline: Deadline,
        condition: F,
    ) -> Self {
        let (place, timer_entry) = (Place::new(queue), TimerEntry::new(timer));
        Self { clock, place, timer_entry, deadline, condition }
    }
}

impl<R, F: FnMut() -> Option<R>> Future for Waiting<'_, F> {
    type Output = Result<R, TimedOut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(result) = this.place.poll(Wake::Task(cx.waker().clone()), &mut this.condition) {
            return Poll::Ready(Ok(result));
        }
        if this.clock.has_passed(this.deadline) {
            return Poll::Ready(Err(TimedOut));
        }
        if this.timer_entry.set(this.deadline, cx.waker()).is_err() {
            // The system cannot start a thread for the timer. This thread therefore waits until the
            // deadline, at the task's place in the queue.
            let waited = this.place.wait(this.clock, this.deadline, &mut this.condition);
            return Poll::Ready(waited);
        }
        Poll::Pending
    }
}
