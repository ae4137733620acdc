//! The future that the async methods use to wait. The future needs neither a runtime nor a thread,
//! except for the bus's timer thread while a task is waiting with a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::{Clock, Deadline};
use crate::sync::Arc;

use super::parking::{Place, TimedOut, WaitQueue, Wake};
use super::timer::{Timer, TimerEntry};

/// A future that waits in a queue. This type is the counterpart of [`WaitQueue::wait`] for tasks.
/// When the future is dropped, it leaves the queue.
pub(crate) struct Waiting<'h, F> {
    clock: &'h Clock,
    place: Place<'h>,
    timer_entry: TimerEntry<'h>,
    deadline: Deadline,
    condition: F,
}

/// None of the future's fields needs to be pinned.
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
            // The system cannot start the timer thread. The current thread therefore blocks in the
            // task's place in the queue, at most until the deadline.
            let waited = this.place.wait(this.clock, this.deadline, &mut this.condition);
            return Poll::Ready(waited);
        }
        Poll::Pending
    }
}
